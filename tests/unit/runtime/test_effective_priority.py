"""How important a topic is, by hand or by interest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.runtime.effective_priority import Recency, effective_priority


@pytest.mark.parametrize(
    ("idle_s", "expected"), [(0, 500), (15, 354), (30, 250), (60, 125), (120, 31), (300, 0)]
)
def test_interest_halves_every_thirty_seconds(idle_s: int, expected: int) -> None:
    found = effective_priority(None, is_auto=True, last_read_ms=1000, now_ms=1000 + idle_s * 1000)

    assert found == expected


@given(st.integers(-(1 << 31), (1 << 31) - 1), st.booleans())
def test_a_priority_that_was_set_wins_within_its_bounds(priority: int, is_auto: bool) -> None:
    found = effective_priority(priority, is_auto=is_auto, last_read_ms=5, now_ms=5)

    assert found == max(-1000, min(1000, priority))


def test_nobody_s_topic_has_none() -> None:
    assert effective_priority(None, is_auto=True, last_read_ms=None, now_ms=9) == 0
    assert effective_priority(None, is_auto=False, last_read_ms=9, now_ms=9) == 0


def test_a_clock_that_went_back_is_no_interest_from_the_future() -> None:
    assert effective_priority(None, is_auto=True, last_read_ms=100, now_ms=50) == 500


def test_recency_remembers_the_last_read_and_forgets_on_request() -> None:
    recency = Recency()
    recency.touch(7, 10)
    recency.touch(7, 20)

    assert recency.last_read_ms(7) == 20
    recency.forget(7)
    recency.forget(7)
    assert recency.last_read_ms(7) is None
