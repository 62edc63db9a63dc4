"""Messages of a WebSocket client: unmasked, and cut off before what is not a whole message."""

from __future__ import annotations

from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.codec.support import outcome

Message = tuple[bytes, bool]

masks = st.binary(min_size=4, max_size=4)
messages = st.tuples(
    st.binary(max_size=20) | st.binary(min_size=120, max_size=300) | st.just(b"x" * 70_000),
    st.booleans(),
)
streams = st.lists(st.tuples(messages, masks), max_size=5)


def encoded(message: Message, mask: bytes = b"\0\0\0\0") -> bytes:
    data, is_text = message
    size = len(data)
    if size < 126:
        length = bytes([0x80 | size])
    elif size < 1 << 16:
        length = b"\xfe" + size.to_bytes(2, "big")
    else:
        length = b"\xff" + size.to_bytes(8, "big")
    masked = bytes(byte ^ mask[i % 4] for i, byte in enumerate(data))
    return bytes([0x81 if is_text else 0x82]) + length + mask + masked


@given(stream=streams, before=st.binary(max_size=9))
def test_messages_come_out_as_they_were_before_the_mask(
    kernel: ModuleType, stream: list[tuple[Message, bytes]], before: bytes
) -> None:
    data = before + b"".join(encoded(*one) for one in stream)

    found = kernel.masked_messages(data, len(before), 1 << 20)

    assert found == ([message for message, _ in stream], len(data))


@pytest.mark.parametrize("size", [0, 1, 125, 126, 300])
def test_a_message_that_is_cut_off_is_left(kernel: ModuleType, size: int) -> None:
    first = encoded((b"first", True))
    second = encoded((b"x" * size, True))

    for cut in range(len(second)):
        found = kernel.masked_messages(first + second[:cut], 0, 1000)
        assert found == ([(b"first", True)], len(first))


@pytest.mark.parametrize(
    "frame",
    [
        encoded((b"x" * 11, True)),  # too long
        b"\x81\xff" + b"\xff" * 8 + bytes(4),
        b"\x81\xff" + b"\x80" + bytes(7) + bytes(4),
        b"\x01\x80" + bytes(4),  # a fragment
        b"\x80\x80" + bytes(4),
        b"\xc1\x80" + bytes(4),  # a reserved bit
        b"\x89\x80" + bytes(4),  # a ping
        b"\x88\x80" + bytes(4),
        b"\x81\x00" + bytes(4),  # without a mask
        b"\x81\x04" + bytes(4),
    ],
)
def test_every_other_frame_is_left_to_the_library(kernel: ModuleType, frame: bytes) -> None:
    first = encoded((b"x" * 10, False))

    found = kernel.masked_messages(first + frame + first, 0, 10)

    assert found == ([(b"x" * 10, False)], len(first))


@given(
    stream=streams,
    at=st.integers(-1, 40),
    cut=st.integers(0, 400),
    spot=st.integers(0, 30),
    byte=st.integers(0, 255),
)
def test_both_forms_agree_on_any_bytes(
    forms: tuple[ModuleType, ModuleType],
    stream: list[tuple[Message, bytes]],
    at: int,
    cut: int,
    spot: int,
    byte: int,
) -> None:
    data = bytearray(b"".join(encoded(*one) for one in stream)[:cut])
    if spot < len(data):
        data[spot] = byte

    found = [
        outcome(lambda form=form: form.masked_messages(bytes(data), at, 1000)) for form in forms
    ]

    assert found[0] == found[1]
