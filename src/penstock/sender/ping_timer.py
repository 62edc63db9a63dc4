"""When a sender pings a silent server, and when it gives up the connection. Pure."""

from __future__ import annotations

from typing import Final

# Without a byte from the server before a ping; and again before the connection is given up.
SILENCE_S: Final = 20.0


class PingTimer:
    """The timer of one connection."""

    def __init__(self, now_s: float, keepalive_s: float) -> None:
        self._received_s = now_s
        self._bytes = 0
        self._asked_s: float | None = None
        self._keepalive_s = keepalive_s  # between pings while the server syncs; 0: none
        self._kept_s = now_s

    def pause_s(self, waits_for_sync: bool) -> float:
        """How long to wait for replies."""
        return self._keepalive_s if waits_for_sync and self._keepalive_s else SILENCE_S

    def record_received(self, count: int, now_s: float) -> None:
        """`count` is the number of bytes received so far."""
        if count != self._bytes:
            self._bytes, self._received_s, self._asked_s = count, now_s, None

    def is_over(self, now_s: float) -> bool:
        return self._asked_s is not None and now_s - self._asked_s > SILENCE_S

    def wants_ping(self, now_s: float, waits_for_sync: bool) -> bool:
        """True when a ping is due; the next call counts it as sent."""
        if waits_for_sync and self._keepalive_s and now_s - self._kept_s >= self._keepalive_s:
            self._kept_s = now_s
            return True
        if self._asked_s is None and now_s - self._received_s > SILENCE_S:
            self._asked_s = now_s
            return True
        return False
