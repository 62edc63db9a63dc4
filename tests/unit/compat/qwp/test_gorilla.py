"""Timestamps in bits."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.compat.qwp import gorilla
from penstock.compat.qwp.byte_reader import ByteReader, QwpError
from tests.support import qwp

CHANGES = st.one_of(
    st.just(0),
    st.integers(-64, 63),
    st.integers(-256, 255),
    st.integers(-2048, 2047),
    st.integers(-(1 << 31), (1 << 31) - 1),
)


def values_of(first: int, delta: int, changes: list[int]) -> list[int]:
    values = [first, first + delta]
    for change in changes:
        delta += change
        values.append(values[-1] + delta)
    return values


@given(st.integers(0, 1 << 60), st.integers(0, 1 << 40), st.lists(CHANGES, max_size=60))
def test_what_was_packed_is_unpacked(first: int, delta: int, changes: list[int]) -> None:
    values = values_of(first, delta, changes)
    reader = ByteReader(qwp.gorilla(values) + b"rest")

    assert gorilla.decode(reader, len(values)) == values
    assert reader.take(4) == b"rest"


def test_the_bits_are_those_of_the_table() -> None:
    """0, then 10 and seven bits, then 110 and nine, then 1110 and twelve, then 1111 and 32."""
    values = values_of(1000, 10, [0, 5, -200, 2000, -100_000])
    row = "0" + "10" + "1010000" + "110" + f"{-200 & 511:09b}"[::-1]
    row += "1110" + f"{2000:012b}"[::-1] + "1111" + f"{-100_000 & 0xFFFFFFFF:032b}"[::-1]
    packed = int(row[::-1], 2).to_bytes((len(row) + 7) // 8, "little")

    assert gorilla.decode(ByteReader(struct.pack("<2q", 1000, 1010) + packed), 7) == values


@pytest.mark.parametrize("count", [0, 1, 2])
def test_up_to_two_values_are_raw(count: int) -> None:
    assert gorilla.decode(ByteReader(struct.pack("<2q", 7, 9)), count) == [7, 9][:count]


def test_a_stream_that_ends_early_is_refused() -> None:
    whole = qwp.gorilla(values_of(0, 1, [70_000] * 5))
    for cut in range(len(whole)):
        with pytest.raises(QwpError):
            gorilla.decode(ByteReader(whole[:cut]), 7)


def test_a_value_beyond_64_bits_is_refused() -> None:
    data = struct.pack("<2q", 0, (1 << 63) - 1) + b"\0"

    with pytest.raises(QwpError, match="64 bits"):
        gorilla.decode(ByteReader(data), 3)
