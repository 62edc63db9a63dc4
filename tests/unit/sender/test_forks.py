"""What is held by the process that opened it is let go of in one that is forked off."""

from __future__ import annotations

import os
from collections.abc import Callable

from penstock.sender import forks


class Thing:
    def __init__(self) -> None:
        self.was_left = False

    def leave_to_parent(self) -> None:
        self.was_left = True


def in_child(is_so: Callable[[], bool]) -> bool:
    """What a child finds, asked at once after the fork."""
    child = os.fork()
    if not child:
        os._exit(0 if is_so() else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_child_leaves_what_is_held_to_its_parent() -> None:
    held, gone = Thing(), Thing()
    forks.add(held)
    forks.add(gone)
    forks.discard(gone)

    assert in_child(lambda: held.was_left and not gone.was_left)
    assert not held.was_left


def test_a_child_has_its_own_number() -> None:
    assert forks.pid() == os.getpid()
    parent = os.getpid()

    assert in_child(lambda: forks.pid() == os.getpid() != parent)
