"""Counts by value and by hour."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest

from penstock.errors import InvalidArgument
from penstock.features.event_column import ColumnType
from penstock.features.operators.catalogue import KINDS
from penstock.features.operators.histograms import BOUNDS_MAX, bin_names
from tests.support.operators import START, Event, check, events_of, fold_of, made, value_of

BOUNDS = [-2.5, 0.0, 1.0, 3.0, 1e12]
DAY_MS = 86_400_000
HOUR_MS = 3_600_000


def hours_apart(events: Sequence[Event]) -> list[datetime]:
    """The times of the events that pass."""
    return [datetime.fromtimestamp(event.ts / 1000, UTC) for event in events if event.passes]


def moments(values: Sequence[float]) -> tuple[float, float]:
    mean = math.fsum(values) / len(values)
    return mean, math.sqrt(math.fsum((x - mean) ** 2 for x in values) / (len(values) - 1))


@pytest.mark.parametrize("type_", ["i64", "f64"])
def test_a_bin_includes_its_lower_bound(type_: ColumnType) -> None:
    def expected(events: Sequence[Event], now_ms: int) -> dict[str, int]:
        values = [event.value for event in events if event.passes and event.value is not None]
        reached = Counter(sum(bound <= value for bound in BOUNDS) for value in values)
        return {name: reached[number] for number, name in enumerate(bin_names(BOUNDS))}

    check(KINDS["histogram"], (type_,), expected, is_in_order=False, buckets=BOUNDS)


def test_bins_are_named_by_their_bounds() -> None:
    assert bin_names([2, 4.5]) == ["<2", "2-4.5", ">=4.5"]
    assert bin_names([-0.5, 100.0]) == ["<-0.5", "-0.5-100", ">=100"]
    assert bin_names([1e-7, 1e22]) == [
        "<0.0000001",
        "0.0000001-10000000000000000000000",
        ">=10000000000000000000000",
    ]


def test_nan_is_in_no_bin() -> None:
    values = events_of(math.nan, math.inf, -math.inf)

    assert value_of(KINDS["histogram"], ("f64",), values, buckets=[0.0]) == {"<0": 1, ">=0": 1}


@pytest.mark.parametrize(
    ("bounds", "why"),
    [
        ([], "0 numbers"),
        (list(range(BOUNDS_MAX + 1)), "1025 numbers"),
        ([1.0, 1.0], "1.0 is followed by 1.0"),
        ([2.0, 1.0], "2.0 is followed by 1.0"),
        ([0.0, math.inf], "finite"),
        ([math.nan, 1.0], "followed"),
    ],
)
def test_buckets_are_increasing_numbers(bounds: list[float], why: str) -> None:
    with pytest.raises(InvalidArgument, match=why):
        made(KINDS["histogram"], ("f64",), buckets=bounds)


def test_hours_are_those_of_utc() -> None:
    def of_day(events: Sequence[Event], now_ms: int) -> list[int]:
        found = Counter(time.hour for time in hours_apart(events))
        return [found[hour] for hour in range(24)]

    def of_week(events: Sequence[Event], now_ms: int) -> dict[str, int]:
        found = Counter(f"{time:%a-%H}" for time in hours_apart(events))
        days = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
        names = [f"{day}-{hour:02}" for day in days for hour in range(24)]
        return {name: found[name] for name in names}

    check(KINDS["hour_of_day_histogram"], (), of_day, is_in_order=False)
    check(KINDS["dow_hour_histogram"], (), of_week, is_in_order=False)


@pytest.mark.parametrize("at", [-1, 0, -DAY_MS, START, START + 5 * DAY_MS + HOUR_MS // 2])
def test_an_hour_may_lie_before_1970(at: int) -> None:
    event, kind = Event(at, True, ()), KINDS["dow_hour_histogram"]
    days = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
    hours = at // HOUR_MS
    name = f"{days[(hours // 24 + 3) % 7]}-{hours % 24:02}"

    value = value_of(kind, (), [event], at)

    assert len(value) == 168
    assert {hour for hour, count in value.items() if count} == {name}


@pytest.mark.parametrize("is_in_order", [True, False])
def test_seasonal_deviation_compares_with_the_same_hour(is_in_order: bool) -> None:
    def draw(random: Random) -> tuple[Any, ...]:
        return (random.gauss(10.0, 3.0),)

    def expected(events: Sequence[Event], now_ms: int) -> float | None:
        kept = [event for event in events if event.passes and event.value is not None]
        if not kept:
            return None
        newest = max(kept[::-1], key=lambda event: event.ts)
        hour = newest.ts // HOUR_MS % 24
        same = [event.value for event in kept if event.ts // HOUR_MS % 24 == hour]
        if len(same) < 2:
            return None
        mean, deviation = moments(same)
        return float((newest.value - mean) / deviation)

    check(
        KINDS["seasonal_deviation"],
        ("f64",),
        expected,
        relative=1e-9,
        draw=draw,
        is_in_order=is_in_order,
    )


def test_values_of_another_hour_do_not_matter() -> None:
    """An hour earlier and a day earlier."""
    kind = KINDS["seasonal_deviation"]
    same = [Event(START + day * DAY_MS, True, (value,)) for day, value in enumerate([1.0, 3.0])]
    other = Event(START - HOUR_MS, True, (1e6,))

    values = [value_of(kind, ("f64",), events) for events in ([other, *same], same)]

    assert values[0] == values[1] == pytest.approx(math.sqrt(0.5))


def test_without_events_counts_are_0() -> None:
    fresh = [
        made(KINDS[name], ("f64",), buckets=[1.0])
        for name in ("histogram", "hour_of_day_histogram", "dow_hour_histogram")
    ]

    assert [operator.value([], START) for operator in fresh] == [
        operator.value([1], START) for operator in fresh
    ]
    assert fresh[0].value([], START) == {"<1": 0, ">=1": 0}
    assert fresh[1].value([], START) == [0] * 24
    assert made(KINDS["seasonal_deviation"], ("f64",)).value([], START) is None


def test_events_that_do_not_pass_are_not_counted() -> None:
    operator = made(KINDS["hour_of_day_histogram"])

    operator.fold(fold_of([0], [Event(START, False, ())], ()))

    assert operator.value([0], START) == [0] * 24
