"""var and std."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import pytest

from penstock.features.event_column import ColumnType
from penstock.features.operators.catalogue import KINDS
from tests.support.operators import CELL_MS, Event, check, events_of, made, value_of

VAR, STD = KINDS["var"], KINDS["std"]


@pytest.mark.parametrize("window_ms", [None, 3 * CELL_MS])
@pytest.mark.parametrize("type_", ["i64", "f64"])
def test_they_are_those_of_a_sample(type_: ColumnType, window_ms: int | None) -> None:
    def variance(events: Sequence[Event], now_ms: int) -> float | None:
        values = [e.value for e in events if e.passes and e.value is not None]
        return float(statistics.variance(values)) if len(values) > 1 else None

    def deviation(events: Sequence[Event], now_ms: int) -> float | None:
        found = variance(events, now_ms)
        return None if found is None else found**0.5

    check(VAR, (type_,), variance, window_ms=window_ms, relative=1e-9, is_in_order=False)
    check(STD, (type_,), deviation, window_ms=window_ms, relative=1e-9, is_in_order=False)


def test_a_small_spread_of_large_values_is_not_lost() -> None:
    values = [1e9 + number for number in (4.0, 7.0, 13.0, 16.0)]

    assert value_of(VAR, ("f64",), events_of(*values)) == 30.0


def test_below_two_values_both_are_null() -> None:
    for kind in (VAR, STD):
        assert made(kind, ("f64",)).value([], 0) is None
        assert value_of(kind, ("f64",), events_of(1.0)) is None
        assert value_of(kind, ("f64",), events_of(1.0, None, float("nan"))) is None
        assert value_of(kind, ("f64",), events_of(1.0, 1.0)) == 0.0
        assert value_of(kind, ("f64",), events_of(-1e308, 1e308, -1e308)) is None
