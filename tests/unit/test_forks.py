"""Owners are told of a fork in the child, before any other code runs there."""

from __future__ import annotations

import os

import pytest

from penstock import forks
from penstock.errors import Closed
from tests.support.child import in_child


class Thing:
    def __init__(self) -> None:
        self.was_left = False

    def leave_to_parent(self) -> None:
        self.was_left = True


class Counting:
    def __init__(self) -> None:
        self.left = 0

    def leave_to_parent(self) -> None:
        self.left += 1


def test_a_child_leaves_what_is_owned_to_its_parent() -> None:
    held, gone = Thing(), Thing()
    forks.add(held)
    forks.add(gone)
    forks.discard(gone)

    def look() -> None:
        assert held.was_left
        assert not gone.was_left

    assert in_child(look) == ""
    assert not held.was_left


def test_a_child_of_a_child_leaves_each_thing_to_the_process_that_owns_it() -> None:
    first = Counting()
    forks.add(first)

    def beget() -> None:
        second = Counting()
        forks.add(second)
        assert in_child(lambda: check(first.left, second.left)) == ""

    def check(*counts: int) -> None:
        assert counts == (1, 1)

    assert in_child(beget) == ""


def test_an_owner_that_fails_does_not_keep_the_others_from_leaving(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever their order is: a set has none."""

    class Failing:
        def leave_to_parent(self) -> None:
            raise ValueError("cannot leave")

    monkeypatch.setattr("sys.unraisablehook", lambda told: None)  # where Python reports it
    things = [Thing() for _ in range(20)]
    owners = [Failing(), *things, Failing()]
    for owner in owners:
        forks.add(owner)

    def look() -> None:
        assert all(thing.was_left for thing in things)

    try:
        assert in_child(look) == ""
    finally:
        for owner in owners:
            forks.discard(owner)


def test_a_child_has_its_own_pid() -> None:
    parent = os.getpid()
    assert forks.pid() == parent

    def look() -> None:
        assert forks.pid() == os.getpid() != parent

    assert in_child(look) == ""


def test_a_part_that_was_left_raises_whatever_is_done_with_it() -> None:
    left = forks.LeftToParent("log", 42)

    with pytest.raises(Closed, match="belongs to process 42"):
        left.append("t", [1])
    with pytest.raises(Closed, match=f"open one in process {os.getpid()}"):
        left.is_closed = True
