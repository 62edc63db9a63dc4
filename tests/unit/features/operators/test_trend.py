"""The least-squares line through the values of a window."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from random import Random
from typing import Any

import pytest

from penstock.features.operators.catalogue import KINDS
from tests.support.operators import CELL_MS, START, Event, check, events_of, value_of

WINDOWS = [None, 3 * CELL_MS]


def sums(events: Sequence[Event]) -> tuple[int, Fraction, Fraction, Fraction]:
    """Count and centred sums, exactly. Times in seconds."""
    kept = [event for event in events if event.passes and event.value is not None]
    if not kept:
        return 0, Fraction(), Fraction(), Fraction()
    times = [Fraction(event.ts, 1000) for event in kept]
    values = [Fraction(event.value) for event in kept]
    time, value = sum(times) / len(kept), sum(values) / len(kept)
    return (
        len(kept),
        sum((t - time) ** 2 for t in times) + Fraction(),
        sum((t - time) * (v - value) for t, v in zip(times, values, strict=True)) + Fraction(),
        sum((v - value) ** 2 for v in values) + Fraction(),
    )


def expected_slope(events: Sequence[Event], now_ms: int) -> float | None:
    _, time_time, time_value, _ = sums(events)
    return float(time_value / time_time) if time_time else None


def expected_residual(events: Sequence[Event], now_ms: int) -> float | None:
    count, time_time, time_value, value_value = sums(events)
    if not time_time:
        return None
    return math.sqrt((value_value - time_value**2 / time_time) / count)


def noisy(random: Random) -> tuple[Any, ...]:
    return (random.uniform(-1e3, 1e3),)


@pytest.mark.parametrize("is_in_order", [True, False])
@pytest.mark.parametrize("window_ms", WINDOWS)
@pytest.mark.parametrize(
    ("name", "expected"), [("trend", expected_slope), ("trend_residual", expected_residual)]
)
def test_the_line_is_that_of_least_squares(
    name: str, expected: Any, window_ms: int | None, is_in_order: bool
) -> None:
    check(
        KINDS[name],
        ("f64",),
        expected,
        window_ms=window_ms,
        relative=1e-8,
        draw=noisy,
        is_in_order=is_in_order,
    )


@pytest.mark.parametrize("offset", [0.0, 1e9])
def test_events_a_millisecond_apart_have_a_slope(offset: float) -> None:
    """Raw sums of products of times since 1970 would cancel to noise."""
    events = events_of(*[offset + 0.25 * i for i in range(1000)], step_ms=1)

    assert value_of(KINDS["trend"], ("f64",), events) == pytest.approx(250.0, rel=1e-9)
    assert value_of(KINDS["trend_residual"], ("f64",), events) < 1e-4


def test_the_residual_is_a_root_mean_square() -> None:
    events = events_of(0, 3, 3, 0)

    assert value_of(KINDS["trend"], ("i64",), events) == 0.0
    assert value_of(KINDS["trend_residual"], ("i64",), events) == 1.5


@pytest.mark.parametrize("name", ["trend", "trend_residual"])
def test_one_time_has_no_line(name: str) -> None:
    assert value_of(KINDS[name], ("i64",), events_of(1, 2, 3, step_ms=0)) is None
    assert value_of(KINDS[name], ("i64",), events_of(1)) is None
    assert value_of(KINDS[name], ("i64",), [], START) is None


def test_a_value_that_is_not_finite_is_skipped() -> None:
    events = events_of(0.0, math.inf, 2.0, math.nan)

    assert value_of(KINDS["trend"], ("f64",), events) == 1.0


def test_overflow_is_null() -> None:
    events = events_of(-1e308, 1e308, -1e308)

    assert value_of(KINDS["trend_residual"], ("f64",), events) is None
