"""A submission to a shard, which is answered exactly once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import msgspec

from penstock.atomic_steps import Step
from penstock.errors import Overloaded, PenstockError

Publisher = Callable[[list[Any], list[Step], bool], bool]


class PendingCommit(msgspec.Struct, eq=False):
    """Frames to be written.

    When the commit class is met the shard calls `publish`, in order, with this commit and the
    following ones of the same ordering key and publisher, and then resolves them. The publisher
    applies them and performs the shard's own steps with the last of its changes. An argument says
    whether its thread cannot be interrupted. On other threads it may apply only a change of one
    step, and returns false for others. A commit that was not resolved in time is *unknown*, not
    failed. A Struct because one is made for every append.
    """

    frames: bytes
    publish: Publisher | None
    durable: bool
    ordering_key: int = 0  # commits of one key are published in order, whatever their class
    subject: Any = None  # the publisher's own
    callback: Callable[[PendingCommit], None] | None = None  # when done, on the committing thread
    gate: Any = None  # held until done; made at once where several may wait
    is_done: bool = False
    error: PenstockError | None = None
    result: Any = None
    start: tuple[int, int] = (0, 0)  # file index and offset of the first frame, once written
    write_s: float = 0.0
    sync_s: float = 0.0
    throttle_s: float = 0.0  # how long it was kept waiting on purpose
    count: int = 0  # of frames; 0: not counted

    def resolve(self, error: PenstockError | None = None) -> None:
        """Called by the shard, once."""
        self.error = error
        self.is_done = True
        if self.gate is not None:
            self.gate.release()
        if self.callback is not None:
            self.callback(self)

    def wait(self, timeout_s: float) -> None:
        """Return when the commit is done; raise its error."""
        if not self.is_done and self.gate is None:
            self.gate = closed_gate()  # made late: most are done when they are waited for
        if not self.is_done:  # looked at again: the shard looks for a gate after it sets this
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
    """A gate for a commit that a thread will wait for."""
    gate = threading.Lock()
    gate.acquire()
    return gate
