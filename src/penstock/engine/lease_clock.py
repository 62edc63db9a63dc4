"""The time of leases and of delayed jobs."""

from __future__ import annotations

from penstock.clock import Clock


class LeaseClock:
    """The wall-clock time at the start, advanced by the monotonic clock: a lease must neither end
    early nor last longer because somebody set the wall clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset_ms = clock.now_ms() - clock.monotonic() * 1000

    def now_ms(self) -> int:
        return int(self._offset_ms + self._clock.monotonic() * 1000)
