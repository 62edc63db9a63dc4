from __future__ import annotations

import os

from penstock.config import Settings
from penstock.engine.batch import Batch
from penstock.engine.batch_intents import promise_of
from penstock.engine.engine import Log
from penstock.engine.internal_topics import BATCHES
from penstock.engine.opening import open_parts
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.log import ROOT, open_memory_log
from tests.unit.engine.support import everything


def left_by_a_kill(log: Log) -> MemoryFilesystem:
    """The disk of a process that promised a batch, and was killed before its parts."""
    core = log.core
    handles = [core.catalogue.get(name) for name in ("a", "b")]
    promises = [promise_of(handle, Batch([b"2"], 1)) for handle in handles]
    core.parts.batch_intents.log(core.parts.handles[BATCHES.name], promises)
    fs = core.parts.fs
    assert isinstance(fs, MemoryFilesystem)
    return fs.copy().kill()


def test_a_log_is_complete_before_anybody_has_it() -> None:
    """Opening the parts finishes a batch; the log built on them has nothing left to repair."""
    log = open_memory_log(default_durability="fsync")
    log.append_many([("a", [1]), ("b", [1])])

    settings = Settings(background=False, wal_shards=1)
    disk = left_by_a_kill(log)
    parts = open_parts(
        disk, FakeClock(), ROOT, settings, os.urandom, progress=lambda done, total: None
    )

    assert [parts.handles[name].topic.head for name in ("a", "b")] == [2, 2]
    assert parts.handles[BATCHES.name].topic.live == 0
    parts.close()


def test_a_batch_is_finished_once() -> None:
    log = open_memory_log(default_durability="fsync")
    log.append_many([("a", [1]), ("b", [1])])
    disk = left_by_a_kill(log)

    for _ in range(2):
        with open_memory_log(disk) as again:
            assert (everything(again, "a"), everything(again, "b")) == ([1, 2], [1, 2])
