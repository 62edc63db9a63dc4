"""The watermark: two records, each able to stand for the file."""

from __future__ import annotations

import errno

import pytest

from penstock.sender.ack_watermark import (
    RECORD_BYTES,
    WATERMARK_BYTES,
    WATERMARK_NAME,
    AckWatermark,
    Marks,
    decode,
    newest,
)
from penstock.testing import MemoryFilesystem

SLOT = "/slot"
PATH = f"{SLOT}/{WATERMARK_NAME}"


@pytest.fixture
def fs() -> MemoryFilesystem:
    fs = MemoryFilesystem()
    fs.make_dirs(SLOT)
    return fs


def test_a_record_comes_back_and_no_flipped_bit_is_overlooked() -> None:
    marks = Marks(7, -1, 12)
    record = marks.encode()

    assert decode(record) == marks
    assert len(record) == RECORD_BYTES
    for bit in range(RECORD_BYTES * 8):
        harmed = bytearray(record)
        harmed[bit // 8] ^= 1 << bit % 8
        assert decode(bytes(harmed)) is None
    assert decode(record[:-1]) is None


def test_the_newer_record_counts_and_the_older_stands_in() -> None:
    old, new = Marks(1, 3, 5).encode(), Marks(2, 4, 6).encode()
    pad = bytes(4096 - RECORD_BYTES)

    assert newest(old + pad + new) == newest(new + pad + old) == Marks(2, 4, 6)
    assert newest(old + pad + bytes(RECORD_BYTES)) == Marks(1, 3, 5)
    assert newest(bytes(WATERMARK_BYTES)) is None


def test_notes_are_read_by_the_next_run(fs: MemoryFilesystem) -> None:
    watermark = AckWatermark(fs, SLOT)
    assert watermark.read() is None
    for fsn in range(5):
        watermark.record(fsn, fsn + 1)
    watermark.record(2, 3)  # never back

    marks = AckWatermark(fs.kill(), SLOT).read()

    assert marks is not None
    assert (marks.acked, marks.published) == (4, 5)


def test_a_note_is_not_synced_and_tears_only_itself(fs: MemoryFilesystem) -> None:
    watermark = AckWatermark(fs, SLOT)
    watermark.record_durably(3, 9)
    watermark.record(4, 9)

    found = {AckWatermark(state, SLOT).read() for state in fs.crash_states()}

    assert {marks.acked for marks in found if marks} == {3, 4}
    assert None not in found


def test_after_settling_no_record_claims_less(fs: MemoryFilesystem) -> None:
    watermark = AckWatermark(fs, SLOT)
    watermark.record(1, 9)
    watermark.record_durably(5, 9)

    for at in (0, 4096):
        harmed = fs.copy()
        harmed.corrupt(PATH, at)
        marks = AckWatermark(harmed, SLOT).read()
        assert marks is not None
        assert marks.acked == 5


@pytest.mark.parametrize("garbage", [b"", b"x" * 100, b"\xff" * WATERMARK_BYTES])
def test_garbage_claims_nothing_and_is_written_again(fs: MemoryFilesystem, garbage: bytes) -> None:
    fs.replace(PATH, garbage)
    watermark = AckWatermark(fs, SLOT)
    assert watermark.read() is None
    assert watermark.is_empty

    watermark.record(2, 3)

    again = AckWatermark(fs, SLOT)
    assert again.read() is not None
    assert not again.is_empty


def test_a_file_that_failed_to_sync_is_replaced(fs: MemoryFilesystem) -> None:
    watermark = AckWatermark(fs, SLOT)
    watermark.record_durably(1, 1)
    fs.fail("sync")
    with pytest.raises(OSError, match="Input/output"):
        watermark.record_durably(2, 2)

    watermark.record_durably(3, 3)
    watermark.record(4, 4)

    assert fs.synced_after_failure == 0
    for state in fs.crash_states():
        marks = AckWatermark(state, SLOT).read()
        assert marks is not None
        assert marks.acked >= 3


def test_a_file_that_cannot_be_read_claims_nothing(fs: MemoryFilesystem) -> None:
    AckWatermark(fs, SLOT).record_durably(1, 1)
    fs.fail("read")
    watermark = AckWatermark(fs, SLOT)

    assert watermark.read() is None
    watermark.record_durably(5, 5)

    assert AckWatermark(fs, SLOT).read() == Marks(1, 5, 5)


def test_without_space_for_the_first_record_there_is_none(fs: MemoryFilesystem) -> None:
    watermark = AckWatermark(fs, SLOT)
    fs.capacity_bytes = 1
    with pytest.raises(OSError, match="No space") as caught:
        watermark.record(1, 1)

    assert caught.value.errno == errno.ENOSPC
    assert watermark.is_empty
    watermark.close()
    watermark.close()


def test_a_power_cut_leaves_what_was_settled_whatever_came_after(fs: MemoryFilesystem) -> None:
    """Segments up to there may be gone, and a file without a record would not tell so."""
    watermark = AckWatermark(fs, SLOT)
    watermark.record_durably(3, 9)
    for fsn in (4, 5, 6):
        watermark.record(fsn, 9)

    seen = []
    fs.on_operation = lambda index, kind, path: seen.append(fs.copy())
    watermark.record_durably(7, 9)

    for moment in [*seen, fs]:
        for state in moment.crash_states():
            marks = AckWatermark(state, SLOT).read()
            assert marks is not None
            assert marks.acked >= 3


def test_a_run_that_was_killed_in_the_middle_leaves_a_whole_record_to_the_next(
    fs: MemoryFilesystem,
) -> None:
    watermark = AckWatermark(fs, SLOT)
    watermark.record_durably(3, 9)
    killed: list[MemoryFilesystem] = []
    fs.on_operation = lambda index, kind, path: killed.append(fs.copy())
    watermark.record_durably(7, 9)

    for disk in killed:
        for left in (disk.kill(), *disk.crash_states()):
            next_run = AckWatermark(left, SLOT)
            assert next_run.read() is not None
            next_run.record(8, 9)
            next_run.record(9, 9)
            for state in left.crash_states():
                marks = AckWatermark(state, SLOT).read()
                assert marks is not None
                assert marks.acked >= 3
