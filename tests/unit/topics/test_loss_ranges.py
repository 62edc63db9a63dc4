"""Losses of a topic: in order, none over another, and everything told by the first word."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from penstock.topics import loss_ranges
from penstock.types import Cause, LossRange

LOST, DAMAGE = int(Cause.LOST), int(Cause.DAMAGE)
SEQS = st.integers(1, 20)
TOLD = st.lists(st.tuples(SEQS, SEQS, st.sampled_from((LOST, DAMAGE))), max_size=8)


def test_what_was_told_first_stays_and_the_seqs_between_are_filled() -> None:
    told = [LossRange(3, 4, DAMAGE), LossRange(7, 8, DAMAGE)]

    assert loss_ranges.added(told, 2, 10, Cause.LOST) == [
        LossRange(2, 2, LOST),
        LossRange(3, 4, DAMAGE),
        LossRange(5, 6, LOST),
        LossRange(7, 8, DAMAGE),
        LossRange(9, 10, LOST),
    ]


def test_neighbours_of_one_cause_are_one() -> None:
    told = loss_ranges.added([LossRange(1, 3, LOST), LossRange(6, 8, LOST)], 4, 5, Cause.LOST)

    assert told == [LossRange(1, 8, LOST)]


def test_what_is_told_is_not_told_again() -> None:
    told = [LossRange(1, 8, LOST)]

    assert loss_ranges.added(told, 3, 5, Cause.DAMAGE) is told


@given(ranges=TOLD)
def test_every_seq_has_the_cause_it_was_first_told_with(ranges: list[tuple[int, int, int]]) -> None:
    expected: dict[int, int] = {}
    for one, other, cause in ranges:
        for seq in range(min(one, other), max(one, other) + 1):
            expected.setdefault(seq, cause)
    found = loss_ranges.ordered(
        LossRange(min(one, other), max(one, other), cause) for one, other, cause in ranges
    )

    assert {seq: loss.cause for loss in found for seq in range(loss.first, loss.last + 1)} == (
        expected
    )
    assert sum(loss.last - loss.first + 1 for loss in found) == len(expected)  # none twice
    assert found == sorted(found)
    assert not [
        (left, right)
        for left, right in itertools.pairwise(found)
        if left.cause == right.cause and left.last + 1 == right.first
    ]
