"""min and max."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from penstock.features.event_column import ColumnType
from penstock.features.operators.catalogue import KINDS
from tests.support.operators import CELL_MS, Event, check, events_of, made, value_of

MIN, MAX = KINDS["min"], KINDS["max"]
TYPES: list[ColumnType] = ["i64", "f64", "bool", "str"]


@pytest.mark.parametrize("window_ms", [None, 3 * CELL_MS])
@pytest.mark.parametrize("type_", TYPES)
def test_they_are_those_of_python(type_: ColumnType, window_ms: int | None) -> None:
    def least(events: Sequence[Event], now_ms: int) -> Any:
        return min((e.value for e in events if e.passes and e.value is not None), default=None)

    def greatest(events: Sequence[Event], now_ms: int) -> Any:
        return max((e.value for e in events if e.passes and e.value is not None), default=None)

    check(MIN, (type_,), least, window_ms=window_ms, is_in_order=False)
    check(MAX, (type_,), greatest, window_ms=window_ms, is_in_order=False)


def test_whole_numbers_compare_with_others_in_a_column_of_floats() -> None:
    events = events_of(5.0, 1.5, 9.5, 2.0)

    assert value_of(MIN, ("f64",), events) == 1.5
    assert value_of(MAX, ("f64",), events) == 9.5


def test_the_ends_of_64_bits_are_values() -> None:
    top = (1 << 63) - 1

    assert value_of(MIN, ("i64",), events_of(top)) == top
    assert value_of(MAX, ("i64",), events_of(-top - 1)) == -top - 1


def test_the_first_of_equal_values_wins() -> None:
    for kind in (MIN, MAX):
        assert str(value_of(kind, ("f64",), events_of(-0.0, 0.0))) == "-0.0"
        assert str(value_of(kind, ("f64",), events_of(0.0, -0.0))) == "0.0"


def test_no_number_is_no_value() -> None:
    assert value_of(MIN, ("f64",), events_of(float("nan"), 2.0, float("nan"))) == 2.0
    assert value_of(MIN, ("f64",), events_of(float("nan"))) is None
    assert value_of(MAX, ("f64",), events_of(float("inf"))) is None


@pytest.mark.parametrize("type_", TYPES)
def test_without_values_both_are_null(type_: ColumnType) -> None:
    for kind in (MIN, MAX):
        assert made(kind, (type_,)).value([], 0) is None
        assert made(kind, (type_,)).value([0, 1], 0) is None
