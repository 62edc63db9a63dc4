"""A segment file: found whole, and found in pieces."""

from __future__ import annotations

import random
import struct

import pytest
from google_crc32c import value

from penstock.sender import segment
from penstock.sender.segment import (
    HEAD_BYTES,
    PLACE_BYTES,
    RECORD_BYTES,
    Found,
    Frames,
    Head,
    SegmentScan,
    UnknownVersion,
    decode_head,
    name_of,
    number_of,
    place_of,
    scan,
    walk_unplaced,
)
from penstock.wire.spool_frame import encode_frame, encode_head, read_frame

HEAD = Head(number=3, incarnation=b"i" * 16, created_us=1_760_000_000_000_000, base=10)


def segment_with(payloads: list[bytes], head: Head = HEAD, size: int = 0) -> bytes:
    data = Head(head.number, head.incarnation, head.created_us).encode() + head.encode()
    for fsn, payload in enumerate(payloads, head.base or 0):
        frame_head = encode_head(fsn, [payload])
        data += place_of(head.seed, len(data), frame_head) + frame_head + payload
    return data.ljust(size, b"\0")


def found_in(payloads: list[bytes]) -> list[Found]:
    found, at = [], HEAD_BYTES
    for fsn, payload in enumerate(payloads, 10):
        length = 20 + len(payload)
        found.append(Found(fsn, at + PLACE_BYTES, length))
        at += PLACE_BYTES + length
    return found


PAYLOADS = [b"one", b"", b"three" * 9, b"four"]
WHOLE = segment_with(PAYLOADS, size=400)


def numbers(result: SegmentScan) -> list[int]:
    return [frame.fsn for frame in result.frames]


def test_a_name_tells_its_number() -> None:
    assert number_of(name_of(0x1F)) == 0x1F
    assert name_of(0x1F) == "sf-000000000000001f.seg"
    assert number_of("sf-1.seg") is None
    assert number_of("sf-000000000000001f.seg.tmp") is None


def test_a_head_comes_back_from_either_record() -> None:
    preallocated = Head(3, HEAD.incarnation, HEAD.created_us)

    assert decode_head(preallocated.encode() + HEAD.encode()) == HEAD
    assert decode_head(preallocated.encode() + bytes(RECORD_BYTES)) == preallocated
    assert decode_head(bytes(RECORD_BYTES) + HEAD.encode()) == HEAD
    assert decode_head(bytes(HEAD_BYTES)) is None
    assert decode_head(b"") is None


def test_a_later_version_is_told_from_a_flipped_bit() -> None:
    later = bytearray(HEAD.encode())
    later[4] = 2

    assert decode_head(bytes(later)) is None

    later[-4:] = struct.pack("<I", value(bytes(later[:-4])))
    with pytest.raises(UnknownVersion, match="segment format 2"):
        decode_head(bytes(later))


def test_a_whole_segment_is_found_whole() -> None:
    result = scan(WHOLE, HEAD)

    assert list(result.frames) == found_in(PAYLOADS)
    assert result.damage == []
    assert result.torn_bytes == 0
    assert result.end == len(segment_with(PAYLOADS))


