"""The WAL that no checkpoint has absorbed yet, and the backpressure on writers when it is too long.

Its bytes are in memory and on disk a second time until they are in segments. Checkpoints are made
elsewhere, in `maintenance`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock import limits
from penstock.clock import Clock
from penstock.errors import LogFailed, Overloaded


class WalBacklog:
    """Writers wait, or are refused, while it is too long. No record is lost.

    Any thread. `is_too_long` is a flag, because every append checks it: maintenance sets it at each
    beat and after each checkpoint.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        written_bytes: Callable[[], int],
        failure: Callable[[], LogFailed | None],
        timeout_s: float,
    ) -> None:
        self.is_too_long = False
        # Wakes the thread that makes checkpoints; without one, makes it here and returns false.
        self.request_checkpoint: Callable[[], bool] = lambda: False  # set by the maintenance
        self._clock = clock
        self._written_bytes = written_bytes
        self._failure = failure
        self._timeout_s = timeout_s
        self._absorbed_bytes = 0
        self._shorter = threading.Condition()

    def unabsorbed_bytes(self) -> int:
        return self._written_bytes() - self._absorbed_bytes

    def weigh(self) -> None:
        """Record whether writers are too far ahead of the checkpoints."""
        self.is_too_long = self.unabsorbed_bytes() > limits.UNABSORBED_BYTES_MAX

    def absorbed(self, written_bytes: int) -> None:
        """A checkpoint has absorbed the WAL that was written up to then: let writers go on."""
        self._absorbed_bytes = written_bytes
        self.weigh()
        with self._shorter:
            self._shorter.notify_all()

    def hold(self, *, may_wait: bool) -> None:
        """For a writer that found it too long: wait until it is shorter, or raise Overloaded."""
        if not may_wait:
            raise Overloaded("checkpoints cannot keep up", retry_after_ms=250)
        deadline = self._clock.monotonic() + self._timeout_s
        if not self.request_checkpoint():
            return
        with self._shorter:
            while self.is_too_long:
                left_s = deadline - self._clock.monotonic()
                failed = self._failure()
                if left_s <= 0 or failed is not None:
                    raise failed or Overloaded(
                        "checkpoints cannot keep up with the writers", retry_after_ms=1000
                    )
                self._clock.wait(self._shorter, min(left_s, 0.1))
