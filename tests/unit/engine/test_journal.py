"""The journal: entries are applied once, in the order of the log, when their class is met."""

from __future__ import annotations

import errno
import queue
from pathlib import Path

import pytest

import penstock
from penstock.atomic_steps import Step, perform
from penstock.engine import deletion
from penstock.engine.engine import Log
from penstock.engine.handle import Handle
from penstock.engine.journal import Change
from penstock.entries import PositionMoved, RecordsDeleted, TopicEntry
from penstock.errors import CorruptFrame, LogFailed, PenstockError, TopicNotFound
from penstock.storage.wal.pending_commit import PendingCommit
from penstock.storage.wal.shard import Shard
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.log import open_memory_log
from penstock.types import Removed


def handle_of(log: Log, topic: str) -> Handle:
    handle = log.core.catalogue.find(topic)
    assert handle is not None
    return handle


def test_entries_of_one_commit_are_applied_together_and_move_the_position() -> None:
    with open_memory_log(MemoryFilesystem(), FakeClock()) as log:
        log.create("t")
        log.append("t", [1, 2, 3])
        handle = handle_of(log, "t")
        before = handle.topic.position

        commit = log.core.parts.journal.commit(
            handle,
            PositionMoved(handle.topic.id, "me", 2, 0),
            RecordsDeleted(handle.topic.id, None, None, (1,), 3),
        )

        assert commit.result == 1
        assert handle.topic.consumers["me"] == (2, 0)
        assert [record.seq for record in log.read("t").records] == [2, 3]
        assert handle.topic.position == commit.start > before


def test_an_entry_is_not_applied_before_its_commit_is_written() -> None:
    with open_memory_log(MemoryFilesystem(), FakeClock()) as log:
        log.create("t")
        handle = handle_of(log, "t")
        with handle.lock:
            commit = log.core.parts.journal.submit(
                handle, (PositionMoved(handle.topic.id, "me", 0, 0),), durable=False
            )
        assert not handle.topic.consumers

        log.core.parts.journal.wait(handle, commit)

        assert handle.topic.consumers["me"] == (0, 0)


def test_a_dropped_topic_takes_no_entries() -> None:
    with open_memory_log(MemoryFilesystem(), FakeClock()) as log:
        log.create("t")
        handle = handle_of(log, "t")
        log.drop("t")

        with pytest.raises(TopicNotFound):
            log.core.parts.journal.commit(handle, PositionMoved(handle.topic.id, "me", 0, 0))


def test_entries_survive_a_restart_in_their_order() -> None:
    fs, clock = MemoryFilesystem(), FakeClock()
    with open_memory_log(fs, clock) as log:
        log.create("t")
        log.append("t", [1])
        for seq in (1, 0, 1):
            log.move_position("t", "me", seq)

    with open_memory_log(fs, clock) as log:
        position = log.position("t", "me")
        assert position is not None
        assert position.seq == 1


def test_a_failed_write_applies_nothing() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs, FakeClock())
    log.create("t")
    handle = handle_of(log, "t")
    fs.fail("write", error=errno.EIO)

    with pytest.raises(LogFailed):
        log.move_position("t", "me", 0)

    assert not handle.topic.consumers
    log.close()


# Without waiting.


def test_topics_created_together_share_their_syncs(tmp_path: Path) -> None:
    with penstock.open(tmp_path) as log:
        made: queue.Queue[bool] = queue.Queue()
        names = [f"t{number}" for number in range(200)]
        syncs = log.stats().wal_syncs_total

        for name in names:
            log.core.catalogue.submit_create(name, {}, lambda topic, is_new: made.put(is_new))

        assert [made.get(timeout=60) for _ in names] == [True] * len(names)
        assert log.core.catalogue.names() == sorted(names)
        assert log.stats().wal_syncs_total - syncs < len(names)


def test_a_creation_that_is_on_its_way_is_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[bool] = []
    with open_memory_log(MemoryFilesystem(), FakeClock()) as log:
        with monkeypatch.context() as patched:
            patched.setattr(Shard, "push", lambda shard: None)
            for _ in range(2):
                log.core.catalogue.submit_create(
                    "t", {}, lambda topic, is_new: found.append(is_new)
                )
        assert not found
        assert log.core.catalogue.find("t") is None

        info = log.create("t", cap_records=5)
        log.core.catalogue.submit_create("t", {}, lambda topic, is_new: found.append(is_new))

        assert found == [True, False, False]
        assert info.config.cap_records == 5
        assert log.topic("t").epoch == info.epoch


