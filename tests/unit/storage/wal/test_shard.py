"""One shard: order, group commit, rotation, and the end of everything at the first failure."""

from __future__ import annotations

import errno
import threading

import pytest

from penstock import limits
from penstock.atomic_steps import Step
from penstock.clock import SystemClock
from penstock.entries import DurableMarked
from penstock.errors import LogFailed, Overloaded
from penstock.storage.wal import durable_mark
from penstock.storage.wal.pending_commit import PendingCommit, closed_gate
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.crash import VANISH
from tests.unit.storage.wal.support import (
    WAL,
    Writer,
    entries,
    frame,
    open_shard,
    shard_on,
    wal_paths,
)

FIRST = f"{WAL}/wal-0000000000000001.log"


@pytest.fixture
def fs() -> MemoryFilesystem:
    return MemoryFilesystem()


@pytest.fixture
def writer(fs: MemoryFilesystem) -> Writer:
    return Writer(open_shard(fs))


# Order.


def test_the_order_of_submission_is_the_order_on_disk_and_of_publication(
    fs: MemoryFilesystem, writer: Writer
) -> None:
    commits = [writer.submit(seq, ordering_key=seq % 3) for seq in range(1, 8)]

    writer.shard.drive(commits[-1])

    assert entries(fs.read(FIRST)) == writer.published == list(range(1, 8))
    assert all(commit.is_done and commit.error is None for commit in commits)


def test_a_whole_queue_costs_one_write_and_one_sync(writer: Writer) -> None:
    commits = [writer.submit(seq) for seq in range(1, 101)]

    writer.shard.drive(commits[0])

    stats = writer.shard.stats
    assert (stats.commits, stats.writes, stats.syncs) == (100, 1, 1)


def test_a_weaker_class_never_overtakes_a_stronger_one_in_its_lane(writer: Writer) -> None:
    writer.submit("durable", durable=True, ordering_key=1)
    writer.submit("behind it", durable=False, ordering_key=1)
    other = writer.submit("elsewhere", durable=False, ordering_key=2)

    writer.shard.drive(other)
    before_the_sync = list(writer.published)
    writer.shard.push()

    assert before_the_sync == ["elsewhere"]
    assert writer.published == ["elsewhere", "durable", "behind it"]


def test_a_lane_is_free_again_after_its_sync(fs: MemoryFilesystem, writer: Writer) -> None:
    writer.write("durable", ordering_key=1)
    syncs = fs.counts["sync"]

    writer.write("soft", durable=False, ordering_key=1)

    assert writer.published == ["durable", "soft"]
    assert fs.counts["sync"] == syncs


# What an acknowledgement means.


def test_a_durable_ticket_is_resolved_only_when_a_power_cut_cannot_take_it(
    fs: MemoryFilesystem, writer: Writer
) -> None:
    writer.write(1)

    for state in fs.crash_states(50):
        assert entries(state.read(FIRST)) == [1]


def test_a_tick_makes_durable_what_was_only_written(fs: MemoryFilesystem, writer: Writer) -> None:
    writer.write(1, durable=False)
    assert not any(fs.power_cut(lambda _: VANISH).read(FIRST))

    writer.shard.tick()

    assert entries(fs.power_cut(lambda _: VANISH).read(FIRST)) == [1]


def test_a_tick_with_nothing_to_sync_costs_nothing(fs: MemoryFilesystem, writer: Writer) -> None:
    writer.write(1)
    syncs = fs.counts["sync"]

    writer.shard.tick()

    assert fs.counts["sync"] == syncs


def test_the_loss_window_is_the_age_of_the_oldest_unsynced_write(fs: MemoryFilesystem) -> None:
    clock = FakeClock()
    clock.advance(5)
    writer = Writer(open_shard(fs, clock))
    assert writer.shard.loss_window_ms() == 0

    writer.write(1, durable=False)
    clock.advance(30)
    writer.write(2, durable=False)
    clock.advance(10)
    oldest = writer.shard.loss_window_ms()
    writer.shard.tick()

    assert (round(oldest), writer.shard.loss_window_ms()) == (40, 0)


