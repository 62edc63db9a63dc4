"""first and last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from penstock.features.event_column import ColumnType
from penstock.features.operators.catalogue import KINDS
from tests.support.operators import CELL_MS, Event, check, events_of, fold_of, made, value_of

FIRST, LAST = KINDS["first"], KINDS["last"]


def values_of(events: Sequence[Event]) -> list[Any]:
    return [event.value for event in events if event.passes and event.value is not None]


@pytest.mark.parametrize("window_ms", [None, 3 * CELL_MS])
@pytest.mark.parametrize("type_", ["i64", "f64", "bool", "str", "json"])
def test_they_are_the_ends_of_the_values(type_: ColumnType, window_ms: int | None) -> None:
    def first(events: Sequence[Event], now_ms: int) -> Any:
        return next(iter(values_of(events)), None)

    def last(events: Sequence[Event], now_ms: int) -> Any:
        return next(reversed(values_of(events)), None)

    check(FIRST, (type_,), first, window_ms=window_ms, is_in_order=False)
    check(LAST, (type_,), last, window_ms=window_ms, is_in_order=False)


def test_false_and_zero_are_values() -> None:
    assert value_of(LAST, ("bool",), events_of(True, False, None)) is False
    assert value_of(FIRST, ("i64",), events_of(None, 0, 1)) == 0
    assert value_of(FIRST, ("str",), events_of("", "a")) == ""
    assert made(LAST, ("str",)).value([], 0) is None


def test_equal_texts_of_many_keys_are_kept_once() -> None:
    for kind in (FIRST, LAST):
        events = events_of(*("".join(["a", "b"]) for _ in range(3)))
        operator = made(kind, ("str",))
        for number, event in enumerate(events):
            operator.fold(fold_of([number], [event], ("str",)))

        assert len({id(operator.value([number], 0)) for number in range(3)}) == 1
