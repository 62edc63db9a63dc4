"""How far the frames of a spool have come: stored, acknowledged, refused, lost, and since when.

Pure; the spool's state lock guards it.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from penstock.sender.index import Index

_AGE_STEP_MS: Final = 100  # how finely the age of the oldest frame is known, at first
_AGES_MAX: Final = 1024


class Progress:
    """Every frame up to `acked` is done with, every frame up to `published` exists or existed.
    Invariant: acked <= published."""

    def __init__(self, index: Index, *, acked: int, published: int) -> None:
        self.acked = acked
        self.published = published
        self._index = index
        self._settled: set[int] = set()  # refused and kept elsewhere, not yet passed by `acked`
        self._ages = deque((segment.base, segment.created_ms) for segment in index.segments)
        self._age_step_ms = _AGE_STEP_MS
        self.advance()

    def publish(self, fsn: int, *, now_ms: int) -> None:
        if self.acked >= self.published:  # those before it do not wait any more
            self._ages.clear()
            self._age_step_ms = _AGE_STEP_MS
        self.published = fsn
        if not self._ages or now_ms - self._ages[-1][1] >= self._age_step_ms:
            self._ages.append((fsn, now_ms))
        if len(self._ages) > _AGES_MAX:  # a long outage: every second one will do
            self._ages = deque(list(self._ages)[::2])
            self._age_step_ms *= 2

    def ack(self, fsn: int) -> None:
        """Everything up to `fsn`, or up to the end if that is less. Never goes back."""
        self.acked = max(self.acked, min(fsn, self.published))
        self.advance()

    def settle(self, fsn: int) -> None:
        """This frame alone is done with."""
        self._settled.add(fsn)
        self.advance()

    def advance(self) -> None:
        """Pass what no server will ever acknowledge: frames that are settled or lost."""
        while self.acked < self.published:
            fsn = self.acked + 1
            if fsn not in self._settled and not self._index.is_lost(fsn):
                break
            self.acked = fsn
        if self._settled:
            self._settled = {fsn for fsn in self._settled if fsn > self.acked}
        while len(self._ages) > 1 and self._ages[1][0] <= self.acked + 1:
            self._ages.popleft()

    def oldest_ms(self, now_ms: int) -> int:
        """How long the oldest frame has been waiting; 0 when none is."""
        if self.acked >= self.published or not self._ages:
            return 0
        return max(0, now_ms - self._ages[0][1])
