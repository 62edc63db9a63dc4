"""Snapshots, embedded: how fast one is loaded, and what one under way costs the fold."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from typing import Final

from benchmarks import features_events as made
from benchmarks.features_rounds import spread_figure
from benchmarks.server_stand import Stand
from penstock.cli.figure import Figure
from penstock.engine.engine import Log
from penstock.engine.open_log import open_log
from penstock.errors import NotReady
from penstock.projections.runner import INTERVAL_MS, ProjectionRunner

_KEYS: Final = 1_000_000
_SHORT_KEYS: Final = 20_000
_LOAD_GOAL: Final = 350.0  # MB/s: 10 GB in 30 s
_COST_GOAL: Final = 5.0  # percent
_BATCHES: Final = 200
_POLL_S: Final = 0.002


def snapshot_figures(stand: Stand) -> Iterator[Figure]:
    keys = _SHORT_KEYS if stand.rounds == 1 else _KEYS
    with stand.folder() as folder:
        with open_log(folder) as log:
            log.features.register(made.definition(made.PLAIN))
            for batch in made.each_key(keys):
                log.features.push(made.EVENT, batch)
            _runner(log).catch_up()
            yield from _under_way(stand, log, keys)
        yield from _loaded(stand, folder, keys)


def _runner(log: Log) -> ProjectionRunner:
    ((held, _),) = log.features.view(made.TABLE).parts
    return held.runner


def _loaded(stand: Stand, folder: str, keys: int) -> Iterator[Figure]:
    """From the file, which is in the page cache, to a state that answers."""
    rates, waits = [], []
    size = 0
    for _ in range(stand.rounds):
        with open_log(folder) as log:
            took = _first_row_s(log)
            size = _runner(log).counts.snapshot_bytes
            waits.append(took)
            rates.append(size / took / 1e6)
    note = f"{keys:,} keys, {size / 1e6:,.0f} MB in {statistics.median(waits):.2f} s, one core"
    yield spread_figure("snapshot, load", rates, "MB/s", note, _LOAD_GOAL)


def _first_row_s(log: Log) -> float:
    began = time.perf_counter()
    while True:
        try:
            log.features.get(made.TABLE, made.MARKED)
        except NotReady:  # a thread of the log is loading it
            threading.Event().wait(_POLL_S)
        else:
            return time.perf_counter() - began


def _under_way(stand: Stand, log: Log, keys: int) -> Iterator[Figure]:
    """Equal pieces of folding, by turns without a snapshot and with one after another."""
    runner = _runner(log)
    batches = made.batches(_BATCHES, keys)
    bare: list[float] = []
    busy: list[float] = []
    pauses: list[float] = []
    saves: list[float] = []
    for _ in range(2 * stand.rounds + 1):
        bare.append(_fold(log, runner, batches, stand.seconds)[0])
        is_over = threading.Event()
        saver = threading.Thread(target=_save, args=(runner, is_over, saves))
        saver.start()
        try:
            rate, longest = _fold(log, runner, batches, stand.seconds)
        finally:
            is_over.set()
            saver.join()
        busy.append(rate)
        pauses.append(longest)
    size = runner.counts.snapshot_bytes
    note = f"{size / 1e6:,.0f} MB, {keys:,} keys"
    yield spread_figure("snapshot, save", saves, "s", note)
    yield spread_figure("  … fold without one", bare, "events/s", "push and fold, embedded")
    yield spread_figure("  … fold with one under way", busy, "events/s", "one after another")
    costs = [100 * (1 - one / other) for one, other in zip(busy, bare, strict=True)]
    yield spread_figure("  … cost while one is under way", costs, "%", "", _COST_GOAL, at_most=True)
    share = statistics.median(saves) / max(statistics.median(saves), INTERVAL_MS / 1000)
    note = f"{100 * share:.0f} % of the time, at one each {INTERVAL_MS // 1000} s"
    costs = [cost * share for cost in costs]
    yield spread_figure("  … cost in all", costs, "%", note, _COST_GOAL, at_most=True)
    yield spread_figure("  … longest batch meanwhile", pauses, "ms", "1,000 events")


def _fold(
    log: Log, runner: ProjectionRunner, batches: list[list[bytes]], seconds: float
) -> tuple[float, float]:
    """(events a second, the longest batch in ms)"""
    began = last = time.perf_counter()
    done, longest = 0, 0.0
    while last < began + seconds:
        for batch in batches:
            log.features.push(made.EVENT, batch)
            runner.read_own()
            now = time.perf_counter()
            longest, last = max(longest, now - last), now
            done += len(batch)
            if now > began + seconds:
                break
    return done / (last - began), longest * 1000


def _save(runner: ProjectionRunner, is_over: threading.Event, saves: list[float]) -> None:
    while not is_over.is_set():
        began = time.perf_counter()
        if runner.save():
            saves.append(time.perf_counter() - began)
        is_over.wait(0.01)
