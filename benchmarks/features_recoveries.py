"""A server that was killed: how long until it answers again with all of its events."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

from benchmarks import features_events as made
from benchmarks.features_rounds import alternate, ratio_figure, spread_figure
from benchmarks.features_servers import Start, first_row, kill, ours, push_all, theirs
from benchmarks.load_job import Load
from benchmarks.server_process import Missing, pause
from benchmarks.server_stand import Stand, nothing
from penstock.cli.figure import Figure

_BATCHES: Final = 500
_SHORT_BATCHES: Final = 20
_KEYS: Final = 10_000
_TIMEOUT_S: Final = 30
_TRIES: Final = 3  # the peer may lose what it acknowledged
_SETTLE_POLLS: Final = 25  # until the peer has synced its log


def recovery_figures(stand: Stand) -> Iterator[Figure]:
    """Killed before either has a snapshot of its own accord: all events are folded again."""
    batches = made.batches(_SHORT_BATCHES if stand.rounds == 1 else _BATCHES, _KEYS)
    own, peer = alternate(stand, [_round(stand, start, batches) for start in (ours, theirs)])
    count = len(batches) * made.BATCH
    yield _time(f"from start to a row of {count:,} events", own)
    yield _time("  … beava", peer)
    title = "  … against beava"
    yield ratio_figure(title, own, peer, 1.0, lambda load: load.seconds, at_most=True)


def _time(name: str, loads: list[Load]) -> Figure:
    failure = next((load.failure for load in loads if load.failure), "")
    if failure:
        return nothing(name, "s", failure, at_most=True)
    return spread_figure(name, [load.seconds for load in loads], "s", "process start included")


def _round(stand: Stand, start: Start, batches: list[list[bytes]]) -> Callable[[int], Load]:
    def measure(number: int) -> Load:
        for _ in range(_TRIES):
            load = once()
            if not load.failure:
                break
        return load

    def once() -> Load:
        with stand.folder() as folder:
            with start(folder, made.PLAIN) as server:
                if isinstance(server, Missing):
                    return Load(failure=server.reason)
                push_all(server, batches)
                for _ in range(_SETTLE_POLLS):
                    pause()
                kill(server)
            began = time.perf_counter()
            with start(folder, None) as server:
                if isinstance(server, Missing):
                    return Load(failure=server.reason)
                stand.commands[server.command] = None
                seen = b'"orders":%d,' % len(batches)
                while seen not in (row := first_row(server)):
                    if time.perf_counter() > began + _TIMEOUT_S:
                        return Load(failure=f"{server.name} has lost events: {row[-200:]!r}")
                return Load(answers=len(batches), seconds=time.perf_counter() - began)

    return measure
