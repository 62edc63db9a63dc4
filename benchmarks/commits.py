"""Class `fsync`: one writer, 64 writers, and a bare loop of write and fdatasync beside them."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator

from penstock.cli.figure import PAYLOAD, Figure, folder
from penstock.engine.engine import Log
from penstock.engine.open_log import open_log
from penstock.errors import Closed, PenstockError
from penstock.storage.fs import OsFilesystem
from penstock.types import Appended

_WRITERS = 64
_FRAME_BYTES = 46 + 6 + len(PAYLOAD)


def commit_figures(root: str, scale: float) -> Iterator[Figure]:
    seconds = max(0.5, 4 * scale)
    with folder(root) as path, open_log(path, wal_shards=1) as log:
        log.create("events", durability="fsync")
        lone, _ = _measure(log, seconds, _one_writer)
        yield Figure("append, fsync, 1 writer", lone, "records/s", "each waits for its own sync")
        for name, writers in (("threads", _threads), ("submissions in flight", _in_flight)):
            many, group = _measure(log, seconds, writers)
            bare = _bare_loop(path, round(group), seconds / 2)
            yield Figure(
                f"append, fsync, 64 {name}", many, "records/s", f"{group:.0f} records a sync"
            )
            yield Figure(f"  … against 1 writer ({name})", many / lone, "times", goal=20)
            yield Figure(
                f"  … against a bare loop with the same bytes ({name})",
                100 * many / bare,
                "%",
                f"bare write+fdatasync: {bare:,.0f} records/s",
                60,
            )


def _measure(log: Log, seconds: float, writers: Callable[[Log, float], int]) -> tuple[float, float]:
    """(records a second, records a sync)"""
    syncs = log.stats().wal_syncs_total
    started = time.perf_counter()
    records = writers(log, started + seconds)
    elapsed = time.perf_counter() - started
    return records / elapsed, records / max(1, log.stats().wal_syncs_total - syncs)


def _one_writer(log: Log, until: float) -> int:
    done = 0
    while time.perf_counter() < until:
        log.append("events", [PAYLOAD])
        done += 1
    return done


def _threads(log: Log, until: float) -> int:
    counts = [0] * _WRITERS

    def write(number: int) -> None:
        with contextlib.suppress(Closed):  # by the main thread, after Ctrl-C
            counts[number] = _one_writer(log, until)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(_WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts)


def _in_flight(log: Log, until: float) -> int:
    """64 writers, each with one record under way, on one thread: as an event loop has them."""
    answers: queue.SimpleQueue[Appended | PenstockError] = queue.SimpleQueue()
    submit, record = log.submit, [PAYLOAD]
    for _ in range(_WRITERS):
        submit("events", record, answers.put)
    done = 0
    while time.perf_counter() < until:
        answer = answers.get()
        if isinstance(answer, PenstockError):
            raise answer
        done += 1
        submit("events", record, answers.put)
    for _ in range(_WRITERS):
        answers.get()
    return done + _WRITERS


def _bare_loop(path: str, records: int, seconds: float) -> float:
    """What the disk allows: the same bytes, one write and one fdatasync at a time."""
    fs = OsFilesystem()
    file = fs.create(f"{path}/bare")
    file.allocate(64 << 20)
    data = bytes(_FRAME_BYTES) * max(1, records)
    offset = done = 0
    started = time.perf_counter()
    while time.perf_counter() < started + seconds:
        file.write_at(data, offset % (63 << 20))
        file.sync()
        offset += len(data)
        done += records
    elapsed = time.perf_counter() - started
    file.close()
    fs.unlink(f"{path}/bare")
    return done / elapsed
