"""A cursor that trusts no length."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.compat.qwp.byte_reader import ByteReader, QwpError, QwpStatus, utf8
from tests.support.qwp import bits, text, varint


@given(st.integers(0, (1 << 63) - 1))
def test_a_number_is_read_as_it_was_written(number: int) -> None:
    reader = ByteReader(varint(number))

    assert reader.varint() == number
    assert not reader.left


def test_a_number_without_an_end_is_refused() -> None:
    with pytest.raises(QwpError, match="63 bits"):
        ByteReader(b"\xff" * 20).varint()
    with pytest.raises(QwpError, match="cut short"):
        ByteReader(b"\xff").varint()


@given(st.lists(st.integers(0, 300)))
def test_numbers_in_a_row_are_read_whatever_their_lengths(numbers: list[int]) -> None:
    reader = ByteReader(b"".join(map(varint, numbers)) + b"rest")

    assert list(reader.varints(len(numbers))) == numbers
    assert reader.take(4) == b"rest"


@given(st.lists(st.booleans()))
def test_bits_come_lowest_first(values: list[bool]) -> None:
    assert ByteReader(bits(values)).bits(len(values)) == values


@pytest.mark.parametrize("size", [4, 1 << 40])
def test_nothing_is_taken_beyond_the_end(size: int) -> None:
    with pytest.raises(QwpError, match="cut short") as caught:
        ByteReader(b"abcd", 1).take(size)

    assert caught.value.status is QwpStatus.PARSE


def test_the_end_may_be_before_the_last_byte() -> None:
    reader = ByteReader(b"abcd", 0, 2)

    assert reader.take(2) == b"ab"
    with pytest.raises(QwpError):
        reader.byte()


def test_a_text_is_checked() -> None:
    assert ByteReader(text("naïve")).text("name", 6) == "naïve"
    with pytest.raises(QwpError, match="at most 5"):
        ByteReader(text("naïve")).text("name", 5)
    with pytest.raises(QwpError, match="not valid UTF-8"):
        utf8(b"\xff", "name")
