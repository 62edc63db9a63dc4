"""A spool frame: bytes that vouch for themselves."""

from __future__ import annotations

import struct

import pytest
from google_crc32c import value

from penstock.wire.spool_frame import (
    FRAME_HEAD_BYTES,
    FSN_MAX,
    BadFrame,
    decode_frame,
    encode_frame,
    encode_frame_parts,
    read_frame,
)


def test_a_frame_has_the_bytes_that_its_page_says() -> None:
    summed = struct.pack("<IQ", 3, 7)

    frame = encode_frame(7, b"abc")

    checksum = value(summed + b"abc")
    assert frame == b"PSfr" + summed + struct.pack("<I", checksum) + b"abc"


@pytest.mark.parametrize("parts", [[], [b""], [b"abc"], [b"a", b"", b"bc"]])
def test_pieces_make_the_same_frame_as_the_whole(parts: list[bytes]) -> None:
    assert encode_frame_parts(5, parts) == encode_frame(5, b"".join(parts))


@pytest.mark.parametrize(("fsn", "payload"), [(0, b""), (FSN_MAX, b"x" * 1000)])
def test_a_frame_comes_back(fsn: int, payload: bytes) -> None:
    frame = encode_frame(fsn, payload)

    assert decode_frame(frame) == (fsn, payload)
    assert read_frame(b"??" + frame + b"!", 2) == (fsn, len(frame))


def test_no_flipped_bit_is_overlooked() -> None:
    frame = encode_frame(3, b"payload")

    for bit in range(len(frame) * 8):
        harmed = bytearray(frame)
        harmed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(BadFrame):
            decode_frame(bytes(harmed))
        assert read_frame(bytes(harmed), 0) is None


@pytest.mark.parametrize("size", range(FRAME_HEAD_BYTES + 7))
def test_a_cut_frame_is_none(size: int) -> None:
    cut = encode_frame(3, b"payload")[:size]

    with pytest.raises(BadFrame):
        decode_frame(cut)
    assert read_frame(cut, 0) is None


def test_bytes_after_a_frame_are_refused() -> None:
    with pytest.raises(BadFrame, match="its length is 1, but it has 2 payload bytes"):
        decode_frame(encode_frame(1, b"a") + b"b")


@pytest.mark.parametrize("fsn", [-1, FSN_MAX + 1])
def test_a_number_out_of_range_makes_no_frame(fsn: int) -> None:
    with pytest.raises(ValueError, match="invalid frame number"):
        encode_frame(fsn, b"")
