"""Length-prefixed records cut out of a body, and texts copied out of buffers."""

from __future__ import annotations

import struct
from types import ModuleType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.codec.support import outcome

Row = tuple[bytes, bytes, bytes, bytes]  # data, meta, tag, node

texts = st.binary(max_size=30)
rows_ = st.lists(st.tuples(texts, texts, texts, texts), max_size=8)
# Lengths as a stranger writes them: small ones, and those at the edges of signed and unsigned.
lengths = st.integers(0, 40) | st.sampled_from([2**16 - 1, 2**31 - 1, 2**31, 2**32 - 13, 2**32 - 1])
liars = st.tuples(
    lengths, lengths, lengths.map(lambda n: n & 0xFFFF), lengths.map(lambda n: n >> 16)
)


def encoded(rows: list[Row]) -> bytes:
    return b"".join(
        struct.pack("<IIHH", len(data), len(meta), len(tag), len(node)) + tag + node + meta + data
        for data, meta, tag, node in rows
    )


def columns(rows: list[Row]) -> list[Any]:
    """datas, metas, tags, nodes; empty is absent, and a column of absent ones is None."""
    datas, *others = ([row[i] for row in rows] for i in range(4))
    return [datas, *([text or None for text in c] if any(c) else None for c in others)]


@given(rows=rows_, before=st.binary(max_size=20), after=st.binary(max_size=20))
def test_records_come_out_as_they_went_in(
    kernel: ModuleType, rows: list[Row], before: bytes, after: bytes
) -> None:
    body = encoded(rows)

    found = kernel.split_records(before + body + after, len(before), len(rows))

    assert list(found) == [*columns(rows), len(before) + len(body)]


@given(rows=rows_.filter(bool))
def test_a_cut_at_any_byte_names_the_record_that_is_short(
    kernel: ModuleType, rows: list[Row]
) -> None:
    body = encoded(rows)
    ends = [len(encoded(rows[: i + 1])) for i in range(len(rows))]

    for size in range(len(body)):
        *columns_, end = kernel.split_records(body[:size], 0, len(rows))
        assert columns_ == [[], None, None, None]
        first_short = next(i for i, stop in enumerate(ends) if stop > size)
        # When not even the lengths can fit, nobody looks which one is the first.
        assert end in (-1 - first_short, -1 - len(rows))


@given(rows=rows_, lies=st.lists(liars, min_size=1, max_size=3), tail=st.binary(max_size=50))
def test_a_length_that_lies_is_found_out(
    kernel: ModuleType, rows: list[Row], lies: list[tuple[int, int, int, int]], tail: bytes
) -> None:
    body = encoded(rows) + b"".join(struct.pack("<IIHH", *lie) for lie in lies) + tail

    datas, metas, tags, nodes, end = kernel.split_records(body, 0, len(rows) + len(lies))

    if end < 0:
        assert (datas, metas, tags, nodes) == ([], None, None, None)
        return
    assert end <= len(body)
    found = [*datas, *(text for c in (metas, tags, nodes) if c for text in c if text)]
    assert sum(map(len, found)) + 12 * len(datas) == end


@given(
    body=st.binary(max_size=200),
    offset=st.integers(-3, 210) | st.sampled_from([-(2**63), 2**63 - 1]),
    count=st.integers(-3, 20) | st.sampled_from([-(2**63) + 1, 2**31, 2**62, 2**63 - 1]),
)
def test_no_bytes_whatever_break_it_and_both_forms_agree(
    forms: tuple[ModuleType, ModuleType], body: bytes, offset: int, count: int
) -> None:
    answers = [form.split_records(body, offset, count) for form in forms]

    assert answers[0] == answers[1]
    assert answers[0][-1] <= len(body)


@given(
    rows=rows_, flips=st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 255)), max_size=4)
)
def test_both_forms_agree_on_damaged_records(
    forms: tuple[ModuleType, ModuleType], rows: list[Row], flips: list[tuple[int, int]]
) -> None:
    body = bytearray(encoded(rows) or b"\0" * 12)
    for at, mask in flips:
        body[at % len(body)] ^= mask

    answers = [form.split_records(bytes(body), 0, len(rows)) for form in forms]

    assert answers[0] == answers[1]


@pytest.mark.parametrize("count", [0, 1, 10_000, 10_001])
def test_a_count_alone_takes_no_memory(kernel: ModuleType, count: int) -> None:
    """A body of a few bytes that announces many records is refused by its size."""
    *_, end = kernel.split_records(b"\0" * 11, 0, count)

    assert end == (0 if not count else -1 - count)


@given(values=st.lists(st.binary(max_size=40), max_size=10))
def test_texts_are_copied_out_of_any_buffer(
    forms: tuple[ModuleType, ModuleType], values: list[bytes]
) -> None:
    for wrap in (bytes, bytearray, memoryview, msgspec.Raw):
        for form in forms:
            found = form.texts_of([wrap(value) for value in values])
            assert found == values
            assert all(type(text) is bytes for text in found)


@given(values=st.lists(st.integers() | st.text(), max_size=6))
def test_raw_values_of_a_parser_become_their_texts(
    kernel: ModuleType, values: list[object]
) -> None:
    text = msgspec.json.encode(values)

    found = kernel.texts_of(msgspec.json.Decoder(list[msgspec.Raw]).decode(text))

    assert b"[" + b",".join(found) + b"]" == text


@pytest.mark.parametrize("odd", ["text", None, object(), 1.5])
def test_what_is_no_buffer_is_refused(kernel: ModuleType, odd: object) -> None:
    assert outcome(lambda: kernel.texts_of([b"1", odd])) is TypeError


def test_texts_do_not_change_when_their_buffer_does(kernel: ModuleType) -> None:
    buffer = bytearray(b"before")

    found = kernel.texts_of([buffer])
    buffer[:] = b"after!"

    assert found == [b"before"]
