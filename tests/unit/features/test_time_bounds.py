"""The bounds of event times."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.features.definition_nodes import AHEAD_MS, EventTime
from penstock.features.time_bounds import TIME_END, TimeBounds

BOUNDS = TimeBounds("at", 1000)


def test_a_time_is_at_most_so_far_ahead_of_the_commit_of_its_record() -> None:
    times = np.array([-5, 6000, 6001, 7000, 7001])
    tss = np.array([5000, 5000, 5000, 6000, 6000])

    assert BOUNDS.hold(times, tss).tolist() == [True, True, False, True, False]
    assert BOUNDS.hold(times, 5000).tolist() == [True, True, False, False, False]


@pytest.mark.parametrize("ts", [0, TIME_END, (1 << 63) - 1])
def test_a_time_that_no_clock_shows_is_out_of_bounds_whenever_it_is_committed(ts: int) -> None:
    times = np.array([TIME_END, -TIME_END, (1 << 63) - 1, -(1 << 63)])

    assert not BOUNDS.hold(times, ts).any()
    assert all(BOUNDS.complaint(time, ts) for time in times.tolist())


def test_a_complaint_has_the_value_and_the_bound() -> None:
    assert BOUNDS.complaint(6000, 5000) == ""
    assert BOUNDS.complaint(6001, 5000) == (
        "field 'at' is 6001, expected a time in ms since 1970, at most 1s ahead of the commit of "
        "its event (5000)"
    )
    assert BOUNDS.complaint(-TIME_END, 5000) == (
        "field 'at' is -9007199254740992, expected a time in ms since 1970"
    )
    assert BOUNDS.complaint(None, 5000) == ("field 'at' is missing, which is the time of the event")


def test_an_event_time_is_one_hour_ahead_unless_it_says_another_bound() -> None:
    assert TimeBounds.of(EventTime("at")) == TimeBounds("at", AHEAD_MS) == TimeBounds("at", 3600000)
    assert TimeBounds.of(EventTime("at", ahead_ms=0)).hold(np.array([5, 6]), 5).tolist() == [
        True,
        False,
    ]
