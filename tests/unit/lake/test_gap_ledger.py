from __future__ import annotations

import datetime

from hypothesis import given
from hypothesis import strategies as st

from penstock.lake.gap_ledger import LedgerRow, minus

NOW = datetime.datetime(2026, 11, 16, tzinfo=datetime.UTC)


def row(first: int, last: int | None) -> LedgerRow:
    return LedgerRow("a", 1, first, last, "cap", NOW)


def ranges(rows: list[LedgerRow]) -> list[tuple[int, int | None]]:
    return [(one.first, one.last) for one in rows]


def test_what_was_read_is_no_gap() -> None:
    assert ranges(minus(row(1, 10), [(3, 4), (8, 12)])) == [(1, 2), (5, 7)]
    assert minus(row(3, 4), [(3, 4)]) == []
    assert ranges(minus(row(5, None), [(5, 6)])) == [(7, None)]
    assert minus(row(1, 10), []) == [row(1, 10)]


@given(st.sets(st.integers(1, 30)), st.integers(1, 30), st.integers(0, 15))
def test_a_gap_is_exactly_what_was_not_read(held: set[int], first: int, size: int) -> None:
    whole = set(range(first, first + size + 1))
    singles = [(seq, seq) for seq in sorted(held & whole)]

    found = minus(row(first, first + size), singles)

    left = [seq for one in found for seq in range(one.first, (one.last or 0) + 1)]
    assert left == sorted(whole - held)


def test_a_file_that_may_hold_some_of_a_gap() -> None:
    assert row(5, 9).overlaps("a", 1, 9, 12)
    assert row(5, None).overlaps("a", 1, 90, 99)
    assert not row(5, 9).overlaps("a", 1, 10, 12)
    assert not row(5, 9).overlaps("a", 2, 5, 9)
    assert str(row(5, None)) == "topic a, epoch 1: 5 to the end (cap)"
