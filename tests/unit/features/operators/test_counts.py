"""count and ratio."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from penstock.features.operators.catalogue import KINDS
from tests.support.operators import CELL_MS, Event, check, made

WINDOWS = [None, 3 * CELL_MS]


@pytest.mark.parametrize("window_ms", WINDOWS)
def test_count_is_the_number_of_events_that_pass(window_ms: int | None) -> None:
    def expected(events: Sequence[Event], now_ms: int) -> int:
        return sum(event.passes for event in events)

    check(KINDS["count"], (), expected, window_ms=window_ms, is_in_order=False)


@pytest.mark.parametrize("window_ms", WINDOWS)
def test_ratio_counts_all_events_below_the_line(window_ms: int | None) -> None:
    def expected(events: Sequence[Event], now_ms: int) -> float:
        return sum(event.passes for event in events) / len(events)

    check(KINDS["ratio"], (), expected, window_ms=window_ms, is_in_order=False)


def test_without_events_count_is_0_and_ratio_null() -> None:
    assert made(KINDS["count"]).value([], 0) == 0
    assert made(KINDS["ratio"]).value([], 0) is None
    assert made(KINDS["ratio"]).value([3], 0) is None
