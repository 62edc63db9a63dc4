"""first_n, last_n, lag and time_since_last_n."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from penstock.features.event_column import ColumnType
from penstock.features.operators.catalogue import KINDS
from tests.support.operators import CELL_MS, START, Event, check, events_of, made, value_of

WINDOWS = [None, 3 * CELL_MS]


def values_of(events: Sequence[Event]) -> list[Any]:
    return [event.value for event in events if event.passes and event.value is not None]


@pytest.mark.parametrize("window_ms", WINDOWS)
@pytest.mark.parametrize("n", [1, 3, 20])
@pytest.mark.parametrize("type_", ["i64", "f64", "bool", "str", "json"])
def test_they_are_slices_of_the_values(type_: ColumnType, n: int, window_ms: int | None) -> None:
    def first(events: Sequence[Event], now_ms: int) -> Any:
        return values_of(events)[:n]

    def last(events: Sequence[Event], now_ms: int) -> Any:
        return values_of(events)[-n:]

    def lag(events: Sequence[Event], now_ms: int) -> Any:
        values = values_of(events)
        return values[-n - 1] if len(values) > n else None

    for kind, expected in (("first_n", first), ("last_n", last), ("lag", lag)):
        check(KINDS[kind], (type_,), expected, window_ms=window_ms, n=n, is_in_order=False)


@pytest.mark.parametrize("n", [1, 3, 20])
def test_the_nth_latest_event_is_so_by_time(n: int) -> None:
    def expected(events: Sequence[Event], now_ms: int) -> int | None:
        times = sorted(event.ts for event in events if event.passes)
        return now_ms - times[-n] if len(times) >= n else None

    check(KINDS["time_since_last_n"], (), expected, n=n)
    check(KINDS["time_since_last_n"], (), expected, n=n, is_in_order=False)


def test_without_values_lists_are_empty_and_the_rest_is_null() -> None:
    assert made(KINDS["first_n"], ("i64",), n=3).value([], 0) == []
    assert made(KINDS["last_n"], ("i64",), n=3).value([1], 0) == []
    assert made(KINDS["lag"], ("i64",)).value([1], 0) is None
    assert made(KINDS["time_since_last_n"], n=2).value([], 0) is None


def test_lag_looks_one_value_back_unless_it_is_told() -> None:
    assert value_of(KINDS["lag"], ("str",), events_of("a", "b", "c")) == "b"
    assert value_of(KINDS["lag"], ("str",), events_of("a", "b", "c"), n=2) == "a"


def test_the_largest_n_is_within_reach() -> None:
    events = events_of(*range(2_500))

    assert value_of(KINDS["last_n"], ("i64",), events, n=1024) == list(range(1476, 2500))
    assert value_of(KINDS["first_n"], ("i64",), events, n=1024) == list(range(1024))
    assert value_of(KINDS["lag"], ("i64",), events, n=1024) == 1475
    assert value_of(KINDS["time_since_last_n"], (), events, START, n=1024) == -1476 * 1000
