"""Numbers at the edges of floats and times far apart: both forms of the kernel do the same, and no
value is one that JSON cannot carry."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from penstock.features.event_column import ColumnType
from penstock.features.operators.catalogue import KINDS
from tests.support import seeds
from tests.support.operators import Event, fold_of, form, made, plain

ROWS = 3
WINDOW_MS = 64_000
PARAMETERS: dict[str, Any] = {
    "half_life": 1_000,
    "sub_window": 7,
    "baseline_window": WINDOW_MS,
    "buckets": [-1e300, 0.0, 5e-324],
    "samples": 3,
    "max_categories": 2,
}
NAMES = (
    *("ewma", "ewvar", "ew_zscore", "decayed_sum", "decayed_count", "twa", "rate_of_change"),
    *("inter_arrival_stats", "burst_count", "trend", "trend_residual", "outlier_count"),
    *("value_change_count", "z_score", "histogram", "hour_of_day_histogram"),
    *("dow_hour_histogram", "seasonal_deviation", "event_type_mix", "geo_velocity"),
    *("geo_distance", "geo_spread", "distance_from_home"),
)

numbers = st.one_of(
    st.none(),
    st.sampled_from([0.0, -0.0, 5e-324, 1e308, -1.7e308, float("inf"), float("nan"), 1e-300]),
    st.sampled_from([90.0, -90.0, 180.0, -180.0, 89.999999999]),
    st.floats(-200.0, 200.0),
)
times = st.one_of(
    st.integers(-(10**6), 10**6),
    st.sampled_from([0, -1, WINDOW_MS, -(1 << 61), 1 << 61, 1 << 55]),
)
events = st.lists(
    st.tuples(
        st.integers(0, ROWS - 1),
        st.builds(Event, times, st.booleans(), st.tuples(numbers, numbers)),
    ),
    max_size=30,
)


def outcome(name: str, drawn: Sequence[tuple[int, Event]], *, pure: bool) -> Any:
    """The state, and values before, at and after the events."""
    kind = KINDS[name]
    types: tuple[ColumnType, ...] = ("f64",) * max(1, len(kind.fields))
    parameters = {
        one.name: PARAMETERS[one.name] for one in kind.parameters if one.name in PARAMETERS
    }
    operator = made(kind, types, WINDOW_MS if kind.is_self_windowed else None, ROWS, **parameters)
    fold = fold_of([row for row, _ in drawn], [event for _, event in drawn], types)
    with form(pure):
        operator.fold(fold)
        values = [
            operator.value([row], now_ms)
            for row in range(ROWS)
            for now_ms in (-(10**6), 0, 10**6, 1 << 61)
        ]
        if kind.window != "none" and not kind.is_self_windowed:
            values.append(operator.value(range(ROWS), 0))
        return plain(operator.save(fold_of(range(ROWS), [], ()).rows)), values


@pytest.mark.parametrize("name", NAMES)
@given(drawn=events)
@seed(seeds.RIGS)
@settings(max_examples=20, deadline=None, database=None)
def test_both_forms_do_the_same(name: str, drawn: list[tuple[int, Event]]) -> None:
    state, values = outcome(name, drawn, pure=True)

    assert outcome(name, drawn, pure=False) == (state, values)
    json.dumps(values, allow_nan=False)
