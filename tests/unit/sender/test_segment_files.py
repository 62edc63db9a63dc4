"""Segment files: there with a durable head, or not there."""

from __future__ import annotations

import errno

import pytest

from penstock.sender.segment import HEAD_BYTES, decode_head, scan
from penstock.sender.segment_files import TEMPORARY_NAMES, SegmentFiles, Writer
from penstock.testing import MemoryFilesystem

SLOT = "/slot"
INCARNATION = b"i" * 16


@pytest.fixture
def fs() -> MemoryFilesystem:
    fs = MemoryFilesystem()
    fs.make_dirs(SLOT)
    return fs


def written(fs: MemoryFilesystem, payloads: list[bytes]) -> tuple[SegmentFiles, Writer]:
    files = SegmentFiles(fs, SLOT, 4096)
    writer = files.promote(files.prepare(1, INCARNATION, now_ms=5), base=10)
    for fsn, payload in enumerate(payloads, 10):
        writer.segment.add(*writer.write(fsn, [payload]))
    return files, writer


def test_a_prepared_file_is_all_there_or_has_no_name(fs: MemoryFilesystem) -> None:
    preallocated = SegmentFiles(fs, SLOT, 4096).prepare(3, INCARNATION, now_ms=5)
    (state,) = fs.crash_states()
    assert fs.pending() == []
    assert state.size(preallocated.path) == 4096
    assert decode_head(state.read(preallocated.path)) == preallocated.head

    for stop in range(6):
        fs = MemoryFilesystem()
        fs.make_dirs(SLOT)
        fs.fail("any", nth=stop + 1)
        with pytest.raises(OSError, match="Input/output"):
            SegmentFiles(fs, SLOT, 4096).prepare(3, INCARNATION, now_ms=5)
        for state in fs.crash_states():
            for name in state.list(SLOT):
                is_whole = decode_head(state.read(f"{SLOT}/{name}")) is not None
                assert name in TEMPORARY_NAMES or is_whole


@pytest.mark.parametrize("size", [4096, 256 * 1024, 600_000])
def test_a_warmed_spare_holds_what_it_held(fs: MemoryFilesystem, size: int) -> None:
    files = SegmentFiles(fs, SLOT, size)
    preallocated = files.prepare(1, INCARNATION, now_ms=5)
    before = fs.read(preallocated.path)
    fs.counts.clear()

    files.prefault(preallocated)

    assert fs.counts["write"] == -(-(size - 64) // (256 * 1024))  # each page has been written to
    assert fs.read(preallocated.path) == before
    assert len(before) == size
    assert decode_head(before) == preallocated.head


def test_taking_a_spare_into_use_costs_one_write(fs: MemoryFilesystem) -> None:
    files = SegmentFiles(fs, SLOT, 4096)
    preallocated = files.prepare(1, INCARNATION, now_ms=5)
    fs.counts.clear()

    writer = files.promote(preallocated, base=77)

    assert dict(fs.counts) == {"write": 1}
    head = decode_head(fs.read(preallocated.path))
    assert head is not None
    assert (head.base, head.number, writer.segment.base) == (77, 1, 77)


def test_frames_lie_one_after_the_other(fs: MemoryFilesystem) -> None:
    _, writer = written(fs, [b"one", b"", b"three"])

    data = fs.read(writer.segment.path)
    head = decode_head(data)
    assert head is not None
    found = scan(data, head)

    assert found.frames.offsets == writer.segment.offsets
    assert found.frames.lengths == writer.segment.lengths
    assert found.end == writer.segment.end


def test_a_frame_fits_to_the_last_byte(fs: MemoryFilesystem) -> None:
    _, writer = written(fs, [])
    room = 4096 - HEAD_BYTES - 4

    assert writer.fits(room)
    assert not writer.fits(room + 1)
    writer.segment.add(*writer.write(10, [bytes(room - 20)]))
    assert fs.size(writer.segment.path) == 4096


def test_a_file_made_anew_is_durable_and_can_be_written_to(fs: MemoryFilesystem) -> None:
    files, writer = written(fs, [b"one"])
    fs.fail("sync")
    with pytest.raises(OSError, match="Input/output"):
        writer.file.sync()
    data = writer.file.read_at(0, writer.segment.end)

    files.renew(writer, data)

    assert fs.pending() == []
    assert fs.read(writer.segment.path)[: len(data)] == data
    assert fs.size(writer.segment.path) == 4096
    writer.segment.add(*writer.write(11, [b"two"]))
    writer.file.sync()
    assert fs.synced_after_failure == 0


def test_renewing_in_vain_keeps_the_old_file(fs: MemoryFilesystem) -> None:
    files, writer = written(fs, [b"one"])
    data = fs.read(writer.segment.path)
    fs.fail("allocate", error=errno.ENOSPC)

    with pytest.raises(OSError, match="No space"):
        files.renew(writer, data[: writer.segment.end])

    assert fs.read(writer.segment.path) == data
    assert fs.list(SLOT) == [writer.segment.path.rpartition("/")[2]]


def test_a_discarded_spare_leaves_nothing(fs: MemoryFilesystem) -> None:
    files = SegmentFiles(fs, SLOT, 4096)
    files.discard(files.prepare(1, INCARNATION, now_ms=5))

    assert fs.list(SLOT) == []


def test_a_segment_of_an_earlier_run_can_be_synced(fs: MemoryFilesystem) -> None:
    files, writer = written(fs, [b"one"])

    files.reopen(writer.segment).file.sync()

    assert fs.pending() == []
