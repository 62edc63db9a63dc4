"""Processes that are forked off: what a sender holds stays with the process that opened it."""

from __future__ import annotations

import os
import weakref
from typing import Protocol

_PID = [os.getpid()]


class Held(Protocol):
    def leave_to_parent(self) -> None:
        """In the child, at once after the fork: no other thread is there, and locks that some
        held will never be released. Let go of files and locks without a word."""


_HELD: weakref.WeakSet[Held] = weakref.WeakSet()


def pid() -> int:
    """Of this process, without a system call."""
    return _PID[0]


def add(held: Held) -> None:
    _HELD.add(held)


def discard(held: Held) -> None:
    _HELD.discard(held)


def _after_fork() -> None:
    _PID[0] = os.getpid()
    for held in list(_HELD):
        held.leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
