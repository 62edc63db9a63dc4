"""A server that was killed long after it had saved its state: it folds what came after that."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from benchmarks import features_events as made
from benchmarks.features_rounds import spread_figure
from benchmarks.features_servers import first_row, kill, push_all
from benchmarks.server_own import calls, own_server
from benchmarks.server_process import DidNotStart, Missing, Running
from benchmarks.server_stand import Stand
from penstock.cli.figure import Figure
from penstock.engine.open_log import open_log

_KEYS: Final = 1_000_000
_SHORT_KEYS: Final = 20_000
_TAIL: Final = 50  # batches
_SHORT_TAIL: Final = 4
_TIMEOUT_S: Final = 60
# No state is saved while the tail is pushed.
_ENVIRONMENT: Final = {"PENSTOCK_PROJECTION_INTERVAL_MS": "3600000"}
_FOLDED: Final = re.compile(rb'penstock_projection_records_total\{kind="features",.*\} (\d+)')


class Restart(NamedTuple):
    """What a server was after a kill."""

    seconds: float  # from its start to the row of all events
    ready_ms: float  # as the table says
    folded: int  # records since the start
    rebuilds: int


def restart_figures(stand: Stand) -> Iterator[Figure]:
    """Each round kills a server whose state is saved, with a tail of events behind it."""
    is_short = stand.rounds == 1
    keys, batches = (_SHORT_KEYS, _SHORT_TAIL) if is_short else (_KEYS, _TAIL)
    tail = made.batches(batches, keys)
    found = []
    for _ in range(stand.rounds):
        with stand.folder() as folder:
            filled(folder, keys)
            found.append(restarted(stand, folder, tail))
    count = batches * made.BATCH
    note = f"{keys:,} keys in the saved state, {count:,} events behind it, process start included"
    title = "killed with a saved state: to the first row"
    yield spread_figure(title, [one.seconds for one in found], "s", note)
    note = "from the start of the table to its first time at the head"
    yield spread_figure("  … ready_ms", [one.ready_ms for one in found], "ms", note)
    excess = [float(abs(one.folded - count) + one.rebuilds) for one in found]
    note = f"only the {count:,} behind the state are folded, and it is not built again"
    title = "  … records folded besides those"
    yield spread_figure(title, excess, "records", note, 0.0, at_most=True)


def filled(folder: str, keys: int) -> None:
    """A data directory with a saved state of so many keys."""
    with open_log(os.path.join(folder, "data"), background=False) as log:
        log.features.register(made.definition(made.PLAIN))
        for batch in made.each_key(keys):
            log.features.push(made.EVENT, batch)
        ((held, _),) = log.features.view(made.TABLE).parts
        held.runner.catch_up()
        if not held.runner.save():
            raise DidNotStart(f"the state was not saved: {held.runner.counts.snapshot_error}")


def restarted(stand: Stand, folder: str, tail: list[list[bytes]]) -> Restart:
    """Push the tail, kill the server, start it again."""
    with own_server(folder, _ENVIRONMENT) as server:
        _check(server)
        if isinstance(server, Running):
            push_all(server, tail)
            kill(server)
    began = time.perf_counter()
    with own_server(folder, _ENVIRONMENT) as server:
        _check(server)
        if not isinstance(server, Running):
            raise DidNotStart("no server")
        stand.commands[server.command] = None
        seen = b'"orders":%d,' % len(tail)
        while seen not in (row := first_row(server)):
            if time.perf_counter() > began + _TIMEOUT_S:
                raise DidNotStart(f"{server.name} has lost events: {row[-200:]!r}")
        seconds = time.perf_counter() - began
        part = _status(server)
        folded = _FOLDED.search(_get(server, "/v0/metrics"))
        if folded is None:
            raise DidNotStart("the metrics do not tell how many records were folded")
        return Restart(seconds, part["ready_ms"], int(folded[1]), part["rebuilds"])


def _check(server: Running | Missing) -> None:
    if isinstance(server, Missing):
        raise DidNotStart(server.reason)


def _status(server: Running) -> dict[str, Any]:
    answer = _get(server, f"/v0/features/tables/{made.TABLE}")
    (part,) = msgspec.json.decode(answer, type=dict[str, Any])["table"]["parts"]
    found: dict[str, Any] = part
    return found


def _get(server: Running, path: str) -> bytes:
    with calls(server.port) as call:
        return call.raw("GET", path, b"")
