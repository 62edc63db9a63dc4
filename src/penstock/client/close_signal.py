"""A pause between attempts that the closing of the client ends at once."""

from __future__ import annotations

import asyncio
import contextlib
import threading

from penstock.clock import Clock


class CloseSignal:
    """For threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._is_set = False

    def set(self) -> None:
        """The client is closed: end all pauses, now and later."""
        with self._changed:
            self._is_set = True
            self._changed.notify_all()

    def wait(self, delay_s: float) -> bool:
        """Wait for `delay_s` or until the client is closed; true when it is closed."""
        with self._changed:
            if not self._is_set:
                self._clock.wait(self._changed, delay_s)
            return self._is_set


class AsyncCloseSignal:
    """For the tasks of one event loop. The loop's own time counts, not the clock."""

    def __init__(self, clock: Clock) -> None:
        self._closed = asyncio.Event()

    def set(self) -> None:
        """The client is closed: end all pauses, now and later."""
        self._closed.set()

    async def wait(self, delay_s: float) -> bool:
        """Wait for `delay_s` or until the client is closed; true when it is closed."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._closed.wait(), delay_s)
        return self._closed.is_set()