def test_a_flipped_bit_costs_at_most_its_own_frame() -> None:
    for bit in range(len(segment_with(PAYLOADS)) * 8):
        harmed = bytearray(WHOLE)
        harmed[bit // 8] ^= 1 << bit % 8
        head = decode_head(bytes(harmed))
        assert head is not None

        result = scan(bytes(harmed), head)

        hit = [f.fsn for f in found_in(PAYLOADS) if f.offset <= bit // 8 < f.offset + f.length]
        assert numbers(result) == [fsn for fsn in range(10, 14) if fsn not in hit]
        lost = [n for s in result.damage for n in range(s.first_fsn or 0, s.last_fsn + 1)]
        if hit == [13]:
            assert (lost, result.torn_bytes > 0) == ([], True)
        else:
            assert (lost, result.torn_bytes) == (hit, 0)


@pytest.mark.parametrize("size", range(HEAD_BYTES, len(segment_with(PAYLOADS))))
def test_a_cut_keeps_every_whole_frame_before_it(size: int) -> None:
    result = scan(WHOLE[:size], HEAD)

    assert list(result.frames) == [f for f in found_in(PAYLOADS) if f.offset + f.length <= size]
    assert result.damage == []


def test_a_damaged_stretch_says_which_numbers_are_gone() -> None:
    second, third = found_in(PAYLOADS)[1:3]
    harmed = bytearray(WHOLE)
    for frame in (second, third):
        harmed[frame.offset + 1] ^= 1

    (stretch,) = scan(bytes(harmed), HEAD).damage

    assert (stretch.first_fsn, stretch.last_fsn) == (11, 12)
    assert stretch.offset == second.offset - PLACE_BYTES
    assert stretch.offset + stretch.length == third.offset + third.length


def test_a_frame_inside_a_payload_is_never_taken_for_ours() -> None:
    foreign = segment_with([b"not ours"] * 3, Head(3, b"o" * 16, 0, base=11))
    inside = [b"a", b"x" + foreign + encode_frame(11, b"bait") + encode_frame(500, b"bait"), b"c"]
    at = found_in(inside)[1].offset
    for harmed_at in (at, at + 4, at + 20):
        harmed = bytearray(segment_with(inside, size=2000))
        harmed[harmed_at] ^= 0x80

        result = scan(bytes(harmed), HEAD)

        assert numbers(result) == [10, 12]
        assert list(result.frames)[1] == found_in(inside)[2]


def test_a_torn_frame_with_frames_inside_is_a_torn_tail() -> None:
    inside = [b"a", encode_frame(11, b"bait") + encode_frame(12, b"bait") + b"end"]
    harmed = bytearray(segment_with(inside, size=2000))
    harmed[found_in(inside)[1].offset] = 0

    result = scan(bytes(harmed), HEAD)

    assert (numbers(result), result.damage) == ([10], [])
    assert result.torn_bytes > 0


def test_without_a_base_the_first_good_frame_says_where_it_begins() -> None:
    harmed = bytearray(WHOLE)
    harmed[RECORD_BYTES:HEAD_BYTES] = bytes(RECORD_BYTES)
    head = decode_head(bytes(harmed))
    assert head is not None
    assert head.base is None
    assert numbers(scan(bytes(harmed), head)) == [10, 11, 12, 13]

    harmed[found_in(PAYLOADS)[0].offset] ^= 1
    result = scan(bytes(harmed), head)

    assert numbers(result) == [11, 12, 13]
    assert (result.damage[0].first_fsn, result.damage[0].last_fsn) == (None, 10)


def test_a_search_stays_linear_whatever_the_payload_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A payload full of heads that claim the rest of the file: summing each up would take hours."""
    bait = encode_frame(11, b"x" * 2_000_000)[:20]
    payloads = [b"a", bait * 100_000, b"c"]
    harmed = bytearray(segment_with(payloads))
    harmed[found_in(payloads)[1].offset] ^= 1

    summed: list[int] = []

    def counted(data: bytes, offset: int) -> tuple[int, int] | None:
        summed.append(offset)
        return read_frame(data, offset)

    monkeypatch.setattr(segment, "read_frame", counted)
    result = scan(bytes(harmed), HEAD)

    assert numbers(result) == [10, 12]
    assert len(summed) < 10


def test_noise_is_survived() -> None:
    rng = random.Random(7)
    for _ in range(300):
        harmed = bytearray(WHOLE)
        start = rng.randrange(HEAD_BYTES, len(WHOLE))
        noise = rng.randbytes(rng.randrange(1, 80))
        harmed[start : start + len(noise)] = noise

        result = scan(bytes(harmed), HEAD)

        untouched = [
            f
            for f in found_in(PAYLOADS)
            if f.offset + f.length <= start or f.offset - PLACE_BYTES >= start + len(noise)
        ]
        assert [f for f in result.frames if f in untouched] == untouched
        assert all(f in found_in(PAYLOADS) for f in result.frames)


FOUND = [Found(fsn, 132 + 100 * at, 90 + at) for at, fsn in enumerate([5, 6, 9, 10, 20])]


@pytest.mark.parametrize("count", range(1, len(FOUND) + 1))
def test_frames_are_given_back_as_they_were_found(count: int) -> None:
    frames = Frames(FOUND[:count])

    assert (list(frames), len(frames)) == (FOUND[:count], count)
    assert (frames.first_fsn, frames.last_fsn) == (5, FOUND[count - 1].fsn)


def test_no_frames_are_none() -> None:
    frames = Frames()

    assert (list(frames), len(frames), bool(frames)) == ([], 0, False)
    assert [list(each) for each in frames.laid_out(7)] == [[], []]


@pytest.mark.parametrize("base", range(6))
def test_a_number_without_a_frame_is_laid_out_as_zero(base: int) -> None:
    offsets, lengths = Frames(FOUND).laid_out(base)

    places = {frame.fsn: (frame.offset, frame.length) for frame in FOUND}
    laid = list(zip(offsets, lengths, strict=True))
    assert laid == [places.get(fsn, (0, 0)) for fsn in range(base, 21)]


def test_frames_without_a_jump_are_laid_out_without_a_copy() -> None:
    frames = Frames(FOUND[:2])

    offsets, lengths = frames.laid_out(5)

    assert offsets is frames.offsets
    assert lengths is frames.lengths


def test_frames_can_be_counted_without_a_head() -> None:
    assert list(walk_unplaced(bytes(HEAD_BYTES) + WHOLE[HEAD_BYTES:])) == found_in(PAYLOADS)
    assert list(walk_unplaced(bytes(400))) == []
