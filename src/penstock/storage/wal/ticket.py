"""A submission to a shard and the promise that it will be answered once."""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock.errors import Overloaded, PenstockError


class Ticket:
    """Frames on their way to disk.

    The shard calls `publish` exactly once, in order, when the commit class is met, and then
    resolves the ticket. A ticket that was not resolved in time is *unknown*, not failed.
    """

    __slots__ = (
        "_callback",
        "_gate",
        "durable",
        "error",
        "frames",
        "is_done",
        "lane",
        "publish",
        "result",
        "start",
        "sync_s",
        "write_s",
    )

    def __init__(
        self,
        frames: bytes,
        publish: Callable[[Ticket], None] | None,
        *,
        durable: bool,
        lane: int = 0,
    ) -> None:
        self.frames = frames
        self.publish = publish
        self.durable = durable
        self.lane = lane  # tickets of one lane are published in order, whatever their class
        self.is_done = False
        self.error: PenstockError | None = None
        self.result: object = None
        self.start = (0, 0)  # file index and offset of the first frame, once written
        self.write_s = 0.0
        self.sync_s = 0.0
        self._gate: threading.Lock | None = None
        self._callback: Callable[[Ticket], None] | None = None

    def resolve(self, error: PenstockError | None = None) -> None:
        """Called by the shard, once."""
        self.error = error
        self.is_done = True
        gate = self._gate
        if gate is not None:
            gate.release()
        callback = self._callback
        if callback is not None:
            callback(self)

    def arm(self) -> None:
        """Before submitting a ticket that may be waited for."""
        gate = threading.Lock()
        gate.acquire()
        self._gate = gate

    def on_done(self, callback: Callable[[Ticket], None]) -> None:
        """Before submitting: call this when done, on the committing thread. Keep it short."""
        self._callback = callback

    def wait(self, timeout_s: float) -> None:
        """Return when done; raise what went wrong."""
        if not self.is_done:
            gate = self._gate
            if gate is None:
                raise AssertionError("a ticket must be armed before it is waited for")
            if not gate.acquire(timeout=timeout_s):
                raise Overloaded(
                    f"no answer from the disk in {timeout_s:.0f} s: the write may or may not "
                    "happen (use an idempotency key to find out)",
                    retry_after_ms=1000,
                )
            gate.release()
        if self.error is not None:
            raise self.error
