"""Outliers and z-scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from penstock.features.operators.baseline import OutlierCount
from penstock.features.operators.catalogue import KINDS
from tests.support.operators import (
    START,
    Event,
    check,
    events_of,
    fold_of,
    form,
    made,
    value_of,
)

WINDOWS_MS = [0, 6_000, 60_001, 10**9]


def draw(random: Random) -> tuple[Any, ...]:
    return (random.gauss(100.0, 1.0) * random.choice([1, 1, 1, 1, 1.1]),)


def moments(values: Sequence[float]) -> tuple[float, float]:
    mean = math.fsum(values) / len(values)
    return mean, math.sqrt(math.fsum((x - mean) ** 2 for x in values) / (len(values) - 1))


def judged(events: Sequence[Event], window_ms: int, sigma: float) -> list[tuple[int, float, bool]]:
    """The bucket of each value that was folded, the value, and whether it is an outlier."""
    bucket_ms = -(-window_ms // 64)
    newest = 0
    found: list[tuple[int, float, bool]] = []
    for event in events:
        if not event.passes or event.value is None:
            continue
        start = event.ts // bucket_ms * bucket_ms if window_ms else 0
        newest = max(newest, event.ts)
        if window_ms and start <= newest - window_ms:
            continue
        before = [x for at, x, _ in found if not window_ms or at > newest - window_ms]
        is_outlier = False
        if len(before) >= 5:
            mean, deviation = moments(before)
            is_outlier = deviation > 0 and abs(event.value - mean) > sigma * deviation
        found.append((start, event.value, is_outlier))
    return found


def is_live(start: int, now_ms: int, window_ms: int) -> bool:
    return not window_ms or now_ms - window_ms < start <= now_ms


@pytest.mark.parametrize("is_in_order", [True, False])
@pytest.mark.parametrize("window_ms", WINDOWS_MS)
def test_an_outlier_is_judged_by_the_values_of_the_window_before_it(
    window_ms: int, is_in_order: bool
) -> None:
    def expected(events: Sequence[Event], now_ms: int) -> int:
        found = judged(events, window_ms, 2.0)
        return sum(is_outlier for at, _, is_outlier in found if is_live(at, now_ms, window_ms))

    check(
        KINDS["outlier_count"],
        ("f64",),
        expected,
        window_ms=window_ms or None,
        draw=draw,
        is_in_order=is_in_order,
        count=300,
        sigma=2.0,
    )


@pytest.mark.parametrize("is_in_order", [True, False])
@pytest.mark.parametrize("window_ms", WINDOWS_MS)
def test_a_z_score_honours_its_baseline_window(window_ms: int, is_in_order: bool) -> None:
    def expected(events: Sequence[Event], now_ms: int) -> float | None:
        found = judged(events, window_ms, math.inf)
        live = [value for at, value, _ in found if is_live(at, now_ms, window_ms)]
        if len(live) < 2:
            return None
        kept = [event for event in events if event.passes and event.value is not None]
        newest = max(kept[::-1], key=lambda event: event.ts).value
        mean, deviation = moments(live)
        return float((newest - mean) / deviation)

    check(
        KINDS["z_score"],
        ("f64",),
        expected,
        relative=1e-9,
        draw=draw,
        is_in_order=is_in_order,
        baseline_window=window_ms,
    )


def test_the_sixth_value_can_be_the_first_outlier() -> None:
    steady = [100.0, 95.0, 110.0, 102.0, 98.0]

    assert value_of(KINDS["outlier_count"], ("f64",), events_of(*steady, 5000.0)) == 1
    assert value_of(KINDS["outlier_count"], ("f64",), events_of(*steady[1:], 5000.0)) == 0


def test_values_that_are_all_the_same_make_no_outlier() -> None:
    assert value_of(KINDS["outlier_count"], ("i64",), events_of(*[7] * 9, 8)) == 0
    assert value_of(KINDS["z_score"], ("i64",), events_of(7, 7, 7)) is None


def test_an_outlier_is_forgotten_with_its_bucket() -> None:
    events = events_of(100.0, 95.0, 110.0, 102.0, 98.0, 5000.0)
    last, kind = events[-1].ts, KINDS["outlier_count"]

    assert value_of(kind, ("f64",), events, last, window_ms=64_000) == 1
    assert value_of(kind, ("f64",), events, last + 64_000, window_ms=64_000) == 0


@pytest.mark.parametrize("first", [START, -(10**9)])
@pytest.mark.parametrize("name", ["outlier_count", "z_score"])
def test_buckets_that_count_no_more_are_used_again(name: str, first: int) -> None:
    operator = made(KINDS[name], ("f64",), 64_000, 1, baseline_window=64_000)
    assert isinstance(operator, OutlierCount)

    for batch in range(100):
        moved = [Event(first + 1_000 * (10 * batch + i), True, (1.0,)) for i in range(10)]
        operator.fold(fold_of([0] * 10, moved, ("f64",)))

    assert operator.pool[1] <= 64 * 5 // 4 + 1
    assert len(operator.items) < 120


def test_a_cleared_key_gives_its_buckets_back() -> None:
    operator = made(KINDS["z_score"], ("f64",), None, 2, baseline_window=64_000)
    assert isinstance(operator, OutlierCount)
    rows = fold_of([0, 1] * 5, events_of(*map(float, range(10))), ("f64",))

    for _ in range(50):
        operator.fold(rows)
        operator.clear(rows.rows[:2])

    assert operator.pool[1] == 10


@pytest.mark.parametrize("pure", [True, False])
def test_saved_lengths_below_0_are_refused(pure: bool) -> None:
    with form(pure):
        operator = made(KINDS["z_score"], ("f64",), baseline_window=64_000)
        rows = fold_of([0, 1], events_of(1.0, 2.0), ("f64",))
        operator.fold(rows)
        saved = operator.save(rows.rows)
        saved["keys"][:, 0] = [-1, 3]

        with pytest.raises(ValueError, match="'keys'"):
            made(KINDS["z_score"], ("f64",), baseline_window=64_000).load(rows.rows, saved)


def test_values_that_are_not_finite_are_skipped() -> None:
    assert value_of(KINDS["z_score"], ("f64",), events_of(1.0, math.inf, 2.0, math.nan)) is not None


def test_without_events_there_are_no_outliers_and_no_score() -> None:
    assert made(KINDS["outlier_count"], ("f64",), 1000).value([], START) == 0
    assert made(KINDS["outlier_count"], ("f64",), 1000).value([2], START) == 0
    assert made(KINDS["z_score"], ("f64",)).value([], START) is None
    assert made(KINDS["z_score"], ("f64",)).value([2], START) is None


@pytest.mark.parametrize("step_ms", [1, 10, 50, 350])
def test_a_read_before_the_newest_value_does_not_bring_back_what_is_too_old_for_it(
    step_ms: int,
) -> None:
    """Whether or not the buckets were freed already, which depends on how many there are."""
    window_ms = 640
    events = events_of(*range(700 // step_ms + 1), step_ms=step_ms)
    newest = events[-1].ts
    now_ms = newest - 1
    live = [e.value for e in events if newest - window_ms < e.ts // 10 * 10 <= now_ms]

    got = value_of(KINDS["z_score"], ("i64",), events, now_ms, baseline_window=window_ms)

    if len(live) < 2:
        assert got is None
    else:
        mean, deviation = moments(live)
        assert got == pytest.approx((events[-1].value - mean) / deviation)
