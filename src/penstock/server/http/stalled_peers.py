"""Detects a stalled peer: one that has not taken a byte of its answer for too long.

The connections ask at each beat of `connection_limits`, and close the connection of such a peer.
"""

from __future__ import annotations


class Stall:
    """Measures how long a peer has received nothing."""

    __slots__ = ("_left", "_since_s", "_timeout_s")

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._left = 0
        self._since_s = 0.0

    def is_over(self, left: int, now: float) -> bool:
        """True when the peer has made no progress for too long. Fewer unsent bytes than at the
        last call are progress."""
        if not left or left < self._left or not self._since_s:
            self._since_s = now
        self._left = left
        return now - self._since_s > self._timeout_s
