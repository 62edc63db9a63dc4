"""The only reader of real time, so that tests can pass another clock."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """A source of time. Safe from several threads."""

    def now_ms(self) -> int:
        """Wall clock, milliseconds since 1970. May jump either way."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start. Never goes back."""

    def wait(self, condition: threading.Condition, timeout_s: float | None) -> bool:
        """Wait on a held condition; true when notified, false when time ran out."""


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    monotonic = staticmethod(time.monotonic)  # read several times for each append

    def wait(self, condition: threading.Condition, timeout_s: float | None) -> bool:
        return condition.wait(timeout_s)
