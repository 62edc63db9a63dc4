"""The maintenance thread: seal, checkpoint, expire. A failure here closes the log for writing."""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock.clock import Clock


class MaintenanceThread:
    """Calls `beat` at every interval until stopped, and at once after `nudge`."""

    def __init__(self, clock: Clock, interval_ms: int, beat: Callable[[], None]) -> None:
        self._clock = clock
        self._interval_s = interval_ms / 1000
        self._beat = beat
        self._wake = threading.Condition()
        self._is_stopping = False
        self._is_nudged = False
        self._thread = threading.Thread(target=self._run, name="penstock-maintenance", daemon=True)
        self._thread.start()

    def nudge(self) -> None:
        with self._wake:
            self._is_nudged = True
            self._wake.notify()

    def stop(self, wait_s: float | None = None) -> None:
        """Return when the thread has ended, or after the timeout. A beat in progress is finished
        first."""
        with self._wake:
            self._is_stopping = True
            self._wake.notify()
        self._thread.join(wait_s)

    def _run(self) -> None:
        while True:
            with self._wake:
                if not self._is_stopping and not self._is_nudged:
                    self._clock.wait(self._wake, self._interval_s)
                self._is_nudged = False
                if self._is_stopping:
                    return
            self._beat()
