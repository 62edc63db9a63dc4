"""One frame at a time, and the golden frames of version 1."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.codec.frame import (
    CHECKSUM_BYTES,
    FRAME_BYTES_MIN,
    HEADER_BYTES,
    Flags,
    Frame,
    FrameType,
    decode_frame,
    encode_frame,
)
from tests.unit.codec.support import frame_of

GOLDEN = Path(__file__).parents[2] / "golden" / "v1"
GOLDEN_BYTES = (GOLDEN / "frames.bin").read_bytes()
GOLDEN_FRAMES: list[dict[str, Any]] = json.loads((GOLDEN / "frames.json").read_text())
ONE = frame_of(2, 4, 7, 0, 9, b"node", b"tag", b"data")

u64s = st.integers(0, (1 << 64) - 1)
frames = st.builds(
    Frame,
    st.integers(1, 63),
    st.sampled_from([0, 4]),
    u64s,
    u64s,
    u64s,
    st.just(b""),
    st.just(b""),
    st.binary(max_size=300),
)


def described(row: dict[str, Any]) -> Frame:
    return Frame(
        row["type"],
        row["flags"],
        row["topic_id"],
        row["seq"],
        row["ts"],
        row["node"].encode(),
        row["tag"].encode(),
        bytes.fromhex(row["data_hex"]),
    )


@given(frame=frames, lead=st.binary(max_size=9), rest=st.binary(max_size=9))
def test_a_frame_survives_the_round_trip(frame: Frame, lead: bytes, rest: bytes) -> None:
    encoded = encode_frame(frame)

    assert decode_frame(lead + encoded + rest, len(lead)) == (frame, len(lead) + len(encoded))


def test_presence_bits_are_set_from_the_lengths() -> None:
    frame, _ = decode_frame(encode_frame(Frame(2, 0, 1, 2, 3, b"n", b"t", b"d")), 0)

    assert frame.flags == Flags.HAS_TAG | Flags.HAS_NODE


def test_the_sizes_add_up() -> None:
    assert HEADER_BYTES + CHECKSUM_BYTES == FRAME_BYTES_MIN
    assert len(encode_frame(Frame(2, 0, 1, 2, 3, b"", b"", b""))) == FRAME_BYTES_MIN


@pytest.mark.parametrize("cut", range(len(ONE)))
def test_a_cut_frame_is_refused_with_a_reason(cut: int) -> None:
    with pytest.raises(ValueError, match="bytes"):
        decode_frame(ONE[:cut], 0)


@pytest.mark.parametrize("at", range(len(ONE)))
def test_a_flipped_bit_is_refused_with_a_reason(at: int) -> None:
    for bit in range(8):
        damaged = bytearray(ONE)
        damaged[at] ^= 1 << bit
        with pytest.raises(ValueError, match=r"torn|malformed|checksum differs"):
            decode_frame(damaged, 0)


@pytest.mark.parametrize("offset", [-1, len(ONE), len(ONE) + 1])
def test_an_offset_outside_is_refused(offset: int) -> None:
    with pytest.raises(ValueError, match="no frame"):
        decode_frame(ONE, offset)


def test_the_golden_file_has_one_frame_of_every_type() -> None:
    assert [row["type"] for row in GOLDEN_FRAMES] == list(FrameType)
    assert [row["name"] for row in GOLDEN_FRAMES] == [kind.name.lower() for kind in FrameType]


@pytest.mark.parametrize("row", GOLDEN_FRAMES, ids=lambda row: row["name"])
def test_golden_frames_are_written_and_read_for_ever(
    kernel: ModuleType, row: dict[str, Any]
) -> None:
    frame = described(row)
    golden = GOLDEN_BYTES[row["offset"] : row["offset"] + row["bytes"]]
    parts = frame.node, frame.tag, frame.data

    encoded = kernel.encode_control(
        frame.type, frame.flags, frame.topic_id, frame.seq, frame.ts, *parts
    )

    assert encoded == golden == encode_frame(frame)
    assert golden[-8:].hex() == row["checksum_hex"]
    assert decode_frame(GOLDEN_BYTES, row["offset"]) == (frame, row["offset"] + row["bytes"])


def test_the_golden_append_is_what_encode_appends_writes(kernel: ModuleType) -> None:
    row = GOLDEN_FRAMES[0]
    meta, data = b'{"trace":"a\\"b,c"}', b'{"id":1,"n":[1,2.50]}'
    fixed = row["topic_id"], row["seq"], row["ts"], Flags.DURABLE

    encoded, _, _ = kernel.encode_appends(
        *fixed, [data], [meta], None, None, row["tag"].encode(), row["node"].encode()
    )

    assert encoded == GOLDEN_BYTES[: row["bytes"]]


def test_the_golden_file_scans_clean(kernel: ModuleType) -> None:
    items, stop, reason = kernel.scan(GOLDEN_BYTES, 0, len(GOLDEN_BYTES))

    assert (stop, reason) == (len(GOLDEN_BYTES), 0)
    assert [item[0] for item in items] == list(FrameType)
