"""Counters of one shard. Written by the shard, read by anyone; never reset."""

from __future__ import annotations

from bisect import bisect_left

SYNC_BUCKETS_US = (50, 100, 250, 500, 1000, 5000, 10_000, 50_000, 100_000)


class ShardStats:
    """Plain integers: a reader may see one a moment before another."""

    __slots__ = (
        "bytes_written",
        "commits",
        "frames",
        "queue_peak",
        "refused",
        "rotations",
        "sync_buckets",
        "sync_seconds",
        "syncs",
        "writes",
    )

    def __init__(self) -> None:
        self.commits = 0
        self.frames = 0
        self.queue_peak = 0  # commits that waited when a writer came, at most
        self.writes = 0
        self.bytes_written = 0
        self.syncs = 0
        self.sync_seconds = 0.0
        self.sync_buckets = [0] * (len(SYNC_BUCKETS_US) + 1)
        self.rotations = 0
        self.refused = 0

    def alone(self, frames: int, size: int) -> None:
        """One commit was written by itself."""
        self.queue_peak = self.queue_peak or 1
        self.commits += 1
        self.frames += frames
        self.writes += 1
        self.bytes_written += size

    def drained(self, depth: int) -> None:
        """Record the number of commits that waited for the writer."""
        if depth > self.queue_peak:
            self.queue_peak = depth

    def synced(self, seconds: float) -> None:
        self.syncs += 1
        self.sync_seconds += seconds
        self.sync_buckets[bisect_left(SYNC_BUCKETS_US, seconds * 1e6)] += 1
