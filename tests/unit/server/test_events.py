"""Cursors in event ids: what goes out comes back, and nothing else does harm."""

from __future__ import annotations

import base64
import json

from hypothesis import given
from hypothesis import strategies as st

from penstock.server import events
from penstock.types import Gap, JsonPage

NAMES = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._:-]{0,20}\Z")


@given(st.dictionaries(NAMES, st.integers(0, (1 << 64) - 1), max_size=5))
def test_a_cursor_id_comes_back(cursors: dict[str, int]) -> None:
    text = events.cursor_id(cursors)

    assert b"=" not in text
    assert b"+" not in text
    assert b"/" not in text
    assert events.cursors_of(text) == cursors


@given(st.binary(max_size=60))
def test_any_other_id_is_no_cursor(text: bytes) -> None:
    found = events.cursors_of(text)

    assert isinstance(found, dict)


def test_ill_typed_ids_are_no_cursors() -> None:
    for value in ([1], {"a": "x"}, {"a": 1.5}, "a", None):
        text = base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")
        assert events.cursors_of(text) == {}


def test_the_members_of_an_event_are_json() -> None:
    gap = Gap(1, 4, "cap", 4, 5, 9)
    page = JsonPage(b'[{"$seq":5}]', 1, None, 6, 9, 5, False, 2)

    assert json.loads(b"{%b}" % events.record_fields("t", 4, page)) == {
        "topic": "t",
        "from_seq": 4,
        "to_seq": 6,
        "head_seq": 9,
        "records": [{"$seq": 5}],
    }
    assert json.loads(b"{%b}" % events.tombstone_fields("t", gap, "ttl")) == {
        "topic": "t",
        "reason": "ttl",
        "gap_from": 1,
        "gap_to": 4,
        "earliest_seq": 5,
        "head_seq": 9,
    }
    assert json.loads(b"{%b}" % events.head_fields("t", 9)) == {"topic": "t", "head_seq": 9}
    assert json.loads(b"{%b}" % events.deleted_fields("t"))["reason"] == "deleted"
