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
