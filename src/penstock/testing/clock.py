"""Time that stands still until a test moves it."""

from __future__ import annotations

import threading


class FakeClock:
    """A `Clock` moved by hand. Safe from several threads.

    A wait sleeps in real time until somebody notifies it or `advance` passes its deadline. As
    with any condition, a waiter may be woken early; it must look at its own predicate again.
    """

    def __init__(self, now_ms: int = 1_760_000_000_000) -> None:
        self._lock = threading.Lock()
        self._wall_us = now_ms * 1000  # guarded by _lock, as all below
        self._elapsed_us = 0
        self._waits: list[tuple[int, threading.Condition]] = []  # deadline_us, condition

    def now_ms(self) -> int:
        with self._lock:
            return self._wall_us // 1000

    def monotonic(self) -> float:
        with self._lock:
            return self._elapsed_us / 1_000_000

    def wait(self, condition: threading.Condition, timeout_s: float | None) -> bool:
        """Wait on a held condition; true when notified, false when fake time ran out."""
        if timeout_s is None:
            return condition.wait()
        if timeout_s <= 0:
            return condition.wait(0)
        with self._lock:
            deadline_us = self._elapsed_us + round(timeout_s * 1_000_000)
            entry = (deadline_us, condition)
            self._waits.append(entry)
        try:
            # No wake-up can be missed: the condition is held from here until wait() lets it
            # go, and `advance` takes it before it notifies.
            condition.wait()
        finally:
            with self._lock:
                self._waits.remove(entry)
                is_over = self._elapsed_us >= deadline_us
        return not is_over

    def advance(self, ms: float) -> None:
        """Move both clocks forward and wake every wait whose deadline has come."""
        if ms < 0:
            raise ValueError(f"time only moves forward here, not by {ms} ms; see jump")
        with self._lock:
            self._elapsed_us += round(ms * 1000)
            self._wall_us += round(ms * 1000)
            due = [condition for deadline, condition in self._waits if deadline <= self._elapsed_us]
        for condition in due:
            with condition:
                condition.notify_all()

    def jump(self, ms: int) -> None:
        """Set the wall clock forward or back, as an operator would. Nobody is woken."""
        with self._lock:
            self._wall_us += ms * 1000
