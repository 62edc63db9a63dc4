"""Frames are read back as they were written, or not at all."""

from __future__ import annotations

import pytest

from penstock.sender.frame_index import FrameIndex, FrameRun, SpoolSegment
from penstock.sender.frame_reader import FrameReader, is_frame
from penstock.sender.segment_files import SegmentFiles
from penstock.testing import MemoryFilesystem
from penstock.wire.spool_frame import encode_frame


@pytest.fixture
def fs() -> MemoryFilesystem:
    fs = MemoryFilesystem()
    fs.make_dirs("/s")
    return fs


def segment_with(fs: MemoryFilesystem, payloads: list[bytes], number: int = 1) -> SpoolSegment:
    files = SegmentFiles(fs, "/s", 4096)
    writer = files.promote(files.prepare(number, b"i" * 16, now_ms=0), base=5)
    for fsn, payload in enumerate(payloads, 5):
        writer.segment.add(*writer.write(fsn, [payload]))
    return writer.segment


def piece_of(segment: SpoolSegment) -> FrameRun:
    piece = FrameIndex([segment]).piece(5, 10_000)
    assert piece is not None
    return piece


def test_a_frame_is_known_by_its_number_and_its_checksum() -> None:
    frame = encode_frame(5, b"x")

    assert is_frame(5, frame)
    assert not is_frame(6, frame)
    assert not is_frame(5, frame[:-1])
    assert not is_frame(5, frame[:-1] + b"y")


def test_frames_come_back_and_a_damaged_one_does_not(fs: MemoryFilesystem) -> None:
    segment = segment_with(fs, [b"a", b"b", b"c"])
    fs.corrupt(segment.path, segment.offsets[1] + 20)

    found = FrameReader(fs).read(piece_of(segment))

    assert found == [encode_frame(5, b"a"), None, encode_frame(7, b"c")]


def test_one_file_is_open_at_a_time(fs: MemoryFilesystem) -> None:
    reader = FrameReader(fs)
    first, second = segment_with(fs, [b"a"], 1), segment_with(fs, [b"b"], 2)
    fs.counts.clear()

    for segment in (first, first, second, second):
        reader.read(piece_of(segment))

    assert fs.counts["open"] == 2
    reader.close()
    reader.close()


def test_a_file_that_was_made_anew_is_opened_again(fs: MemoryFilesystem) -> None:
    reader = FrameReader(fs)
    segment = segment_with(fs, [b"a"])
    whole = fs.read(segment.path)
    fs.corrupt(segment.path, segment.offsets[0] + 20)
    assert reader.read(piece_of(segment)) == [None]
    fs.replace(segment.path, whole)

    assert reader.read(piece_of(segment)) == [encode_frame(5, b"a")]
