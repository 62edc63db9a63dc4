"""Forks: a log, a client or a sender belongs to the process that opened it.

A forked child has copies of its parent's objects, but not of the threads that work for them, and
it shares the parent's files, locks and sockets. So every object that owns such a thing registers
here, and gives it up in the child before any other code runs there.
"""

from __future__ import annotations

import os
import weakref
from typing import Any, NoReturn, Protocol

from penstock.errors import Closed

_PID = [os.getpid()]


class Owner(Protocol):
    def leave_to_parent(self) -> None:
        """In the child, right after the fork. No other thread exists, and a lock that another
        thread held will never be released. Give up files, locks and sockets; change nothing on
        disk and send nothing."""


_OWNERS: weakref.WeakSet[Owner] = weakref.WeakSet()


def pid() -> int:
    """The pid of this process, without a system call."""
    return _PID[0]


def add(owner: Owner) -> None:
    _OWNERS.add(owner)


def discard(owner: Owner) -> None:
    _OWNERS.discard(owner)


def not_ours(what: str, owner_pid: int) -> Closed:
    """The error for a verb of an object that belongs to the parent process."""
    return Closed(
        f"this {what} belongs to process {owner_pid}, which opened it before the fork: "
        f"open one in process {pid()}"
    )


class LeftToParent:
    """In a child, replaces an object that belongs to the parent: any use raises Closed."""

    def __init__(self, what: str, owner_pid: int) -> None:
        self.__dict__.update(_what=what, _owner_pid=owner_pid)

    def __getattr__(self, name: str) -> NoReturn:
        raise not_ours(self.__dict__["_what"], self.__dict__["_owner_pid"])

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise not_ours(self.__dict__["_what"], self.__dict__["_owner_pid"])


def _after_fork() -> None:
    _PID[0] = os.getpid()
    owners = list(_OWNERS)
    # The child owns none of them: a child of its own must not be asked to leave them again.
    _OWNERS.clear()
    failed: Exception | None = None
    for owner in owners:
        try:
            owner.leave_to_parent()
        except Exception as error:  # noqa: BLE001 - the others must be given up all the same
            failed = error
    if failed is not None:
        raise failed  # Python reports it, and goes on


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
