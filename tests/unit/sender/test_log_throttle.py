"""Trouble that lasts: told at once, then seldom, but never forgotten."""

from __future__ import annotations

import itertools

from penstock.sender.log_throttle import LogThrottle


def test_it_is_told_at_once_and_then_less_and_less_often() -> None:
    log_throttle = LogThrottle()

    told = [second for second in range(3600) if log_throttle.is_due(second)]

    assert told[:4] == [0, 5, 15, 35]
    gaps = [after - before for before, after in itertools.pairwise(told)]
    assert gaps == sorted(gaps)
    assert max(gaps) == 600


def test_what_ended_is_told_at_once_when_it_comes_again() -> None:
    log_throttle = LogThrottle()
    assert not log_throttle.has_logged
    assert log_throttle.is_due(0)
    assert log_throttle.has_logged
    assert not log_throttle.is_due(1)

    log_throttle.reset()

    assert not log_throttle.has_logged
    assert log_throttle.is_due(2)
    assert [second for second in range(3, 12) if log_throttle.is_due(second)] == [7]
