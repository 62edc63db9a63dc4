"""streak, max_streak and negative_streak."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, takewhile

import pytest

from penstock.features.operators.catalogue import KINDS
from tests.support.operators import Event, check, made


def streak(events: Sequence[Event], now_ms: int) -> int:
    return sum(1 for _ in takewhile(lambda event: event.passes, reversed(events)))


def negative_streak(events: Sequence[Event], now_ms: int) -> int:
    return sum(1 for _ in takewhile(lambda event: not event.passes, reversed(events)))


def max_streak(events: Sequence[Event], now_ms: int) -> int:
    runs = groupby(events, key=lambda event: event.passes)
    return max((len(list(run)) for passes, run in runs if passes), default=0)


@pytest.mark.parametrize("expected", [streak, negative_streak, max_streak])
def test_streaks_are_runs_at_the_end_and_the_longest_anywhere(expected: object) -> None:
    check(KINDS[expected.__name__], (), expected)  # type: ignore[attr-defined,arg-type]


@pytest.mark.parametrize("name", ["streak", "negative_streak", "max_streak"])
def test_without_events_they_are_0(name: str) -> None:
    assert made(KINDS[name]).value([], 0) == 0
