"""Samples, the pressure they make, and the measures that follow."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.runtime.governor import (
    Deferral,
    Governor,
    Ladder,
    coalesce_ms,
    commit_window_ms,
    ladder_of,
    pressure_of,
)

SAMPLE_MS = 100
SAMPLES_TO_DEFER = 5

pressures = st.floats(0, 1)
levels = st.one_of(pressures, st.floats(0.6, 0.8), st.floats(0.8, 1))
runs = st.lists(st.tuples(levels, st.integers(1, 8)), max_size=20)  # a level, and for how long
signals = st.tuples(
    st.one_of(st.integers(-5, 200), st.integers(0, 1 << 40)),  # depth
    st.integers(-1, 64),  # workers
    st.lists(st.floats(), max_size=5),  # waits
    st.floats(),  # busy
)


def saturate(governor: Governor, samples: int, *, first: int = 0) -> None:
    for number in range(first, first + samples):
        governor.sample(number * SAMPLE_MS, depth=1000, workers=1, busy=1.0)


@given(st.lists(signals, max_size=60))
def test_pressure_is_between_none_and_all_whatever_is_measured(
    series: list[tuple[int, int, list[float], float]],
) -> None:
    governor = Governor()

    for number, (depth, workers, waits, busy) in enumerate(series):
        for wait_ms in waits:
            governor.waited(wait_ms)
        ladder = governor.sample(number * SAMPLE_MS, depth=depth, workers=workers, busy=busy)

        assert 0 <= ladder.pressure <= 1
        assert math.isfinite(governor.latency_ms)
        assert ladder == ladder_of(ladder.pressure, is_deferring=ladder.is_deferring)


@pytest.mark.parametrize(
    ("depth", "latency_ms", "busy", "expected"),
    [(0, 0, 0, 0), (64, 0, 0, 1 / 3), (0, 5, 0, 1 / 3), (0, 0, 1, 1 / 3), (32, 2.5, 0.5, 0.5),
     (64, 5, 1, 1), (9999, 9999, 9, 1)],
)  # fmt: skip
def test_the_three_signals_weigh_the_same(
    depth: int, latency_ms: float, busy: float, expected: float
) -> None:
    found = pressure_of(depth=depth, workers=4, latency_ms=latency_ms, busy=busy)

    assert found == pytest.approx(expected)


@given(st.integers(0, 500), st.floats(0, 20), st.floats(0, 1), st.integers(1, 16))
def test_pressure_rises_with_each_signal(
    depth: int, latency_ms: float, busy: float, workers: int
) -> None:
    def pressure(depth: int = depth, latency_ms: float = latency_ms, busy: float = busy) -> float:
        return pressure_of(depth=depth, workers=workers, latency_ms=latency_ms, busy=busy)

    assert pressure() <= pressure(depth=depth + 9)
    assert pressure() <= pressure(latency_ms=latency_ms + 1)
    assert pressure() <= pressure(busy=busy + 0.1)
    more = pressure_of(depth=depth, workers=workers + 1, latency_ms=latency_ms, busy=busy)
    assert more <= pressure()


@given(st.lists(pressures, min_size=2))
def test_a_higher_pressure_never_asks_for_less(found: list[float]) -> None:
    for low, high in pairwise(sorted(found)):
        below = ladder_of(low, is_deferring=False)
        above = ladder_of(high, is_deferring=False)

        assert below.coalesce_ms <= above.coalesce_ms
        assert (below.commit_window_ms or 0) <= (above.commit_window_ms or 0)
        assert (below.retry_after_s or 0) <= (above.retry_after_s or 0)


@pytest.mark.parametrize(
    ("pressure", "coalesce", "window", "retry_after_s"),
    [
        (0.0, 0, None, None),
        (0.2, 0, None, None),
        (0.4, 5, None, None),
        (0.41, 5.25, 4.395, None),
        (0.6, 10, 6.2, None),
        (0.9, 17.5, 9.05, None),
        (0.94, 18.5, 9.43, None),
        (1.0, 20, 10, 1),
    ],
)
def test_the_rungs_of_the_ladder(
    pressure: float, coalesce: float, window: float | None, retry_after_s: int | None
) -> None:
    ladder = ladder_of(pressure, is_deferring=False)

    assert ladder.coalesce_ms == coalesce_ms(pressure) == pytest.approx(coalesce)
    assert ladder.commit_window_ms == commit_window_ms(pressure)
    assert ladder.commit_window_ms == (None if window is None else pytest.approx(window))
    assert ladder.retry_after_s == retry_after_s


@given(runs)
def test_deferring_begins_and_ends_only_where_it_may(series: list[tuple[float, int]]) -> None:
    deferral = Deferral()
    found = [pressure for pressure, samples in series for _ in range(samples)]

    for number, pressure in enumerate(found, 1):
        before = deferral.is_on
        after = deferral.update(pressure)

        recent = found[max(0, number - SAMPLES_TO_DEFER) : number]
        is_sustained = len(recent) == SAMPLES_TO_DEFER and min(recent) > 0.8
        assert after == (is_sustained or (before and pressure >= 0.6))


@given(
    st.lists(st.floats(0.81, 1), max_size=10),
    st.lists(st.floats(0.6, 0.8), min_size=1, max_size=50),
)
def test_nothing_flaps_between_the_thresholds(beginning: list[float], between: list[float]) -> None:
    deferral = Deferral()
    for pressure in beginning:
        deferral.update(pressure)
    held = deferral.is_on

    states = {deferral.update(pressure) for pressure in between}

    assert held == (len(beginning) >= SAMPLES_TO_DEFER)
    assert states == {held}


@given(runs)
def test_the_governor_holds_its_course_between_the_thresholds(
    series: list[tuple[float, int]],
) -> None:
    governor = Governor()
    found: list[Ladder] = [governor.ladder]

    for level, samples in series:
        for _ in range(samples):
            now_ms = len(found) * SAMPLE_MS
            governor.waited(5 * level)
            found.append(governor.sample(now_ms, depth=int(1600 * level), workers=100, busy=level))
            assert governor.ladder is found[-1]

    for before, after in pairwise(found):
        began = after.is_deferring and not before.is_deferring
        ended = before.is_deferring and not after.is_deferring
        assert not began or after.pressure > 0.8
        assert not ended or after.pressure < 0.6
        assert not after.is_deferring or after.pressure >= 0.6


def test_overload_climbs_the_whole_ladder_and_calm_comes_down_again() -> None:
    governor = Governor()
    assert governor.ladder == Ladder()

    saturate(governor, 10)
    assert governor.ladder.is_deferring
    assert governor.ladder.retry_after_s == 1
    assert governor.ladder.coalesce_ms == 20
    for number in range(10, 40):
        governor.sample(number * SAMPLE_MS, depth=0, workers=1, busy=0.0)

    assert not governor.ladder.is_deferring
    assert governor.ladder.retry_after_s is None
    assert governor.ladder.coalesce_ms == 0
    assert governor.ladder.commit_window_ms is None


def test_a_short_burst_defers_nothing() -> None:
    governor = Governor()

    saturate(governor, SAMPLES_TO_DEFER - 1)
    assert not governor.ladder.is_deferring
    governor.sample(SAMPLE_MS * SAMPLES_TO_DEFER, depth=0, workers=1, busy=0.0)
    saturate(governor, 1, first=SAMPLES_TO_DEFER + 1)

    assert not governor.ladder.is_deferring


def test_a_sample_counts_once_in_its_tenth_of_a_second() -> None:
    governor = Governor()

    first = governor.sample(1000, depth=8, workers=1, busy=0.5)
    for now_ms in (1000, 1001, 1099.9):
        assert governor.sample(now_ms, depth=999, workers=1, busy=1.0) is first

    assert governor.sample(1100, depth=999, workers=1, busy=1.0) is not first


def test_latency_is_the_mean_of_the_waits_and_is_smoothed() -> None:
    governor = Governor()

    governor.waited(2.0)
    governor.waited(8.0)
    governor.sample(0, depth=3, workers=1, busy=0.0)
    assert governor.latency_ms == pytest.approx(1.0)
    governor.waited(1.0)
    governor.sample(SAMPLE_MS, depth=3, workers=1, busy=0.0)

    assert governor.latency_ms == pytest.approx(1.0)


def test_steady_waits_are_learned() -> None:
    governor = Governor()

    for number in range(60):
        governor.waited(3.0)
        governor.sample(number * SAMPLE_MS, depth=0, workers=1, busy=0.0)

    assert governor.latency_ms == pytest.approx(3.0, abs=0.01)


def test_one_topic_that_waited_for_seconds_is_not_felt_for_seconds() -> None:
    governor = Governor()

    governor.waited(10_000)
    governor.sample(0, depth=0, workers=1, busy=0.0)

    assert governor.latency_ms <= 5


def test_a_standstill_is_latency_and_silence_is_not() -> None:
    stuck, idle = Governor(), Governor()

    for number in range(20):
        stuck.sample(number * SAMPLE_MS, depth=1, workers=8, busy=0.0)
        idle.sample(number * SAMPLE_MS, depth=0, workers=8, busy=0.0)

    assert stuck.latency_ms > 5
    assert idle.latency_ms == 0
