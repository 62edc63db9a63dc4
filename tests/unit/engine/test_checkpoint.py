from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from penstock import limits
from penstock.directory import snapshot_parts
from penstock.engine.checkpoint import CheckpointReport
from penstock.engine.engine import Log
from penstock.errors import CorruptFrame, LogFailed
from penstock.storage import snapshots
from penstock.testing import MemoryFilesystem
from penstock.testing.log import open_memory_log
from tests.unit.engine.support import (
    META,
    TOPICS,
    WAL,
    everything,
    killed,
    paths,
    restarted,
    while_sealing,
)

LARGE = b'"' + b"x" * limits.SEAL_BYTES_MIN + b'"'


@pytest.fixture
def fs() -> MemoryFilesystem:
    return MemoryFilesystem()


@pytest.fixture
def log(fs: MemoryFilesystem) -> Log:
    return open_memory_log(fs)


def test_a_small_tail_travels_inside_the_snapshot(fs: MemoryFilesystem, log: Log) -> None:
    log.append("t", [1, 2])

    report = log.checkpoint()

    assert (report.snapshot, report.segments_sealed) == (1, 0)
    assert paths(fs, TOPICS) == []
    again = killed(log)
    assert everything(again) == [1, 2]
    assert again.recovery.records_replayed == 0


def test_a_large_tail_becomes_a_segment(fs: MemoryFilesystem, log: Log) -> None:
    log.append("t", [LARGE])
    log.append("u", [1])

    report = log.checkpoint()

    assert report.segments_sealed == 1
    assert [info.segments for info in log.topics()] == [1, 0]


