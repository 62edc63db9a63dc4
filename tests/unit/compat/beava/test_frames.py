"""Frames of beava's TCP protocol."""

from __future__ import annotations

import pytest

from penstock.compat.beava.frames import (
    ERROR,
    MSGPACK,
    PUSH,
    BeavaFrame,
    BeavaFrameReader,
    FrameTooLong,
    FrameTooShort,
    encoded,
)

TWO = encoded(PUSH, b'{"event":"Ride"}') + encoded(ERROR, b"", MSGPACK)


def test_a_frame_begins_with_its_length_and_is_big_endian() -> None:
    assert encoded(PUSH, b"ab") == bytes.fromhex("00000005 0010 01") + b"ab"


@pytest.mark.parametrize("size", [1, 2, 7, len(TWO)])
def test_frames_are_the_same_however_the_stream_is_cut(size: int) -> None:
    reader = BeavaFrameReader()

    frames = [
        frame for at in range(0, len(TWO), size) for frame in reader.feed(TWO[at : at + size])
    ]

    assert frames == [BeavaFrame(PUSH, 1, b'{"event":"Ride"}'), BeavaFrame(ERROR, MSGPACK, b"")]


def test_a_frame_that_is_too_long_is_refused_before_it_arrives() -> None:
    reader = BeavaFrameReader(payload_bytes_max=4)

    frames = reader.feed(encoded(PUSH, b"1234") + encoded(PUSH, b"12345"))

    assert next(frames).payload == b"1234"
    with pytest.raises(FrameTooLong) as caught:
        next(frames)
    assert (caught.value.declared, caught.value.limit) == (8, 4)


def test_a_length_without_room_for_the_head_ends_the_stream() -> None:
    with pytest.raises(FrameTooShort):
        list(BeavaFrameReader().feed(bytes.fromhex("00000002 0000")))
