"""Decayed sums, means and variances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.features.operators.catalogue import KINDS
from tests.support.operators import START, Event, check, events_of, made, value_of

HALF_LIFE_MS = 30_000


def small_floats(random: Random) -> tuple[Any, ...]:
    """Without signs: a sum of opposite numbers would be compared by its rounding."""
    return (random.uniform(0.5, 100.0),)


def half(ms: float) -> float:
    return float(0.5 ** (ms / HALF_LIFE_MS))


def present(events: Sequence[Event]) -> list[Event]:
    return [event for event in events if event.passes and event.value is not None]


def expected_sum(events: Sequence[Event], now_ms: int) -> float | None:
    events = present(events)
    return math.fsum(e.value * half(now_ms - e.ts) for e in events) if events else None


def expected_count(events: Sequence[Event], now_ms: int) -> float | None:
    ages = [now_ms - event.ts for event in events if event.passes]
    return math.fsum(map(half, ages)) if ages else None


def weighted(events: Sequence[Event]) -> list[tuple[float, float]]:
    """The weight that each value has in the end, and the value."""
    found: list[tuple[float, float]] = []
    newest = 0
    for event in present(events):
        gap = event.ts - newest
        alpha = 1 - half(gap) if gap > 0 else 0.5 * half(-gap)
        found = [(weight * (1 - alpha), value) for weight, value in found]
        found.append((alpha if found else 1.0, event.value))
        newest = max(newest, event.ts)
    return found


def expected_mean(events: Sequence[Event], now_ms: int) -> float | None:
    values = weighted(events)
    return math.fsum(weight * value for weight, value in values) if values else None


def expected_variance(events: Sequence[Event], now_ms: int) -> float | None:
    mean, values = expected_mean(events, now_ms), weighted(events)
    if mean is None or len(values) < 2:
        return None
    return math.fsum(weight * (value - mean) ** 2 for weight, value in values)


def expected_deviation(events: Sequence[Event], now_ms: int) -> float | None:
    mean, variance = expected_mean(events, now_ms), expected_variance(events, now_ms)
    if mean is None or not variance:
        return None
    newest = max(present(events)[::-1], key=lambda event: event.ts)
    return float((newest.value - mean) / math.sqrt(variance))


@pytest.mark.parametrize("is_in_order", [True, False])
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("decayed_sum", expected_sum),
        ("ewma", expected_mean),
        ("ewvar", expected_variance),
        ("ew_zscore", expected_deviation),
    ],
)
def test_a_value_weighs_half_as_much_after_each_half_life(
    name: str, expected: Any, is_in_order: bool
) -> None:
    check(
        KINDS[name],
        ("f64",),
        expected,
        relative=1e-9,
        draw=small_floats,
        is_in_order=is_in_order,
        half_life=HALF_LIFE_MS,
    )


@pytest.mark.parametrize("is_in_order", [True, False])
def test_so_does_an_event_that_is_counted(is_in_order: bool) -> None:
    kind = KINDS["decayed_count"]

    check(kind, (), expected_count, relative=1e-9, is_in_order=is_in_order, half_life=HALF_LIFE_MS)


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.floats(0, 1e6)), min_size=1, max_size=30),
    st.randoms(use_true_random=False),
)
@settings(max_examples=20, deadline=None)
def test_the_order_of_events_does_not_change_a_decayed_sum(
    pairs: list[tuple[int, float]], random: Random
) -> None:
    events = [Event(START + at, True, (value,)) for at, value in pairs]
    shuffled = random.sample(events, len(events))
    now_ms = START + 10**6

    sums = [
        value_of(KINDS["decayed_sum"], ("f64",), order, now_ms, half_life=HALF_LIFE_MS)
        for order in (events, shuffled)
    ]

    assert sums[0] == pytest.approx(sums[1], rel=1e-12, abs=1e-300)


@pytest.mark.parametrize("name", ["decayed_sum", "ewma", "ewvar", "ew_zscore"])
def test_a_value_that_is_not_finite_is_skipped(name: str) -> None:
    events = events_of(3.0, math.nan, 5.0, math.inf)
    finite = [events[0], events[2]]
    now_ms = START + 60_000

    values = [
        value_of(KINDS[name], ("f64",), some, now_ms, half_life=HALF_LIFE_MS)
        for some in (events, finite)
    ]

    assert values[0] == values[1] is not None


def test_an_event_from_the_future_has_its_full_weight() -> None:
    value = value_of(
        KINDS["decayed_sum"], ("i64",), events_of(8), START - 10**9, half_life=HALF_LIFE_MS
    )

    assert value == 8.0


def test_a_sum_decays_by_the_time_of_the_read_and_a_mean_does_not() -> None:
    later = START + HALF_LIFE_MS

    def read(name: str) -> Any:
        return value_of(KINDS[name], ("f64",), events_of(8.0), later, half_life=HALF_LIFE_MS)

    assert read("decayed_sum") == 4.0
    assert read("ewma") == 8.0


def test_long_silence_leaves_0() -> None:
    kind, after_ages = KINDS["decayed_sum"], START + 10**14

    assert value_of(kind, ("f64",), events_of(8.0), after_ages, half_life=1) == 0.0


def test_the_variance_of_one_value_is_null() -> None:
    for name in ("ewvar", "ew_zscore"):
        assert value_of(KINDS[name], ("f64",), events_of(8.0), half_life=1) is None
    assert value_of(KINDS["ew_zscore"], ("f64",), events_of(8.0, 8.0), half_life=1) is None


def test_events_at_the_same_time_weigh_the_same_in_a_mean() -> None:
    assert value_of(KINDS["ewma"], ("f64",), events_of(2.0, 4.0, step_ms=0), half_life=1) == 3.0


@pytest.mark.parametrize("name", ["decayed_sum", "decayed_count", "ewma", "ewvar", "ew_zscore"])
def test_without_events_all_are_null(name: str) -> None:
    operator = made(KINDS[name], ("f64",), half_life=1)

    assert operator.value([], START) is None
    assert operator.value([3], START) is None
