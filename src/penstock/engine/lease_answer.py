"""The answer of a queue verb, for a callback or for the thread that waits for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from penstock.engine.handle import Handle
from penstock.engine.journal import Applied, Journal
from penstock.storage.wal.pending_commit import PendingCommit

T = TypeVar("T")


class LeaseAnswer(Generic[T]):
    """The answer to one verb, given when its commit has met its class.

    `commit` and `make` are set while the topic's lock is held: the commit cannot be published
    before, and a failed commit needs neither.
    """

    __slots__ = ("_done", "_handle", "commit", "make")

    def __init__(self, handle: Handle, done: Callable[[T | Exception], None] | None) -> None:
        self._handle = handle
        self._done = done
        self.commit: PendingCommit | None = None  # None: there is nothing to wait for
        self.make: Callable[[], T]

    @property
    def callback(self) -> Applied | None:
        """The callback of the commit; None when a thread waits."""
        return None if self._done is None else self._committed

    def _committed(self, commit: PendingCommit) -> None:
        self._tell(commit.error or self.make())

    def push(self, push: Callable[[Handle], None]) -> None:
        """Start the commit; the callback gets the answer, now or later."""
        if self.commit is None:
            self._tell(self.make())
        else:
            push(self._handle)

    def wait(self, journal: Journal) -> T:
        """The answer, on this thread."""
        if self.commit is not None:
            journal.wait(self._handle, self.commit)
        return self.make()

    def _tell(self, answer: T | Exception) -> None:
        if self._done is None:
            raise AssertionError("no callback was given")
        self._done(answer)
