"""How fast values and events follow each other."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from penstock.features.event_column import ColumnType
from penstock.features.operators.catalogue import KINDS
from tests.support.operators import CELL_MS, START, Event, check, events_of, made, value_of

WINDOWS = [None, 3 * CELL_MS]
SUB_WINDOWS_MS = [1_000, 7_000, 90_000]


def present(events: Sequence[Event]) -> list[Event]:
    """In the order of time, and of the log where times are equal."""
    kept = [event for event in events if event.passes and event.value is not None]
    return sorted(kept, key=lambda event: event.ts)


def outside(events: Sequence[Event], has_cells: bool) -> list[Event]:
    """Without events that fall between the first and the last of their cell when they arrive."""
    ends: dict[int, tuple[int, int]] = {}
    kept = []
    for event in events:
        if not event.passes or event.value is None:
            continue
        cell = event.ts // CELL_MS if has_cells else 0
        first, last = ends.get(cell, (event.ts, event.ts))
        if not first <= event.ts < last:
            ends[cell] = (min(first, event.ts), max(last, event.ts))
            kept.append(event)
    return kept


def positive(random: Random) -> tuple[Any, ...]:
    return (random.uniform(0.5, 100.0),)


def held_mean(events: Sequence[Event]) -> float | None:
    events = present(events)
    if not events:
        return None
    area = math.fsum(one.value * (two.ts - one.ts) for one, two in pairwise(events))
    held = events[-1].ts - events[0].ts
    return area / held if held else float(events[-1].value)


def rate(events: Sequence[Event], now_ms: int) -> float | None:
    events = present(events)
    passed = events[-1].ts - events[0].ts if events else 0
    last = events[-1].value if events else 0
    return float((last - events[0].value) / (passed / 1000)) if passed else None


def mean_gap(events: Sequence[Event], now_ms: int) -> float | None:
    times = sorted(event.ts for event in events if event.passes)
    gaps = [two - one for one, two in pairwise(times)]
    return sum(gaps) / len(gaps) if gaps else None


def changes(events: Sequence[Event]) -> int:
    return sum(one.value != two.value for one, two in pairwise(present(events)))


@pytest.mark.parametrize("is_in_order", [True, False])
@pytest.mark.parametrize("window_ms", WINDOWS)
def test_twa_weighs_a_value_by_the_time_until_the_next(
    window_ms: int | None, is_in_order: bool
) -> None:
    def expected(events: Sequence[Event], now_ms: int) -> float | None:
        return held_mean(outside(events, window_ms is not None))

    check(
        KINDS["twa"],
        ("f64",),
        expected,
        window_ms=window_ms,
        relative=1e-9,
        draw=positive,
        is_in_order=is_in_order,
    )


@pytest.mark.parametrize("is_in_order", [True, False])
@pytest.mark.parametrize("window_ms", WINDOWS)
@pytest.mark.parametrize("type_", ["i64", "f64"])
def test_rate_of_change_is_between_the_ends_of_the_window(
    type_: ColumnType, window_ms: int | None, is_in_order: bool
) -> None:
    check(
        KINDS["rate_of_change"],
        (type_,),
        rate,
        window_ms=window_ms,
        relative=1e-12,
        is_in_order=is_in_order,
    )


@pytest.mark.parametrize("window_ms", WINDOWS)
def test_inter_arrival_is_the_mean_gap_whatever_the_order(window_ms: int | None) -> None:
    kind = KINDS["inter_arrival_stats"]

    check(kind, (), mean_gap, window_ms=window_ms, is_in_order=False)


@pytest.mark.parametrize("window_ms", WINDOWS)
@pytest.mark.parametrize("sub_window_ms", SUB_WINDOWS_MS)
def test_burst_count_is_the_fullest_sub_window(sub_window_ms: int, window_ms: int | None) -> None:
    def expected(events: Sequence[Event], now_ms: int) -> int:
        counts = Counter(event.ts // sub_window_ms for event in events if event.passes)
        return max(counts.values(), default=0)

    check(KINDS["burst_count"], (), expected, window_ms=window_ms, sub_window=sub_window_ms)


def test_late_events_count_in_a_burst_when_a_cell_has_two_sub_windows() -> None:
    def expected(events: Sequence[Event], now_ms: int) -> int:
        counts = Counter(event.ts // CELL_MS for event in events if event.passes)
        return max(counts.values(), default=0)

    check(
        KINDS["burst_count"],
        (),
        expected,
        window_ms=3 * CELL_MS,
        is_in_order=False,
        sub_window=CELL_MS,
    )


@pytest.mark.parametrize("is_in_order", [True, False])
@pytest.mark.parametrize("window_ms", WINDOWS)
@pytest.mark.parametrize("type_", ["i64", "f64", "bool", "str"])
def test_value_changes_count_between_cells_too(
    type_: ColumnType, window_ms: int | None, is_in_order: bool
) -> None:
    def expected(events: Sequence[Event], now_ms: int) -> int:
        return changes(outside(events, window_ms is not None))

    check(
        KINDS["value_change_count"],
        (type_,),
        expected,
        window_ms=window_ms,
        is_in_order=is_in_order,
    )


def test_one_event_has_no_gap_no_rate_and_no_change() -> None:
    events = events_of(4)

    assert value_of(KINDS["inter_arrival_stats"], (), events) is None
    assert value_of(KINDS["rate_of_change"], ("i64",), events) is None
    assert value_of(KINDS["value_change_count"], ("i64",), events) == 0
    assert value_of(KINDS["twa"], ("i64",), events) == 4.0


def test_a_rate_is_per_second_and_needs_time() -> None:
    assert value_of(KINDS["rate_of_change"], ("i64",), events_of(1, 9, 5, step_ms=500)) == 4.0
    assert value_of(KINDS["rate_of_change"], ("i64",), events_of(1, 9, step_ms=0)) is None


def test_0_and_minus_0_are_the_same_value() -> None:
    assert value_of(KINDS["value_change_count"], ("f64",), events_of(0.0, -0.0, math.nan)) == 0


def test_values_that_are_not_finite_are_skipped() -> None:
    events = events_of(math.nan, 2.0, math.inf, 4.0)

    assert value_of(KINDS["rate_of_change"], ("f64",), events) == 1.0
    assert value_of(KINDS["twa"], ("f64",), events) == 2.0


@pytest.mark.parametrize("name", ["twa", "rate_of_change", "inter_arrival_stats"])
def test_without_events_there_is_null(name: str) -> None:
    operator = made(KINDS[name], ("f64",))

    assert operator.value([], START) is None
    assert operator.value([1, 3], START) is None


@pytest.mark.parametrize("name", ["burst_count", "value_change_count"])
def test_without_events_a_count_is_0(name: str) -> None:
    operator = made(KINDS[name], ("str",), sub_window=1)

    assert operator.value([], START) == 0
    assert operator.value([1, 3], START) == 0
