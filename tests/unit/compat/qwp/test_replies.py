"""Replies, byte by byte."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.compat.qwp import replies
from penstock.compat.qwp.byte_reader import QwpStatus
from tests.support.qwp import Heard, heard

TABLES = st.dictionaries(st.text(min_size=1, max_size=20), st.integers(0, (1 << 63) - 1))


def test_the_bytes_are_those_of_the_table() -> None:
    assert replies.ok(5, {"ab": 9}) == (
        b"\x00" + b"\x05" + bytes(7) + b"\x01\x00" + b"\x02\x00ab" + b"\x09" + bytes(7)
    )
    assert replies.durable({"ab": 9}) == b"\x02\x01\x00\x02\x00ab\x09" + bytes(7)
    assert replies.error(QwpStatus.GAP, 1, "why") == b"\x0d\x01" + bytes(7) + b"\x03\x00why"


@given(st.integers(0, 1 << 40), TABLES)
def test_a_reply_is_heard_as_it_was_said(seq: int, tables: dict[str, int]) -> None:
    assert heard(replies.ok(seq, tables)) == Heard(0, seq, tables, "")
    assert heard(replies.durable(tables)) == Heard(2, -1, tables, "")


@given(st.text(max_size=2000))
def test_a_reason_is_cut_between_two_characters(reason: str) -> None:
    found = heard(replies.error(QwpStatus.PARSE, 0, reason)).reason

    assert len(found.encode()) <= 1024
    assert reason.startswith(found)
    assert found == reason or len(found.encode()) > 1020
