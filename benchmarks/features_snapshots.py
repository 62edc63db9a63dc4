"""Snapshots, embedded: how fast one is loaded, and what one under way costs the fold."""

from __future__ import annotations

import itertools
import statistics
import threading
import time
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from benchmarks import features_events as made
from benchmarks.features_rounds import spread_figure
from benchmarks.server_stand import Stand
from penstock.cli.figure import Figure
from penstock.engine.engine import Log
from penstock.engine.open_log import open_log
from penstock.projections.pool import SPREAD
from penstock.projections.runner import ProjectionRunner

_KEYS: Final = 1_000_000
_SHORT_KEYS: Final = 20_000
_LOAD_GOAL: Final = 350.0  # MB/s: 10 GB in 30 s
_COST_GOAL: Final = 5.0  # percent
_PAUSE_GOAL: Final = 100.0  # ms
_SAVE_MAX_S: Final = 120.0


def snapshot_figures(stand: Stand) -> Iterator[Figure]:
    keys = _SHORT_KEYS if stand.rounds == 1 else _KEYS
    with stand.folder() as folder:
        with open_log(folder, background=False) as log:
            log.features.register(made.definition(made.PLAIN))
            for batch in made.each_key(keys):
                log.features.push(made.EVENT, batch)
            runner_of(log).catch_up()
            yield from _under_way(stand, log, keys)
        found = loads(stand, folder, background=False)
    yield from load_figures("snapshot, load", found, keys)


def runner_of(log: Log) -> ProjectionRunner:
    ((held, _),) = log.features.view(made.TABLE).parts
    return held.runner


class Loaded(NamedTuple):
    """A snapshot that was loaded."""

    size: int
    seconds: float
    cpu_s: float

    @property
    def megabytes_per_s(self) -> float:
        return self.size / self.seconds / 1e6


def loads(stand: Stand, folder: str, **settings: Any) -> list[Loaded]:
    """From the file, which is in the page cache, to a state that can be read; once a round."""
    found = []
    for _ in range(stand.rounds):
        with open_log(folder, **settings) as log:
            runner = runner_of(log)
            began, cpu = time.perf_counter(), time.thread_time()
            runner.restore()
            times = time.perf_counter() - began, time.thread_time() - cpu
            found.append(Loaded(runner.counts.snapshot_bytes, *times))
    return found


def load_figures(name: str, found: list[Loaded], keys: int) -> Iterator[Figure]:
    size, wait = found[0].size, statistics.median(one.seconds for one in found)
    note = f"{keys:,} keys, {size / 1e6:,.0f} MB in {wait:.2f} s, one thread"
    yield spread_figure(name, [one.megabytes_per_s for one in found], "MB/s", note, _LOAD_GOAL)
    by_cpu = [one.size / one.cpu_s / 1e6 for one in found]
    yield spread_figure("  … the same by CPU time", by_cpu, "MB/s", "", _LOAD_GOAL)


def _under_way(stand: Stand, log: Log, keys: int) -> Iterator[Figure]:
    """By turns, folding without a snapshot, and for as long as one is written."""
    runner = runner_of(log)
    batches = made.batches(max(200, keys // 1_000), keys)
    bare: list[_Folded] = []
    busy: list[_Folded] = []
    saves: list[float] = []
    for _ in range(stand.rounds):
        bare.append(_fold(log, runner, batches, stand.seconds))
        is_over = threading.Event()
        saver = threading.Thread(target=_save, args=(runner, is_over, saves))
        saver.start()
        try:
            busy.append(_fold(log, runner, batches, _SAVE_MAX_S, is_over))
        except BaseException:
            runner.hurry()
            raise
        finally:
            saver.join()
    size = runner.counts.snapshot_bytes
    note = f"{size / 1e6:,.0f} MB, {keys:,} keys, spread over a part of the interval"
    yield spread_figure("snapshot, save", saves, "s", note)
    rates = [one.per_second for one in bare]
    yield spread_figure("  … fold without one", rates, "events/s", "push and fold, one thread")
    rates = [one.per_second for one in busy]
    note = "from its beginning to its end"
    yield spread_figure("  … fold with one under way", rates, "events/s", note)
    costs = [100 * (1 - one.per_second / other.per_second) for one, other in _pairs(busy, bare)]
    yield spread_figure("  … cost while one is under way", costs, "%", "", _COST_GOAL, at_most=True)
    costs = [100 * (one.cpu_us / other.cpu_us - 1) for one, other in _pairs(busy, bare)]
    note = "which other work on the machine disturbs least"
    title = "  … the same by CPU time of the fold"
    yield spread_figure(title, costs, "%", note, _COST_GOAL, at_most=True)
    longest = [1000 * one.longest_s for one in busy]
    without = statistics.median(1000 * one.longest_s for one in bare)
    note = f"for 1,000 events; without a snapshot {without:.2f}"
    title = "  … longest pause of the fold meanwhile"
    yield spread_figure(title, longest, "ms", note, _PAUSE_GOAL, at_most=True)


class _Folded(NamedTuple):
    per_second: float
    cpu_us: float  # of an event, in this thread
    longest_s: float  # of a batch


def _pairs(one: list[_Folded], other: list[_Folded]) -> Iterator[tuple[_Folded, _Folded]]:
    return zip(one, other, strict=True)


def _fold(
    log: Log,
    runner: ProjectionRunner,
    batches: list[list[bytes]],
    seconds: float,
    is_over: threading.Event | None = None,
) -> _Folded:
    began = last = time.perf_counter()
    cpu = time.thread_time()
    done, longest = 0, 0.0
    for batch in itertools.cycle(batches):
        log.features.push(made.EVENT, batch)
        runner.read_own()
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
        done += len(batch)
        if now > began + seconds or (is_over is not None and is_over.is_set()):
            break
    return _Folded(done / (last - began), 1e6 * (time.thread_time() - cpu) / done, longest)


def _save(runner: ProjectionRunner, is_over: threading.Event, saves: list[float]) -> None:
    began = time.perf_counter()
    try:
        if runner.save(SPREAD):
            saves.append(time.perf_counter() - began)
    finally:
        is_over.set()
