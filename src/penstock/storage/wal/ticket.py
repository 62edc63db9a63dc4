"""A submission to a shard and the promise that it will be answered once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import msgspec

from penstock.errors import Overloaded, PenstockError


class Ticket(msgspec.Struct, eq=False):
    """Frames on their way to disk.

    When the commit class is met the shard calls `publish`, exactly once and in order, with this
    ticket and those behind it that share its lane and its publisher, and then resolves them.
    A ticket that was not resolved in time is *unknown*, not failed.
    A Struct because one is made for every append.
    """

    frames: bytes
    publish: Callable[[list[Ticket]], None] | None
    durable: bool
    lane: int = 0  # tickets of one lane are published in order, whatever their class
    subject: Any = None  # the publisher's own
    callback: Callable[[Ticket], None] | None = None  # when done, on the committing thread
    gate: Any = None  # held until done, for those who wait
    is_done: bool = False
    error: PenstockError | None = None
    result: Any = None
    start: tuple[int, int] = (0, 0)  # file index and offset of the first frame, once written
    write_s: float = 0.0
    sync_s: float = 0.0
    throttle_s: float = 0.0  # how long it was kept waiting on purpose
    count: int = 0  # of frames; 0: nobody has counted them

    def resolve(self, error: PenstockError | None = None) -> None:
        """Called by the shard, once."""
        self.error = error
        self.is_done = True
        if self.gate is not None:
            self.gate.release()
        if self.callback is not None:
            self.callback(self)

    def wait(self, timeout_s: float) -> None:
        """Return when done; raise what went wrong."""
        if not self.is_done:
            if self.gate is None:
                raise AssertionError("a ticket must have a gate to be waited for")
            if not self.gate.acquire(timeout=timeout_s):
                raise Overloaded(
                    f"no answer from the disk in {timeout_s:.0f} s: the write may or may not "
                    "happen (use an idempotency key to find out)",
                    retry_after_ms=1000,
                )
            self.gate.release()
        if self.error is not None:
            raise self.error


def closed_gate() -> threading.Lock:
    """A gate for a ticket that will be waited for."""
    gate = threading.Lock()
    gate.acquire()
    return gate
