"""delta_from_prev."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from penstock.features.event_column import ColumnType
from penstock.features.operators.catalogue import KINDS
from tests.support.operators import CELL_MS, Event, check, events_of, made, value_of

DELTA = KINDS["delta_from_prev"]


@pytest.mark.parametrize("window_ms", [None, 3 * CELL_MS])
@pytest.mark.parametrize("type_", ["i64", "f64"])
def test_it_is_the_last_value_minus_the_one_before(
    type_: ColumnType, window_ms: int | None
) -> None:
    def expected(events: Sequence[Event], now_ms: int) -> Any:
        values = [event.value for event in events if event.passes and event.value is not None]
        return values[-1] - values[-2] if len(values) > 1 else None

    check(DELTA, (type_,), expected, window_ms=window_ms, is_in_order=False)


def test_it_is_null_below_two_values_and_where_it_does_not_fit() -> None:
    top = (1 << 63) - 1

    assert made(DELTA, ("i64",)).value([], 0) is None
    assert value_of(DELTA, ("i64",), events_of(1)) is None
    assert value_of(DELTA, ("i64",), events_of(-1, top)) is None
    assert value_of(DELTA, ("i64",), events_of(0, -top)) == -top
    assert value_of(DELTA, ("f64",), events_of(-1.7e308, 1.7e308)) is None