def test_a_delete_is_answered_by_callback() -> None:
    answers: list[Removed | PenstockError] = []
    with open_memory_log(MemoryFilesystem(), FakeClock()) as log:
        log.create("t")
        log.append("t", [1, 2, 3])

        assert deletion.submit(log.core.catalogue, handle_of(log, "t"), 3, None, (), answers.append)

        assert answers == [Removed(2, 3, 3, 1, 1)]


def test_a_delete_that_would_read_files_is_left_to_a_thread() -> None:
    with open_memory_log(MemoryFilesystem(), FakeClock()) as log:
        log.create("t")
        log.append("t", [1, 2, 3])
        log.checkpoint(everything=True)

        assert not deletion.submit(
            log.core.catalogue, handle_of(log, "t"), 3, None, (), lambda answer: None
        )
        assert log.read("t").records[0].seq == 1


def test_a_thread_that_may_be_interrupted_publishes_a_delete_of_seqs_and_its_end_in_one_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    performed: list[list[Step]] = []
    with open_memory_log(MemoryFilesystem(), FakeClock()) as log:
        log.create("t")
        log.append("t", [1, 2, 3])
        handle = handle_of(log, "t")
        commit = commit_of(handle, RecordsDeleted(handle.id, None, None, (1, 3, 9), 3))
        end: list[str] = []
        monkeypatch.setattr(
            "penstock.engine.journal.perform",
            lambda steps: performed.append(given := list(steps)) or perform(given),
        )

        assert log.core.parts.journal._publish([commit], [(end.append, "end")], False)

        assert (end, commit.result, len(performed)) == (["end"], 2, 1)
        assert [record.seq for record in log.read("t").records] == [2]


@pytest.mark.parametrize("seqs", [(), (1,)])
def test_a_thread_that_may_be_interrupted_leaves_other_changes_alone(seqs: tuple[int, ...]) -> None:
    end: list[str] = []
    with open_memory_log(MemoryFilesystem(), FakeClock()) as log:
        log.create("t")
        log.append("t", [1, 2, 3])
        handle = handle_of(log, "t")
        journal = log.core.parts.journal
        delete = RecordsDeleted(handle.id, None, None, (1,), 3)
        others = [
            [commit_of(handle, RecordsDeleted(handle.id, 3, None, seqs, 3))],
            [commit_of(handle, PositionMoved(handle.id, "me", 2, 0))],
            [commit_of(handle, delete, PositionMoved(handle.id, "me", 2, 0))],
            [commit_of(handle, delete), commit_of(handle, delete)],
        ]

        assert not any(journal._publish(one, [(end.append, "end")], False) for one in others)

        assert not end
        assert len(log.read("t").records) == 3


def test_a_thread_that_may_be_interrupted_leaves_a_delete_in_a_damaged_segment_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The shard's own thread meets the damage, and closes the log with the reason."""

    def damaged(entry: RecordsDeleted, position: tuple[int, int]) -> None:
        raise CorruptFrame("seg-1.idx", reason="checksum differs")

    end: list[str] = []
    with open_memory_log(MemoryFilesystem(), FakeClock()) as log:
        log.create("t")
        log.append("t", [1])
        handle = handle_of(log, "t")
        monkeypatch.setattr(log.core.parts.registry, "deleting", damaged)
        commit = commit_of(handle, RecordsDeleted(handle.id, None, None, (1,), 1))

        assert not log.core.parts.journal._publish([commit], [(end.append, "end")], False)
        assert not end


def commit_of(handle: Handle, *entries: TopicEntry) -> PendingCommit:
    return PendingCommit(b"", None, True, handle.id, Change(handle, entries), result=0)


def test_an_entry_that_is_not_logged_meets_no_half_of_an_interrupted_append() -> None:
    with open_memory_log(MemoryFilesystem(), FakeClock()) as log:
        log.create("t", durability="ephemeral")
        log.append("t", [1, 2])
        handle = handle_of(log, "t")
        topic = handle.topic
        topic.guard()  # as an append does
        topic.head, topic.live = 3, 3  # and is interrupted here

        with handle.lock:
            log.core.parts.journal.apply_unlogged(handle, (PositionMoved(topic.id, "me", 1, 0),))

        assert (topic.head, topic.live, topic.undo) == (2, 2, None)
        assert topic.consumers["me"] == (1, 0)
        assert log.append("t", [3]).first_seq == 3
