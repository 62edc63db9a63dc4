"""What tests of the engine do again and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.engine.engine import Log
from penstock.engine.seal import freeze, seal
from penstock.storage.wal.files import shard_number
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.log import ROOT, open_memory_log
from penstock.topics.sealing import SealLimits
from penstock.types import Gap

WAL = f"{ROOT}/wal"
META = f"{ROOT}/meta"
TOPICS = f"{ROOT}/topics"
ASIDE = f"{ROOT}/aside"
NO_LIMITS = SealLimits(10**6, 10**9, 0)


def everything(log: Log, topic: str = "t", **options: Any) -> list[object]:
    """The data of every record and every gap as (first, last, reason), page by page."""
    found: list[object] = []
    after = 0
    while True:
        page = log.read(topic, after, **options)
        if page.gap is not None:
            found.append(told(page.gap))
        found.extend(record.data for record in page.records)
        if page.caught_up:
            return found
        assert page.next_seq > after, "a reader must get on"
        after = page.next_seq


def told(gap: Gap) -> tuple[int, int, str]:
    return gap.first, gap.last, gap.reason


def restarted(log: Log, clock: FakeClock | None = None, **settings: Any) -> Log:
    """Close, and open what is on the disk."""
    fs = log.core.parts.fs
    log.close()
    assert isinstance(fs, MemoryFilesystem)
    return open_memory_log(fs, clock, **settings)


def killed(log: Log, **settings: Any) -> Log:
    """Kill the process, and open what it left."""
    fs = log.core.parts.fs
    assert isinstance(fs, MemoryFilesystem)
    return open_memory_log(fs.kill(), **settings)


def sealed(log: Log, limits: SealLimits = NO_LIMITS, *, whole: bool = True) -> int:
    """Seal the tail of topic t; how many segments that made."""
    handle = log.core.parts.handles["t"]
    with handle.lock:
        frozen = freeze(handle.topic, limits, everything=whole)
    return len(seal(handle, log.core.parts.shelf, frozen))


def totals(log: Log) -> tuple[int, int]:
    """What the spans hold when they are counted anew."""
    found = [
        span.run.measure(span.start, span.count, span.bits)
        for span in log.core.parts.handles["t"].topic.spans
    ]
    return sum(count for count, _ in found), sum(size for _, size in found)


def while_sealing(fs: MemoryFilesystem, act: Callable[[], object]) -> None:
    """Run `act` once, when the first segment file is being written."""
    todo = [act]

    def hook(index: int, kind: str, path: str) -> None:
        if kind == "write" and path.startswith(TOPICS) and todo:
            todo.pop()()

    fs.on_operation = hook


def paths(fs: MemoryFilesystem, under: str, ending: str = "") -> list[str]:
    return [path for path in fs.paths() if path.startswith(under) and path.endswith(ending)]


def damaged_shards() -> tuple[MemoryFilesystem, str, str]:
    """Two shards, one topic in each; the first topic's shard is damaged below its end."""
    fs = MemoryFilesystem()
    log = open_memory_log(fs, wal_shards=2)
    ids = {shard_number(topic_id, 2): topic_id for topic_id in range(1, 9)}
    names = {topic_id: f"t{topic_id}" for topic_id in range(1, 9)}
    for topic_id in range(1, 9):
        assert log.create(names[topic_id], durability="fsync").id == topic_id
        log.append(names[topic_id], [1])
        log.append(names[topic_id], [2])
    log.close()
    path = paths(fs, f"{WAL}/shard-00", ".log")[0]
    fs.corrupt(path, fs.size(path) - 20)
    return fs, names[ids[0]], names[ids[1]]
