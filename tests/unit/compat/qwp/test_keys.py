"""Keys made from values."""

from __future__ import annotations

import pytest

from penstock import limits
from penstock.compat.qwp import keys
from penstock.compat.qwp.keys import Keys

ROWS = [b"1", b"2"]


def test_the_same_rows_have_the_same_key_on_every_connection() -> None:
    assert Keys(b"me").key("t", ROWS) == Keys(b"me").key("t", ROWS)
    assert len(Keys(b"me").key("t", ROWS)) <= limits.KEY_BYTES_MAX


def test_everything_is_in_the_key() -> None:
    made = {
        Keys(owner).key(table, rows)
        for owner, table, rows in (
            (b"me", "t", ROWS),
            (b"you", "t", ROWS),
            (b"me", "u", ROWS),
            (b"me", "t", ROWS[::-1]),
            (b"me", "t", [b"12"]),
            (b"me", "t", [b"1"]),
            (b"", "t1", [b"2"]),
            (b"", "t", [b"12"]),
        )
    }

    assert len(made) == 8


def test_the_same_rows_again_on_one_connection_are_counted() -> None:
    """And on the next one the counts are the same, as far as they go."""
    first, second = Keys(b"me"), Keys(b"me")

    made = [first.key("t", ROWS) for _ in range(3)]

    assert len(set(made)) == 3
    assert [second.key("t", ROWS) for _ in range(2)] == made[:2]


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "_REMEMBERED_MAX", 2)
    made = Keys(b"me")
    first = made.key("t", [b"0"])
    made.key("t", [b"1"])
    made.key("t", [b"2"])

    assert made.key("t", [b"0"]) == first
