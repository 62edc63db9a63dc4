"""Torn tail or damage? Every named harm to a log, and the verdict it must get."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from penstock.storage.wal import durable_mark, recovery
from penstock.storage.wal.recovery import ENDS_EARLY, INCOMPLETE_BATCH, MISSING
from penstock.testing import MemoryFilesystem
from penstock.testing.crash import LAND, VANISH
from tests.unit.storage.wal.support import (
    WAL,
    Writer,
    batch,
    examine,
    frame,
    open_shard,
    seqs,
    wal_paths,
)

ASIDE = "/data/aside"


@dataclass(frozen=True)
class Sample:
    """Three files: records 1..3 and 4..6 synced and rotated; 7, 8 synced; 9 and the batch
    10..12 written and not synced. The process was killed."""

    fs: MemoryFilesystem
    starts: dict[int, int]  # offset of each record or batch in its file

    @property
    def paths(self) -> list[str]:
        return wal_paths(self.fs)

    @property
    def last(self) -> str:
        return self.paths[-1]

    @property
    def end(self) -> int:
        return len(self.fs.read(self.last).rstrip(b"\0"))


@pytest.fixture
def sample() -> Sample:
    fs = MemoryFilesystem()
    writer = Writer(open_shard(fs, file_bytes=4096))
    starts: dict[int, int] = {}
    for seq in range(1, 10):
        starts[seq] = writer.write(seq, durable=seq < 9).start[1]
        if seq in (3, 6):
            writer.shard.rotate()
    starts[10] = writer.write(10, batch(10, 3), durable=False).start[1]
    return Sample(fs.kill(), starts)


def flip(sample: Sample, seq: int, at: int = 20) -> None:
    path = sample.paths[(seq > 3) + (seq > 6)]
    sample.fs.corrupt(path, sample.starts[seq] + at)


def zero_from(sample: Sample, path: str, offset: int) -> None:
    size = sample.fs.size(path)
    sample.fs.truncate_at(path, offset)
    sample.fs.truncate_at(path, size)


# The harms.


def nothing(sample: Sample) -> None:
    """A killed process leaves what it wrote."""


def garbage_after_the_end(sample: Sample) -> None:
    content = sample.fs.read(sample.last)
    sample.fs.replace(sample.last, content[: sample.end] + b"\x5a" * 40 + bytes(99))


def half_a_frame_at_the_end(sample: Sample) -> None:
    content = sample.fs.read(sample.last)
    sample.fs.replace(sample.last, content[: sample.end] + frame(13)[:30] + bytes(99))


def flipped_in_an_unsynced_record(sample: Sample) -> None:
    flip(sample, 9)


def batch_cut_short(sample: Sample) -> None:
    zero_from(sample, sample.last, sample.end - 1)


def batch_without_its_last_record(sample: Sample) -> None:
    zero_from(sample, sample.last, sample.end - len(frame(12)))


def batch_without_any_record(sample: Sample) -> None:
    zero_from(sample, sample.last, sample.end - 3 * len(frame(12)))


def flipped_in_the_last_synced_record(sample: Sample) -> None:
    flip(sample, 8)


def flipped_length_in_a_synced_record(sample: Sample) -> None:
    flip(sample, 7, at=0)


def flipped_in_a_rotated_file(sample: Sample) -> None:
    flip(sample, 2)


def last_file_zeroed_below_its_mark(sample: Sample) -> None:
    zero_from(sample, sample.last, sample.starts[8])


def last_file_cut_below_its_mark(sample: Sample) -> None:
    sample.fs.truncate_at(sample.last, sample.starts[8])


def last_file_emptied(sample: Sample) -> None:
    sample.fs.replace(sample.last, b"")


def rotated_file_cut(sample: Sample) -> None:
    sample.fs.truncate_at(sample.paths[1], sample.starts[6])


def rotated_file_removed(sample: Sample) -> None:
    sample.fs.unlink(sample.paths[1])


def mark_removed(sample: Sample) -> None:
    sample.fs.unlink(f"{WAL}/{durable_mark.MARK_NAME}")


def mark_removed_and_a_synced_record_flipped(sample: Sample) -> None:
    """The durable end is also in the frames that follow."""
    mark_removed(sample)
    flip(sample, 7)


def mark_removed_and_a_rotated_file_flipped(sample: Sample) -> None:
    mark_removed(sample)
    flip(sample, 5)


Harm = Callable[[Sample], None]
TORN: list[tuple[Harm, int, str]] = [
    (garbage_after_the_end, 12, "frame overruns the file"),
    (half_a_frame_at_the_end, 12, "malformed frame"),
    (flipped_in_an_unsynced_record, 8, "checksum differs"),
    (batch_cut_short, 9, "checksum differs"),
    (batch_without_its_last_record, 9, INCOMPLETE_BATCH),
    (batch_without_any_record, 9, INCOMPLETE_BATCH),
]
DAMAGE: list[tuple[Harm, int, int, str]] = [
    (flipped_in_the_last_synced_record, 7, 3, "checksum differs"),
    (flipped_length_in_a_synced_record, 6, 3, ""),
    (flipped_in_a_rotated_file, 1, 1, "checksum differs"),
    (last_file_zeroed_below_its_mark, 7, 3, ENDS_EARLY),
    (last_file_cut_below_its_mark, 7, 3, ENDS_EARLY),
    (last_file_emptied, 6, 3, ENDS_EARLY),
    (rotated_file_cut, 5, 2, ENDS_EARLY),
    (rotated_file_removed, 3, 2, MISSING),
    (mark_removed_and_a_synced_record_flipped, 6, 3, "checksum differs"),
    (mark_removed_and_a_rotated_file_flipped, 4, 2, "checksum differs"),
]


@pytest.mark.parametrize("harm", [nothing, mark_removed], ids=lambda harm: harm.__name__)
def test_a_log_that_ends_well_is_neither_torn_nor_damaged(sample: Sample, harm: Harm) -> None:
    harm(sample)

    scans, verdict = examine(sample.fs)

    assert (verdict.torn, verdict.damage) == ([], [])
    assert seqs(scans) == list(range(1, 13))
    assert verdict.next_index == 4


@pytest.mark.parametrize(("harm", "kept", "reason"), TORN, ids=lambda v: getattr(v, "__name__", ""))
def test_what_is_bad_past_the_durable_end_is_a_torn_tail(
    sample: Sample, harm: Harm, kept: int, reason: str
) -> None:
    harm(sample)

    scans, verdict = examine(sample.fs)

    assert verdict.damage == []
    assert [(flaw.path, flaw.reason) for flaw in verdict.torn] == [(sample.last, reason)]
    assert seqs(scans) == list(range(1, kept + 1))


@pytest.mark.parametrize(
    ("harm", "kept", "index", "reason"), DAMAGE, ids=lambda v: getattr(v, "__name__", "")
)
def test_what_is_bad_below_it_is_damage_and_nothing_behind_it_is_replayed(
    sample: Sample, harm: Harm, kept: int, index: int, reason: str
) -> None:
    harm(sample)

    scans, verdict = examine(sample.fs)

    assert verdict.damage[0].index == index
    assert reason in verdict.damage[0].reason
    assert seqs(scans)[:kept] == list(range(1, kept + 1))
    assert verdict.damage[0].group == WAL
    if index == 3 or reason == "checksum differs":
        assert seqs(scans) == list(range(1, kept + 1))


@pytest.mark.parametrize(("harm", "kept", "reason"), TORN, ids=lambda v: getattr(v, "__name__", ""))
def test_mending_cuts_a_torn_tail_and_keeps_its_bytes_aside(
    sample: Sample, harm: Harm, kept: int, reason: str
) -> None:
    harm(sample)
    _, verdict = examine(sample.fs)
    before = sample.fs.read(sample.last)

    for _ in range(2):
        recovery.mend(sample.fs, verdict, ASIDE)
    scans, after = examine(sample.fs)

    cut = verdict.torn[0].offset
    saved = [sample.fs.read(path) for path in sample.fs.paths() if path.startswith(ASIDE)]
    assert saved == [before[cut:].rstrip(b"\0")]
    assert sample.fs.read(sample.last) == before[:cut]
    assert (after.torn, after.damage) == ([], [])
    assert seqs(scans) == list(range(1, kept + 1))


@pytest.mark.parametrize(
    ("harm", "kept", "index", "reason"), DAMAGE, ids=lambda v: getattr(v, "__name__", "")
)
def test_mending_never_touches_damage(
    sample: Sample, harm: Harm, kept: int, index: int, reason: str
) -> None:
    harm(sample)
    before = sample.fs.fingerprint()

    recovery.mend(sample.fs, examine(sample.fs)[1], ASIDE)

    assert sample.fs.fingerprint() == before


def test_every_cut_of_the_unsynced_end_keeps_the_whole_records_before_it(sample: Sample) -> None:
    for cut in range(sample.starts[9], sample.end + 1):
        fs = sample.fs.copy()
        fs.truncate_at(sample.last, cut)

        scans, verdict = examine(fs)

        whole = 12 if cut == sample.end else 9 if cut >= sample.starts[9] + len(frame(9)) else 8
        assert verdict.damage == []
        assert seqs(scans) == list(range(1, whole + 1))


def test_every_flipped_byte_below_the_durable_end_is_damage(sample: Sample) -> None:
    noted = durable_mark.read(sample.fs, WAL)
    for path in sample.paths:
        end = noted.offset if path == sample.last else len(sample.fs.read(path).rstrip(b"\0"))
        for offset in range(end):
            fs = sample.fs.copy()
            fs.corrupt(path, offset)

            _, verdict = examine(fs)

            assert [flaw.path for flaw in verdict.damage] == [path], (path, offset)


def test_a_rotated_file_that_lost_its_end_is_damage_whatever_the_classes_were() -> None:
    """Its successor tells where it ended, also when nothing was synced since the last mark."""
    fs = MemoryFilesystem()
    writer = Writer(open_shard(fs, file_bytes=4096))
    writer.write(1)
    seq, start = 1, 0
    while len(wal_paths(fs)) < 2:
        seq += 1
        at = writer.write(seq, durable=False).start
        start = at[1] if at[0] == 1 else start
    fs.truncate_at(wal_paths(fs)[0], start)

    _, verdict = examine(fs.kill())

    assert [(flaw.index, flaw.reason) for flaw in verdict.damage] == [(1, ENDS_EARLY)]


# What may be missing although it is not torn.


def test_a_kill_loses_nothing_and_a_power_cut_may(sample: Sample) -> None:
    killed = examine(sample.fs)[1]
    cut = examine(sample.fs.power_cut(lambda _: LAND))[1]

    assert not killed.may_have_lost_tail
    assert cut.may_have_lost_tail
    assert not killed.was_closed


def test_a_clean_end_lost_nothing_even_by_a_power_cut() -> None:
    fs = MemoryFilesystem()
    shard = open_shard(fs)
    Writer(shard).write(1, durable=False)
    shard.close()

    scans, verdict = examine(fs.power_cut(lambda _: VANISH))

    assert seqs(scans) == [1]
    assert verdict.was_closed
    assert not verdict.may_have_lost_tail


def test_after_a_failed_sync_the_disk_is_believed_and_not_the_cache() -> None:
    fs = MemoryFilesystem()
    writer = Writer(open_shard(fs))
    writer.write(1)
    fs.fail("sync")
    commit = writer.submit(2)
    writer.shard.drive(commit)

    scans, verdict = examine(fs)

    assert seqs(scans) == [1]
    assert verdict.may_have_lost_tail


# Where to start.


def test_what_a_snapshot_absorbed_is_not_walked_again(sample: Sample) -> None:
    absorbed = {"": (2, sample.starts[5])}

    *scans, verdict = recovery.examine(sample.fs, WAL, absorbed)

    assert seqs(scans) == list(range(5, 13))
    assert verdict.files_replayed == 2


def test_an_absorbed_file_may_be_gone(sample: Sample) -> None:
    sample.fs.unlink(sample.paths[0])

    *scans, verdict = recovery.examine(sample.fs, WAL, {"": (2, 0)})

    assert verdict.damage == []
    assert seqs(scans) == list(range(4, 13))


def test_groups_are_judged_apart() -> None:
    fs = MemoryFilesystem()
    for shard in ("shard-00", "shard-01"):
        fs.make_dirs(f"{WAL}/{shard}")
    fs.replace(f"{WAL}/shard-00/wal-0000000000000001.log", frame(1) + b"torn")
    fs.replace(f"{WAL}/shard-01/wal-0000000000000002.log", frame(1, topic_id=2))

    scans, verdict = examine(fs)

    assert [scan.file.index for scan in scans] == [1, 2]
    assert [flaw.group for flaw in verdict.torn] == [f"{WAL}/shard-00"]
    assert verdict.groups_used == {f"{WAL}/shard-00", f"{WAL}/shard-01"}
    assert verdict.ends == {
        f"{WAL}/shard-00": (1, len(frame(1))),
        f"{WAL}/shard-01": (2, len(frame(1))),
    }


def test_progress_counts_the_files(sample: Sample) -> None:
    seen: list[tuple[int, int]] = []

    list(recovery.examine(sample.fs, WAL, {}, on_file=lambda *step: seen.append(step)))

    assert seen == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_an_empty_directory_is_a_log_that_was_closed() -> None:
    scans, verdict = examine(MemoryFilesystem())

    assert (scans, verdict.next_index, verdict.was_closed) == ([], 1, True)
