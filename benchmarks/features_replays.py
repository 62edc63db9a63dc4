"""A table without a saved state, embedded: how long all of its events take."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from benchmarks import features_events as made
from benchmarks.features_rounds import spread_figure
from benchmarks.server_stand import Stand
from penstock.cli.figure import Figure
from penstock.engine.open_log import open_log

_EVENTS: Final = 1_000_000
_SHORT_EVENTS: Final = 20_000
_KEYS: Final = 10_000
_MADE: Final = 100  # batches, which are pushed again and again
_GOAL_S: Final = 60.0  # for a million


def replay_figures(stand: Stand) -> Iterator[Figure]:
    """Read from the segments of the log, decoded and folded, by one thread."""
    count = _SHORT_EVENTS if stand.rounds == 1 else _EVENTS
    batches = made.batches(min(_MADE, count // made.BATCH), _KEYS)
    times = []
    with stand.folder() as folder, open_log(folder, background=False) as log:
        log.features.register(made.definition(made.PLAIN))
        for at in range(count // made.BATCH):
            log.features.push(made.EVENT, batches[at % len(batches)])
        log.checkpoint(everything=True)
        ((held, _),) = log.features.view(made.TABLE).parts
        runner = held.runner
        for _ in range(stand.rounds):
            runner.rebuild()
            began, before = time.perf_counter(), runner.counts.records
            runner.catch_up()
            times.append(time.perf_counter() - began)
            if runner.counts.records - before != count:
                raise AssertionError(f"{runner.counts.records - before} events of {count}")
    goal = _GOAL_S if count == _EVENTS else None
    note = f"{count / max(times):,.0f} to {count / min(times):,.0f} events/s, {_KEYS:,} keys"
    yield spread_figure(f"replay of {count:,} events", times, "s", note, goal, at_most=True)