def test_many_small_tails_do_not_make_a_large_snapshot(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SNAPSHOT_TAIL_BYTES_MAX", 30)
    for name in "abcdef":
        log.append(name, [b"1234567890"])

    report = log.checkpoint()

    assert report.segments_sealed == 3


def test_what_comes_while_a_tail_is_sealed_is_left_to_the_log(
    fs: MemoryFilesystem, log: Log
) -> None:
    log.append("t", [LARGE], idempotency_key="before")
    log.append("u", [LARGE])
    while_sealing(fs, lambda: log.append("t", [LARGE] * 3, idempotency_key="meanwhile"))

    log.checkpoint()

    assert fs.size(snapshots.path_of(META, 1)) < limits.SEAL_BYTES_MIN
    again = killed(log)
    assert len(everything(again)) == 4
    assert again.recovery.records_replayed == 3
    for key in ("before", "meanwhile"):
        assert again.append("t", [1], idempotency_key=key).deduped


@pytest.mark.parametrize(
    ("act", "left"),
    [
        (lambda log: log.delete("t", tag="odd"), [2, 4, 6]),
        (lambda log: log.delete("t", before_seq=4), [4, 5, 6]),
        (lambda log: log.delete("t", before_seq=7), []),
        (lambda log: log.create("t", cap_records=2), [(1, 4, "cap"), 5, 6]),
        (lambda log: (log.drop("t"), log.append("t", [9])), [9]),
    ],
)
def test_what_is_done_while_a_tail_is_sealed_holds_after_a_kill(
    fs: MemoryFilesystem, log: Log, act: Callable[[Log], object], left: list[object]
) -> None:
    for number in range(1, 7):
        log.append("t", [number], tag="odd" if number % 2 else "even")
    while_sealing(fs, lambda: act(log))

    log.checkpoint(everything=True)

    assert everything(log) == left
    log = killed(log)
    assert everything(log) == left
    for _ in range(2):  # nothing that is needed goes with the files that are not
        log.checkpoint(everything=True)
    assert everything(killed(log)) == left


def test_a_stretch_that_is_dead_is_not_in_the_snapshot(fs: MemoryFilesystem) -> None:
    log = open_memory_log(fs, segment_max_events=4)
    log.append("t", list(range(1, 13)))
    log.delete("t", seqs=[5, 6, 7, 8])

    log.checkpoint(everything=True)

    again = killed(log, segment_max_events=4)
    assert [log.topic("t").segments, again.topic("t").segments] == [2, 2]
    assert everything(again) == [1, 2, 3, 4, 9, 10, 11, 12]


def test_a_topic_that_comes_while_others_are_sealed_is_kept(fs: MemoryFilesystem, log: Log) -> None:
    log.append("t", [1])
    while_sealing(fs, lambda: log.append("new", [2]))

    log.checkpoint(everything=True)

    assert everything(killed(log), "new") == [2]


def test_wal_files_go_after_two_checkpoints(fs: MemoryFilesystem, log: Log) -> None:
    log.append("t", [1])
    first_file = paths(fs, WAL, ".log")

    one = log.checkpoint(everything=True)
    after_one = paths(fs, WAL, ".log")
    two = log.checkpoint(everything=True)

    assert (one.wal_files_removed, two.wal_files_removed) == (0, 1)
    assert set(first_file) < set(after_one)
    assert not set(first_file) & set(paths(fs, WAL, ".log"))
    assert everything(killed(log)) == [1]


def test_compacting_absorbs_everything_at_once(fs: MemoryFilesystem, log: Log) -> None:
    for number in range(5):
        log.append("t", [number])

    report = log.compact()

    assert (report.snapshot, report.segments_sealed, report.wal_files_removed) == (2, 1, 1)
    assert [fs.size(path) for path in paths(fs, WAL, ".log") if any(fs.read(path))] == []


def test_two_snapshots_are_kept_and_either_is_enough(fs: MemoryFilesystem, log: Log) -> None:
    for number in range(1, 5):
        log.append("t", [number], idempotency_key=str(number))
        log.checkpoint(everything=number % 2 == 0)
    log.append("t", [5])

    left = fs.kill()

    assert snapshots.numbers(left, META) == [4, 3]
    for number in (4, 3):
        damaged = left.copy()
        damaged.corrupt(snapshots.path_of(META, number), 60)
        again = open_memory_log(damaged)
        assert everything(again) == [1, 2, 3, 4, 5]
        assert again.append("t", [1], idempotency_key="1").deduped


def test_numbers_go_on_after_a_restart(fs: MemoryFilesystem, log: Log) -> None:
    log.append("t", [1])
    log.checkpoint()
    log.checkpoint()

    report = restarted(log).checkpoint()

    assert report.snapshot == 3
    assert snapshots.numbers(fs, META) == [3, 2]


def test_wal_files_of_an_earlier_run_go_too(fs: MemoryFilesystem, log: Log) -> None:
    log.append("t", [1])
    log = restarted(log)
    log.append("t", [2])
    log.checkpoint()

    log.checkpoint()

    assert len(paths(fs, WAL, ".log")) == 1
    assert everything(killed(log)) == [1, 2]


def test_segments_that_no_snapshot_names_are_removed(fs: MemoryFilesystem, log: Log) -> None:
    log.append("t", [1, 2, 3])
    log.checkpoint(everything=True)
    log.delete("t", before_seq=99)
    named_by_the_spare = log.checkpoint()

    report = log.checkpoint()

    assert named_by_the_spare.segment_files_removed == 0
    assert report.segment_files_removed == 2
    assert paths(fs, TOPICS) == []


def test_a_dropped_topic_leaves_no_files_behind(fs: MemoryFilesystem, log: Log) -> None:
    log.append("t", [1])
    log.checkpoint(everything=True)
    log.drop("t")

    log.checkpoint()
    log.checkpoint()

    assert paths(fs, TOPICS) == []
    assert fs.list(TOPICS) == []


@pytest.mark.parametrize("kind", ["create", "write", "sync", "rename", "sync_dir"])
def test_a_failure_closes_the_log_and_loses_nothing(
    fs: MemoryFilesystem, log: Log, kind: str
) -> None:
    log.create("t", durability="fsync")
    log.append("t", [1])
    log.checkpoint(everything=True)
    log.append("t", [2])
    fs.fail(kind, path="/meta" if kind in ("rename", "sync_dir") else "")

    with contextlib.suppress(LogFailed):
        log.checkpoint(everything=True)

    with pytest.raises(LogFailed, match="closed for writing"):
        log.append("t", [3])

    fs.heal()
    assert everything(log) == [1, 2]
    assert everything(open_memory_log(fs.kill())) == [1, 2]


def test_a_power_cut_at_any_step_of_a_checkpoint_loses_nothing() -> None:
    def prepared() -> tuple[MemoryFilesystem, Log]:
        fs = MemoryFilesystem()
        log = open_memory_log(fs)
        log.create("t", durability="fsync")
        log.append("t", [1, 2])
        log.compact()
        log.append("t", [3])
        log.delete("t", seqs=[1])
        return fs, log

    fs, log = prepared()
    states: list[MemoryFilesystem] = []
    fs.on_operation = lambda *_: states.extend(fs.crash_states(6))

    log.compact()

    assert len(states) > 50
    for state in states:
        assert everything(open_memory_log(state)) == [2, 3]


def test_progress_is_told(log: Log) -> None:
    for name in "abc":
        log.append(name, [1])
    seen: list[tuple[int, int]] = []

    log.checkpoint(progress=lambda *step: seen.append(step))

    assert seen == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_two_reports_add_up() -> None:
    one, two = CheckpointReport(1, 2, 3, 4, 5), CheckpointReport(2, 10, 20, 30, 40)

    assert one.plus(two) == CheckpointReport(2, 12, 23, 34, 45)


def test_a_damaged_log_is_not_absorbed(fs: MemoryFilesystem, log: Log) -> None:
    log.create("t", durability="fsync")
    log.append("t", [1])
    log.append("t", [2])
    log.close()
    fs.corrupt(paths(fs, WAL, ".log")[0], 60)
    log = open_memory_log(fs)
    before = [fs.read(path) for path in paths(fs, WAL)]

    with pytest.raises(CorruptFrame):
        log.checkpoint()

    assert [fs.read(path) for path in paths(fs, WAL)] == before


# Snapshots that could not be restored.


def test_a_seal_that_is_interrupted_leaves_a_snapshot_that_can_be_restored() -> None:
    """The tail was split for it, deleted records and all."""
    fs = MemoryFilesystem()
    log = open_memory_log(fs, segment_max_events=8)
    log.append("t", list(range(1, 21)))
    log.delete("t", seqs=[2, 9, 20])

    def interrupt() -> None:
        raise KeyboardInterrupt

    while_sealing(fs, interrupt)
    with pytest.raises(KeyboardInterrupt):
        log.checkpoint(everything=True)
    log.checkpoint()

    assert everything(killed(log)) == [n for n in range(1, 21) if n not in (2, 9, 20)]


def test_nothing_is_removed_for_a_snapshot_that_could_not_be_restored(
    fs: MemoryFilesystem, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.append("t", [1, 2])
    log.checkpoint(everything=True)
    log.append("t", [3])
    before = paths(fs, META), paths(fs, WAL), paths(fs, TOPICS)

    def refuse(data: bytes) -> None:
        raise ValueError("a bitmap of the dead is longer than its span")

    with monkeypatch.context() as patch:
        patch.setattr(snapshot_parts, "check", refuse)
        with pytest.raises(AssertionError, match="cannot be restored: a bitmap"):
            log.checkpoint()

    assert (paths(fs, META), paths(fs, WAL), paths(fs, TOPICS)) == before
    assert everything(killed(log)) == [1, 2, 3]


def test_an_older_snapshot_that_cannot_be_restored_is_no_spare(
    fs: MemoryFilesystem, log: Log
) -> None:
    log.append("t", [1])
    log.checkpoint()
    log.checkpoint()
    log.close()
    body = b"\xc1 no snapshot, and its checksum is right"
    log_id = snapshots.read(fs, META, 2).log_id
    fs.unlink(snapshots.path_of(META, 2))
    snapshots.write(fs, META, 2, log_id, body)

    again = open_memory_log(fs)
    again.checkpoint()

    assert snapshots.numbers(fs, META) == [3, 1]
