"""When a group commit closes. Pure: numbers in, a decision out.

A sync costs the same for one record and for a thousand, so under load it pays to wait briefly for
the writers that the last sync has just released: they are about to write again. A lone writer never
waits.
"""

from __future__ import annotations

from penstock import limits


class CommitWindow:
    """Statistics of the last groups of one shard. Used by the thread that holds the sync lock."""

    __slots__ = ("_sync_s", "expected", "widened_s")

    def __init__(self) -> None:
        self.expected = 1
        self._sync_s = 0.0
        self.widened_s: float | None = None  # under pressure: however fast the disk is

    def wait_s(self, waiting: int, waited_s: float) -> float:
        """How much longer to wait with `waiting` submissions queued; 0 to commit now."""
        if waiting >= self.expected:
            return 0.0
        if self.widened_s is not None:
            return max(0.0, self.widened_s - waited_s)
        if self._sync_s < limits.COMMIT_WINDOW_MIN_S:
            return 0.0  # a disk this fast: the next group gathers by itself during the sync
        window_s = min(max(self._sync_s / 2, limits.COMMIT_WINDOW_MIN_S), self.ceiling_s)
        return max(0.0, window_s - waited_s)

    @property
    def ceiling_s(self) -> float:
        return limits.COMMIT_WINDOW_MAX_S

    def committed(self, group: int, waiting_after: int, sync_s: float) -> None:
        """A group was synced in `sync_s`; `waiting_after` submissions arrived meanwhile."""
        writers = group + waiting_after
        # Follow growth at once and decay slowly: one short group must not end the batching.
        self.expected = max(writers, (self.expected * 3 + writers) // 4)
        self._sync_s = sync_s if self._sync_s == 0 else self._sync_s * 0.8 + sync_s * 0.2
