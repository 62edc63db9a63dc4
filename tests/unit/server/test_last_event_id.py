"""Cursors in event ids: what goes out comes back, and nothing else does harm."""

from __future__ import annotations

import base64
import json

from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.read import ReadOptions
from penstock.server.last_event_id import cursor_id, cursors_of, rewind
from penstock.server.subscription import Cursor

NAMES = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._:-]{0,20}\Z")


@given(st.dictionaries(NAMES, st.integers(0, (1 << 64) - 1), max_size=5))
def test_a_cursor_id_comes_back(cursors: dict[str, int]) -> None:
    text = cursor_id(cursors)

    assert b"=" not in text
    assert b"+" not in text
    assert b"/" not in text
    assert cursors_of(text) == cursors


@given(st.binary(max_size=60))
def test_any_other_id_is_no_cursor(text: bytes) -> None:
    found = cursors_of(text)

    assert isinstance(found, dict)


def test_ill_typed_ids_are_no_cursors() -> None:
    for value in ([1], {"a": "x"}, {"a": 1.5}, "a", None):
        text = base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")
        assert cursors_of(text) == {}


def test_only_cursors_of_the_session_go_back_and_none_forward() -> None:
    cursors = {name: Cursor(name, 5, 1, ReadOptions(1, 1, (), None)) for name in "abc"}

    rewind(cursors, cursor_id({"a": 3, "b": 9, "x": 1}))
    rewind(cursors, None)

    assert {name: cursor.seq for name, cursor in cursors.items()} == {"a": 3, "b": 5, "c": 5}
