"""sum and mean."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import add
from random import Random
from typing import Any

import pytest

from penstock.features.event_column import ColumnType
from penstock.features.operators.catalogue import KINDS
from tests.support.operators import CELL_MS, Event, check, events_of, made, value_of

SUM, MEAN = KINDS["sum"], KINDS["mean"]
TOP = (1 << 63) - 1
WINDOWS = [None, 3 * CELL_MS]


def values_of(events: Sequence[Event]) -> list[Any]:
    return [event.value for event in events if event.passes and event.value is not None]


def added(values: Iterable[Any]) -> Any:
    """One after the other: `sum` rounds floats differently from Python 3.12 on."""
    return reduce(add, values)


def cells_of(events: Sequence[Event], window_ms: int | None) -> list[list[Event]]:
    """The events of each cell: a window adds up cells, not events."""
    cells: dict[int, list[Event]] = {}
    for event in events:
        cells.setdefault(event.ts // CELL_MS if window_ms else 0, []).append(event)
    return list(cells.values())


@pytest.mark.parametrize("window_ms", WINDOWS)
@pytest.mark.parametrize("type_", ["i64", "f64"])
def test_sum_adds_the_values_in_order(type_: ColumnType, window_ms: int | None) -> None:
    def expected(events: Sequence[Event], now_ms: int) -> Any:
        cells = [values_of(cell) for cell in cells_of(events, window_ms)]
        parts = [added(values) for values in cells if values]
        return added(parts) if parts else None

    check(SUM, (type_,), expected, window_ms=window_ms, is_in_order=False)


@pytest.mark.parametrize("window_ms", WINDOWS)
@pytest.mark.parametrize("type_", ["i64", "f64"])
def test_mean_is_the_sum_by_the_number_of_values(type_: ColumnType, window_ms: int | None) -> None:
    def expected(events: Sequence[Event], now_ms: int) -> Any:
        count = len(values_of(events))
        cells = [values_of(cell) for cell in cells_of(events, window_ms)]
        return added(added(values) for values in cells if values) / count if count else None

    check(MEAN, (type_,), expected, window_ms=window_ms, is_in_order=False)


def test_a_sum_of_large_integers_is_exact_on_both_sides_of_64_bits() -> None:
    def draw(random: Random) -> tuple[int]:
        return (random.choice([TOP, TOP - 1, -TOP - 1, -TOP, 1, -1, 0]),)

    def expected(events: Sequence[Event], now_ms: int) -> int | None:
        total = sum(values_of(events))
        return total if values_of(events) and -TOP - 1 <= total <= TOP else None

    check(SUM, ("i64",), expected, draw=draw)


def test_a_sum_beyond_64_bits_is_null_until_it_fits_again() -> None:
    assert value_of(SUM, ("i64",), events_of(TOP)) == TOP
    assert value_of(SUM, ("i64",), events_of(TOP, 1)) is None
    assert value_of(SUM, ("i64",), events_of(TOP, 1, -2)) == TOP - 1
    assert value_of(SUM, ("i64",), events_of(-TOP, -1)) == -TOP - 1
    assert value_of(SUM, ("i64",), events_of(-TOP, -1, -1)) is None
    assert value_of(MEAN, ("i64",), events_of(TOP, TOP)) == float(TOP)


def test_zeros_are_a_sum_and_nothing_is_none() -> None:
    assert value_of(SUM, ("f64",), events_of(-0.0, -0.0)) == 0.0
    assert value_of(SUM, ("f64",), events_of(2.5, -2.5)) == 0.0
    assert value_of(SUM, ("i64",), events_of(0)) == 0
    assert value_of(SUM, ("f64",), events_of(None)) is None
    assert value_of(MEAN, ("f64",), events_of(None)) is None


@pytest.mark.parametrize("type_", ["i64", "f64"])
def test_without_events_both_are_null(type_: ColumnType) -> None:
    for kind in (SUM, MEAN):
        assert made(kind, (type_,)).value([], 0) is None
        assert made(kind, (type_,)).value([1, 2], 0) is None


def test_what_json_cannot_carry_is_null_or_left_out() -> None:
    assert value_of(SUM, ("f64",), events_of(1.7e308, 1.7e308)) is None
    assert value_of(MEAN, ("f64",), events_of(1.7e308, 1.7e308)) is None
    assert value_of(SUM, ("f64",), events_of(1.0, float("nan"), 2.0)) == 3.0
    assert value_of(MEAN, ("f64",), events_of(1.0, float("nan"), 2.0)) == 1.5
