"""A mark that something has changed since a thread last looked."""

from __future__ import annotations

import queue

from penstock.atomic_steps import Step, perform


class ChangeMark:
    """Changes are marked on any thread, also on one that may be interrupted at any point. Of many
    changes the queue gets one `key`. The reader clears `is_set` and then looks; it holds the lock
    that the changes are made under, or looks again after a while."""

    __slots__ = ("_key", "_queue", "is_set")

    def __init__(self, changed: queue.SimpleQueue[str | None], key: str | None) -> None:
        self._queue = changed
        self._key = key
        self.is_set = False

    def steps(self) -> tuple[Step, ...]:
        """The steps that set the mark, to be performed with the change."""
        if self.is_set:
            return ()
        return (setattr, self, "is_set", True), (self._queue.put, self._key)

    def set(self) -> None:
        """After the change."""
        perform(self.steps())
