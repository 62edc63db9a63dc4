"""An append in two steps."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from penstock.engine import batch as batches
from penstock.engine.batch import Batch
from penstock.engine.engine import Log
from penstock.engine.open_log import open_log
from penstock.errors import LogFailed
from penstock.storage.wal.pending_commit import PendingCommit
from penstock.testing.fs import MemoryFilesystem


def batch(*records: object) -> Batch:
    return batches.prepare(records, tag=None, node=None, key=None)


@pytest.fixture
def fs() -> MemoryFilesystem:
    return MemoryFilesystem()


@pytest.fixture
def log(fs: MemoryFilesystem) -> Log:
    return open_log("/data", fs=fs, background=False)


@pytest.mark.parametrize("durability", ["ephemeral", "memory", "disk", "fsync"])
def test_records_have_their_seqs_before_they_can_be_read(log: Log, durability: str) -> None:
    log.create("t", durability=durability)

    first = log.core.queued_appends.queue("t", batch("a", "b"))
    second = log.core.queued_appends.queue("t", batch("c"))

    assert (first.first_seq, second.first_seq) == (1, 3)
    if durability != "ephemeral":
        assert not first.is_done
        assert log.read("t").records == []
    assert (second.wait().last_seq, first.wait().last_seq) == (3, 2)
    assert first.is_done
    assert [record.data for record in log.read("t").records] == ["a", "b", "c"]


def test_an_append_that_fails_says_why(fs: MemoryFilesystem, log: Log) -> None:
    log.create("t", durability="fsync")
    queued = log.core.queued_appends.queue("t", batch("a"))
    fs.fail("sync", persistent=True)

    with pytest.raises(LogFailed):
        queued.wait()

    assert queued.is_done
    assert log.read("t").records == []


def test_a_missing_topic_is_created(log: Log) -> None:
    assert log.core.queued_appends.queue("new", batch("a")).wait().created


def test_an_append_with_a_callback_needs_nobody_who_waits() -> None:
    done = threading.Event()
    found: list[PendingCommit] = []

    def resolved(commit: PendingCommit) -> None:
        found.append(commit)
        done.set()

    with open_log("/data", fs=MemoryFilesystem()) as log:
        queued = log.core.queued_appends.queue("t", batch("a"), resolved)
        assert done.wait(60)
        assert queued.is_done
        assert (found[0].error, queued.first_seq) == (None, 1)


def test_followers_of_a_topic_in_memory_are_told(log: Log) -> None:
    log.create("t", durability="ephemeral")
    told: list[None] = []
    note: Callable[[], None] = lambda: told.append(None)  # noqa: E731 - a value with its type
    log.core.catalogue.get("t").listen(note)

    log.core.queued_appends.queue("t", batch("a"))

    assert told == [None]
