"""Trouble that lasts: told at once, then seldom, but never forgotten."""

from __future__ import annotations

import itertools

from penstock.sender.seldom import Seldom


def test_it_is_told_at_once_and_then_less_and_less_often() -> None:
    seldom = Seldom()

    told = [second for second in range(3600) if seldom.is_due(second)]

    assert told[:4] == [0, 5, 15, 35]
    gaps = [after - before for before, after in itertools.pairwise(told)]
    assert gaps == sorted(gaps)
    assert max(gaps) == 600


def test_what_ended_is_told_at_once_when_it_comes_again() -> None:
    seldom = Seldom()
    assert not seldom.was_told
    assert seldom.is_due(0)
    assert seldom.was_told
    assert not seldom.is_due(1)

    seldom.is_over()

    assert not seldom.was_told
    assert seldom.is_due(2)
    assert [second for second in range(3, 12) if seldom.is_due(second)] == [7]
