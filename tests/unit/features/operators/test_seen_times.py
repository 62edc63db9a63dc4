"""first_seen, last_seen, age, has_seen, time_since and first_seen_in_window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from penstock.features.operators.catalogue import KINDS
from tests.support.operators import CELL_MS, START, Event, check, events_of, fold_of, made, value_of


def times_of(events: Sequence[Event]) -> list[int]:
    return [event.ts for event in events if event.passes]


EXPECTED: dict[str, Any] = {
    "first_seen": lambda times, now_ms: min(times, default=None),
    "last_seen": lambda times, now_ms: max(times, default=None),
    "age": lambda times, now_ms: now_ms - min(times) if times else None,
    "has_seen": lambda times, now_ms: bool(times),
    "time_since": lambda times, now_ms: now_ms - max(times) if times else None,
}


@pytest.mark.parametrize("name", EXPECTED)
def test_times_are_the_earliest_and_the_latest_that_pass(name: str) -> None:
    def expected(events: Sequence[Event], now_ms: int) -> Any:
        return EXPECTED[name](times_of(events), now_ms)

    check(KINDS[name], (), expected)
    check(KINDS[name], (), expected, is_in_order=False)


@pytest.mark.parametrize("window_ms", [1, 1_000, CELL_MS])
def test_seen_in_window_is_about_the_latest_event(window_ms: int) -> None:
    def expected(events: Sequence[Event], now_ms: int) -> bool:
        return any(now_ms - time < window_ms for time in times_of(events))

    check(KINDS["first_seen_in_window"], (), expected, window_ms=window_ms, is_in_order=False)


def test_an_event_leaves_the_window_to_the_millisecond() -> None:
    seen = KINDS["first_seen_in_window"]
    events = events_of(None)

    assert value_of(seen, (), events, START + 999, 1_000) is True
    assert value_of(seen, (), events, START + 1_000, 1_000) is False


@pytest.mark.parametrize("name", EXPECTED)
def test_before_the_first_event_there_is_no_time(name: str) -> None:
    operator = made(KINDS[name])
    operator.fold(fold_of([0], [Event(START, False, ())], ()))

    for rows in ([], [0]):
        assert operator.value(rows, START) == (False if name == "has_seen" else None)
