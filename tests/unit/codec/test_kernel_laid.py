"""Length-prefixed records that become frames without being taken apart: the same frames, and only
those records that need no closer look."""

from __future__ import annotations

import struct
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.codec.support import FIRST, TOPIC, TS, outcome
from tests.unit.codec.test_kernel_split import Row, columns, encoded, liars, rows_

JSON = st.sampled_from(
    [
        b"1",
        b'"abc"',
        b'{"a":[1,2.5e3,true,null],"b":"\\u00e9"}',
        b"[]",
        b"{",
        b"",
        b" 1",
        '"é"'.encode(),
        b'"\xff"',
        b"01",
    ]
)
LABEL = st.sampled_from([b"", b"a", b"abcdefgh", b"x" * 9, "é".encode(), b"\xff"])
likely = st.lists(st.tuples(JSON, st.sampled_from([b"", b"", b"{}"]), LABEL, LABEL), max_size=6)


def weighed(kernel: ModuleType, body: bytes, count: int, offset: int = 0) -> tuple[int, int]:
    found: tuple[int, int] = kernel.weigh_laid(body, offset, count, 8, 8)
    return found


def is_plain(kernel: ModuleType, row: Row) -> bool:
    data, meta, tag, node = row
    return (
        not meta
        and max(len(tag), len(node)) <= 8
        and (tag + node).isascii()
        and bool(kernel.are_plain_json([data]))
    )


@given(rows=likely)
def test_exactly_plain_records_are_weighed(kernel: ModuleType, rows: list[Row]) -> None:
    found = weighed(kernel, encoded(rows), len(rows))

    if all(is_plain(kernel, row) for row in rows):
        sizes = [len(row[0]) for row in rows]
        assert found == (sum(sizes), max(sizes, default=0))
    else:
        assert found == (-1, 0)


@pytest.mark.parametrize(
    ("row", "is_taken"),
    [
        ((b'{"a":1}', b"", b"", b""), True),
        ((b'{"a":1}', b"", b"tag", b"node"), True),
        ((b'{"a":1}', b"1", b"", b""), False),
        ((b'{"a":}', b"", b"", b""), False),
        ((b"1", b"", b"x" * 9, b""), False),
        ((b"1", b"", b"", b"x" * 9), False),
        ((b"1", b"", b"\x80", b""), False),
        ((b"1", b"", b"", b"\x80"), False),
    ],
)
def test_what_needs_a_closer_look_is_not_weighed(
    kernel: ModuleType, row: Row, is_taken: bool
) -> None:
    assert (weighed(kernel, encoded([row]), 1)[0] >= 0) is is_taken


@given(rows=likely.filter(bool))
def test_records_that_do_not_end_with_the_text_are_not_weighed(
    kernel: ModuleType, rows: list[Row]
) -> None:
    body = encoded(rows)

    assert weighed(kernel, body + b"\0", len(rows)) == (-1, 0)
    for size in range(len(body)):
        assert weighed(kernel, body[:size], len(rows)) == (-1, 0)


@given(rows=rows_, before=st.binary(max_size=9), node=st.sampled_from([None, b"", b"here"]))
def test_the_frames_are_those_of_records_that_were_taken_apart(
    kernel: ModuleType, rows: list[Row], before: bytes, node: bytes | None
) -> None:
    body = before + encoded(rows)
    datas, metas, tags, nodes = columns(rows)

    found = kernel.encode_laid(TOPIC, FIRST, TS, 4, body, len(before), len(rows), node)

    apart = kernel.encode_appends(TOPIC, FIRST, TS, 4, datas, metas, tags, nodes, None, node)
    assert found == apart


@given(rows=rows_, lies=st.lists(liars, max_size=2), tail=st.binary(max_size=20), data=st.data())
def test_no_bytes_whatever_break_it_and_both_forms_agree(
    forms: tuple[ModuleType, ModuleType], rows: list[Row], lies: Any, tail: bytes, data: Any
) -> None:
    body = encoded(rows) + b"".join(struct.pack("<IIHH", *lie) for lie in lies) + tail
    offset = data.draw(st.integers(-2, len(body) + 2) | st.sampled_from([-(2**63), 2**63 - 1]))
    count = data.draw(st.integers(-2, len(rows) + 3) | st.sampled_from([2**31, 2**62, 2**63 - 1]))

    def laid(form: ModuleType) -> Any:
        return form.encode_laid(TOPIC, FIRST, TS, 4, body, offset, count, None)

    weights = [form.weigh_laid(body, offset, count, 8, 8) for form in forms]
    frames = [outcome(lambda form=form: laid(form)) for form in forms]

    assert weights[0] == weights[1]
    assert frames[0] == frames[1]
    assert frames[0] is ValueError or type(frames[0]) is tuple


def test_a_seq_that_does_not_fit_is_refused(kernel: ModuleType) -> None:
    body = encoded([(b"1", b"", b"", b"")] * 2)

    assert outcome(lambda: kernel.encode_laid(TOPIC, 2**64 - 1, TS, 0, body, 0, 2, None)) is (
        OverflowError
    )


def test_a_node_that_is_too_long_is_refused(kernel: ModuleType) -> None:
    body = encoded([(b"1", b"", b"", b"")])

    assert outcome(lambda: kernel.encode_laid(1, 1, TS, 0, body, 0, 1, b"x" * 65536)) is ValueError
