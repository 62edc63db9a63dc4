"""Events pushed and folded, a second; and what they cost with few and with many keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from benchmarks import features_events as made
from benchmarks.features_rounds import (
    alternate,
    failure_of,
    rate_figure,
    ratio_figure,
    spread_figure,
)
from benchmarks.features_servers import Start, ours, own_pour, push_all, their_pour, theirs
from benchmarks.load_job import Load, Pour
from benchmarks.server_process import Missing, Running, Server
from benchmarks.server_stand import Stand, nothing
from penstock.cli.figure import Figure

_KEYS: Final = 10_000
_BATCHES: Final = 200  # that are sent again and again
_CONNECTIONS: Final = 8
_GOALS: Final = {"10 plain features": (made.PLAIN, 1.0), "3 sketches of 10": (made.SKETCHES, 1.5)}
_FEW_KEYS: Final = 1_000
_MANY_KEYS: Final = 1_000_000
_MEMORY_GOAL_MIB: Final = 1024


def push_figures(stand: Stand) -> Iterator[Figure]:
    batches = made.batches(_BATCHES, _KEYS)
    pours = (
        own_pour(batches, stand.seconds, _CONNECTIONS),
        their_pour(batches, stand.seconds, _CONNECTIONS),
    )
    for title, (features, goal) in _GOALS.items():
        own, peer = alternate(
            stand,
            [
                _round(stand, start, features, pour)
                for start, pour in zip((ours, theirs), pours, strict=True)
            ],
        )
        note = "JSON in batches of 1,000, log on disk"
        yield rate_figure(f"push and fold, {title}", own, made.BATCH, note)
        note = "acknowledged before its disk"
        yield rate_figure("  … beava, frames in pipelines of 1,000", peer, made.BATCH, note)
        yield ratio_figure("  … against beava", own, peer, goal)


def _round(
    stand: Stand, start: Start, features: dict[str, made.Feature], pour: Pour
) -> Callable[[int], Load]:
    def measure(number: int) -> Load:
        with stand.folder() as folder, start(folder, features) as server:
            return stand.run(server, pour)

    return measure


def scale_figures(stand: Stand) -> Iterator[Figure]:
    """Two of our servers side by side, which idle at no cost: with few keys, and with many."""
    many_keys = _MANY_KEYS if stand.rounds > 1 else 10 * _FEW_KEYS
    with (
        stand.folder() as here,
        stand.folder() as there,
        ours(here, made.PLAIN) as few,
        ours(there, made.PLAIN) as many,
    ):
        measures = []
        for server, keys in ((few, _FEW_KEYS), (many, many_keys)):
            if isinstance(server, Running):
                push_all(server, made.each_key(keys))
            measures.append(_poured(stand, server, made.batches(max(200, keys // 1_000), keys)))
        by_few, by_many = alternate(stand, measures)
        name = "  … resident memory with 10 features"
        if isinstance(many, Missing):
            yield nothing(name, "MiB", many.reason)
            return
        yield rate_figure(f"push and fold, {_FEW_KEYS:,} keys", by_few, made.BATCH)
        yield rate_figure(f"push and fold, {many_keys:,} keys", by_many, made.BATCH)
        title = "  … CPU time an event, many keys by few"
        yield ratio_figure(title, by_many, by_few, 2.0, lambda load: load.server_us, at_most=True)
        if not failure_of(by_many):
            note = f"{many_keys:,} keys, after this load"
            memory = [resident_mib(many.pid)]
            yield spread_figure(name, memory, "MiB", note, _MEMORY_GOAL_MIB, at_most=True)


def _poured(stand: Stand, server: Server, batches: list[list[bytes]]) -> Callable[[int], Load]:
    """Each round counts the events of a marked user of its own."""

    def measure(number: int) -> Load:
        user = f"{made.MARKED}-{number}"
        pour = own_pour(made.marked_by(batches, user), stand.seconds, _CONNECTIONS)
        return stand.run(server, msgspec.structs.replace(pour, check=made.get_request(user)))

    return measure


def resident_mib(pid: int) -> float:
    """The memory of a process, without that of mapped files."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    return sum(int(fields[name].split()[0]) for name in ("RssAnon", "RssShmem")) / 1024