def test_a_position_never_passes_what_is_not_published(writer: Writer) -> None:
    writer.write(1)
    waiting = writer.submit(2)
    soft = writer.submit(3, durable=False, ordering_key=2)
    writer.shard.drive(soft)
    behind = writer.shard.position()

    writer.shard.push()

    assert writer.published == [1, 3, 2]
    assert behind == waiting.start < soft.start < writer.shard.position()


def test_a_position_knows_what_got_ready_behind_a_later_write(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller's thread leaves what it may not publish to the shard's own."""
    writer.write(1)
    waiting = writer.submit(2)
    soft = writer.submit(3, durable=False, ordering_key=2)
    with monkeypatch.context() as patched:
        patched.setattr(type(writer.shard), "_publish_ready", lambda shard: None)
        writer.shard.drive(soft)
        writer.shard.push()
        assert [commit.start for commit in writer.shard._ready] == [soft.start, waiting.start]
        behind = writer.shard.position()

    writer.shard.push()

    assert behind == waiting.start < soft.start
    assert writer.published == [1, 3, 2]


def test_no_write_overtakes_what_is_ready(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    writer.write(1)
    writer.write(2, durable=False)
    with monkeypatch.context() as patched:
        patched.setattr(type(writer.shard), "_publish_ready", lambda shard: None)
        writer.shard.drive(writer.submit(3, durable=False))
        later = writer.submit(4, durable=False)
        later.gate = None
        with writer.shard._write_lock:
            assert not writer.shard._write_alone(later)
    writer.shard.push()

    assert writer.published == [1, 2, 3, 4]


# The durable end.


def test_the_write_after_a_sync_begins_by_naming_the_durable_end(
    fs: MemoryFilesystem, writer: Writer
) -> None:
    writer.write(1)
    writer.write(2)
    writer.write(3, durable=False)

    end = len(frame(1))
    found = entries(fs.read(FIRST))

    assert found[:3] == [1, DurableMarked(1, end), 2]
    assert isinstance(found[3], DurableMarked)
    assert found[4:] == [3]
    assert durable_mark.read(fs, WAL) == durable_mark.DurableMark(1, found[3].offset, fs.boot_id())


def test_a_run_begins_by_naming_the_end_of_the_last_one(fs: MemoryFilesystem) -> None:
    with shard_on(fs, next_index=5, durable_end=(4, 777)) as shard:
        Writer(shard).write(1)

    assert entries(fs.read(f"{WAL}/wal-0000000000000005.log")) == [DurableMarked(4, 777), 1]


# Rotation.


def test_a_full_file_is_followed_by_one_that_names_its_end(fs: MemoryFilesystem) -> None:
    writer = Writer(open_shard(fs, file_bytes=4096))
    for seq in range(1, 120):
        writer.write(seq, durable=seq % 2 == 0)

    paths = wal_paths(fs)
    found = [entries(fs.read(path)) for path in paths]

    assert len(paths) > 2
    assert [e for one in found for e in one if isinstance(e, int)] == list(range(1, 120))
    for index in range(1, len(found)):
        named = found[index][0]
        assert isinstance(named, DurableMarked)
        assert named.file_index == index
        assert named.offset == len(fs.read(paths[index - 1]).rstrip(b"\0"))
    assert writer.shard.stats.rotations == len(paths) - 1


def test_a_file_is_synced_before_its_successor_is_written(fs: MemoryFilesystem) -> None:
    writer = Writer(open_shard(fs, file_bytes=4096))
    seq = 0
    while len(wal_paths(fs)) < 2:
        seq += 1
        writer.write(seq, durable=False)

    survivor = fs.power_cut(lambda _: VANISH)

    kept = [entry for entry in entries(survivor.read(FIRST)) if isinstance(entry, int)]
    assert kept == list(range(1, seq))


def test_a_submission_larger_than_a_file_gets_one_that_holds_it(fs: MemoryFilesystem) -> None:
    writer = Writer(open_shard(fs, file_bytes=4096))
    writer.write(1)

    writer.write(2, frame(2, b'"' + b"x" * 10_000 + b'"'))

    assert entries(fs.read(wal_paths(fs)[1]))[-1] == 2


def test_rotating_by_hand_continues_in_a_new_file_once_there_is_something_in_the_old(
    fs: MemoryFilesystem, writer: Writer
) -> None:
    writer.shard.rotate()
    assert wal_paths(fs) == []
    writer.write(1)

    writer.shard.rotate()
    writer.shard.rotate()
    writer.write(2)

    assert [entries(fs.read(path))[-1] for path in wal_paths(fs)] == [1, 2]


# Bounds.


def test_a_full_queue_says_so_and_takes_nothing(writer: Writer) -> None:
    for seq in range(limits.SHARD_QUEUE_SUBMISSIONS_MAX):
        writer.submit(seq)

    with pytest.raises(Overloaded, match="queue is full"):
        writer.submit("one too many")
    writer.shard.push()

    assert writer.published == list(range(limits.SHARD_QUEUE_SUBMISSIONS_MAX))
    assert writer.shard.stats.refused == 1


def test_a_queue_is_bounded_in_bytes_too_and_frees_what_it_wrote(
    monkeypatch: pytest.MonkeyPatch, writer: Writer
) -> None:
    monkeypatch.setattr(limits, "SHARD_QUEUE_BYTES_MAX", 3 * len(frame(1)))
    for _ in range(2):
        for seq in range(3):
            writer.submit(seq)
        with pytest.raises(Overloaded):
            writer.submit(4)
        writer.shard.push()

    assert writer.published == [0, 1, 2, 0, 1, 2]


# Failure.


@pytest.mark.parametrize(
    ("kind", "code"),
    [("write", errno.EIO), ("write", errno.ENOSPC), ("sync", errno.EIO), ("sync", errno.ENOSPC)],
)
def test_the_first_failure_fails_everything_queued_and_closes_the_shard(
    fs: MemoryFilesystem, kind: str, code: int
) -> None:
    told: list[LogFailed] = []
    writer = Writer(open_shard(fs, on_failure=told.append))
    writer.write(1)
    fs.fail(kind, error=code, path=".log")
    commits = [writer.submit(seq) for seq in (2, 3, 4)]

    writer.shard.drive(commits[0])

    for commit in commits:
        with pytest.raises(LogFailed, match=r"failed: .*closed for writing"):
            commit.wait(0.0)
    with pytest.raises(LogFailed):
        writer.submit(5)
    assert writer.published == [1]
    assert told == [writer.shard.failed]
    assert told[0].path == FIRST


def test_a_failed_sync_is_never_tried_again(fs: MemoryFilesystem, writer: Writer) -> None:
    writer.write(1)
    fs.fail("sync")
    commit = writer.submit(2)
    writer.shard.drive(commit)
    syncs = fs.counts["sync"]

    writer.shard.tick()
    writer.shard.push()
    writer.shard.rotate()
    writer.shard.close()

    assert fs.counts["sync"] == syncs
    assert fs.synced_after_failure == 0
    assert durable_mark.read(fs, WAL).is_failed


def test_a_failed_rotation_closes_the_shard(fs: MemoryFilesystem, writer: Writer) -> None:
    writer.write(1)
    fs.fail("create")

    writer.shard.rotate()

    assert "rotate failed" in str(writer.shard.failed)


def test_a_write_that_fails_during_a_sync_does_not_fail_what_the_sync_made_durable(
    fs: MemoryFilesystem, writer: Writer
) -> None:
    writer.write(1)
    failing: list[PendingCommit] = []

    def write_meanwhile(index: int, kind: str, path: str) -> None:
        if kind == "sync" and not failing:
            fs.fail("write")
            failing.append(writer.submit("meanwhile", durable=False, ordering_key=9))
            writer.shard.drive(failing[0])

    fs.on_operation = write_meanwhile
    commit = writer.submit(2)
    writer.shard.drive(commit)

    commit.wait(0.0)
    assert isinstance(failing[0].error, LogFailed)
    assert writer.published == [1, 2]


def test_neighbours_of_one_lane_are_published_together_and_lanes_apart(writer: Writer) -> None:
    commits = [writer.submit(seq, ordering_key=1 if seq < 4 else 2) for seq in range(1, 6)]
    writer.shard.drive(commits[-1])
    for commit in commits:
        commit.wait(60.0)

    assert writer.published == [1, 2, 3, 4, 5]
    assert writer.runs == [3, 2]


def test_an_entry_that_cannot_be_applied_stops_the_shard_and_names_the_bug(writer: Writer) -> None:
    def broken(commits: list[PendingCommit], finish: list[Step], is_own: bool) -> bool:
        raise KeyError("a bug")

    commit = PendingCommit(frame(1), broken, True, gate=closed_gate())
    writer.shard.submit(commit)
    writer.shard.drive(commit)

    with pytest.raises(LogFailed, match="could not be applied"):
        commit.wait(0.0)
    assert isinstance(writer.shard.failed.__cause__, KeyError)


# Closing.


def test_closing_leaves_exactly_the_frames_and_a_clean_mark(
    fs: MemoryFilesystem, writer: Writer
) -> None:
    writer.write(1)
    writer.write(2, durable=False)
    writer.shard.close()
    before = fs.fingerprint()
    writer.shard.close()

    survivor = fs.power_cut(lambda _: VANISH)
    size = len(survivor.read(FIRST))

    assert fs.fingerprint() == before == survivor.fingerprint()
    assert [e for e in entries(fs.read(FIRST) + bytes(4)) if isinstance(e, int)] == [1, 2]
    assert durable_mark.read(fs, WAL) == durable_mark.DurableMark(
        1, size, fs.boot_id(), is_clean=True
    )


def test_closing_commits_what_is_still_queued(writer: Writer) -> None:
    commit = writer.submit(1)

    writer.shard.close()

    commit.wait(0.0)
    assert writer.published == [1]


def test_a_shard_that_never_wrote_leaves_no_file(fs: MemoryFilesystem) -> None:
    open_shard(fs).close()

    assert fs.paths() == []


# With its thread.


def test_many_threads_get_every_answer_in_the_order_of_their_lane(fs: MemoryFilesystem) -> None:
    with shard_on(fs, clock=SystemClock(), threaded=True, file_bytes=16 * 1024) as shard:
        writer = Writer(shard)
        ordering_keys = [(threading.Lock(), iter(range(1000))) for _ in range(4)]

        def work(number: int) -> None:
            lock, numbers = ordering_keys[number % 4]
            for turn in range(50):
                with lock:
                    name = (number % 4, next(numbers))
                    commit = writer.submit(name, durable=turn % 3 > 0, ordering_key=number % 4)
                shard.drive(commit)
                commit.wait(60.0)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60.0)

    assert len(writer.published) == 400
    for ordering_key in range(4):
        assert [n for key, n in writer.published if key == ordering_key] == list(range(100))
    assert shard.stats.commits == 400
    assert shard.failed is None


def test_writers_that_come_together_share_a_sync(fs: MemoryFilesystem) -> None:
    everyone_queued = threading.Barrier(9)
    first_sync = iter([everyone_queued])

    def hold_the_first_sync(index: int, kind: str, path: str) -> None:
        if kind == "sync":
            for barrier in first_sync:
                barrier.wait(60.0)

    with shard_on(fs, clock=SystemClock(), threaded=True) as shard:
        writer = Writer(shard)
        writer.write(0)
        before = shard.stats.syncs
        fs.on_operation = hold_the_first_sync

        def work() -> None:
            commits = [writer.submit(seq) for seq in range(50)]
            shard.push()
            everyone_queued.wait(60.0)
            for commit in commits:
                commit.wait(60.0)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60.0)

        assert len(writer.published) == 401
        assert shard.stats.syncs - before <= 8


def test_a_failure_under_threads_answers_everyone(fs: MemoryFilesystem) -> None:
    with shard_on(fs, clock=SystemClock(), threaded=True) as shard:
        writer = Writer(shard)
        writer.write(0)
        fs.fail("sync", nth=5)
        failed: list[LogFailed] = []

        def work() -> None:
            try:
                for seq in range(200):
                    writer.write(seq)
            except LogFailed as error:
                failed.append(error)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60.0)

    assert len(failed) == 8
    assert fs.synced_after_failure == 0


def test_closing_ends_the_thread(fs: MemoryFilesystem) -> None:
    before = set(threading.enumerate())  # some may be of other tests, on their way to their end
    shard = open_shard(fs, SystemClock(), threaded=True)
    commit = Writer(shard).submit(1)

    shard.close()
    shard.close()

    commit.wait(0.0)
    assert set(threading.enumerate()) <= before
