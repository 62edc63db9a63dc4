"""The progress of a spool: the published and the acknowledged frames, and the age of the oldest.

Pure; the spool's state lock guards it.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from penstock.sender.frame_index import FrameIndex

_AGE_STEP_MS: Final = 100  # how finely the age of the oldest frame is known, at first
_AGES_MAX: Final = 1024


class Progress:
    """Every frame up to `acked` is acknowledged, rejected or lost; every frame up to `published`
    exists or existed. Invariant: acked <= published."""

    def __init__(self, index: FrameIndex, *, acked: int, published: int) -> None:
        self.acked = acked
        self.published = published
        self._index = index
        self._resolved: set[int] = set()  # rejected frames above `acked`
        self._ages = deque((segment.base, segment.created_ms) for segment in index.segments)
        self._age_step_ms = _AGE_STEP_MS
        self.advance()

    def publish(self, fsn: int, *, now_ms: int) -> None:
        if self.acked >= self.published:  # no older frame is unacknowledged
            self._ages.clear()
            self._age_step_ms = _AGE_STEP_MS
        self.published = fsn
        if not self._ages or now_ms - self._ages[-1][1] >= self._age_step_ms:
            self._ages.append((fsn, now_ms))
        if len(self._ages) > _AGES_MAX:  # a long outage: keep every second one
            self._ages = deque(list(self._ages)[::2])
            self._age_step_ms *= 2

    def ack(self, fsn: int) -> None:
        """Acknowledge frames up to `fsn`, at most the published ones. Never decreases."""
        self.acked = max(self.acked, min(fsn, self.published))
        self.advance()

    def resolve(self, fsn: int) -> None:
        """A single frame was rejected and kept elsewhere."""
        self._resolved.add(fsn)
        self.advance()

    def advance(self) -> None:
        """Advance `acked` over frames that no server will acknowledge: rejected or lost ones."""
        while self.acked < self.published:
            fsn = self.acked + 1
            if fsn not in self._resolved and not self._index.is_lost(fsn):
                break
            self.acked = fsn
        if self._resolved:
            self._resolved = {fsn for fsn in self._resolved if fsn > self.acked}
        while len(self._ages) > 1 and self._ages[1][0] <= self.acked + 1:
            self._ages.popleft()

    def oldest_ms(self, now_ms: int) -> int:
        """The age of the oldest unacknowledged frame; 0 without one."""
        if self.acked >= self.published or not self._ages:
            return 0
        return max(0, now_ms - self._ages[0][1])
