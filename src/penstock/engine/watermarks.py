"""How far each topic is written and synced.

A shard counts its syncs. A record that is visible when sync n is the newest that began is synced
when a later sync has succeeded, so a head and a number are enough to know it later: appends do no
work for this, and a sync counts to one more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from penstock.engine.handle import Handle
from penstock.storage.wal.shard import Shard

_SAMPLES_MAX: Final = 2  # one for the sync that is under way, and one for the next


@dataclass(frozen=True, slots=True)
class _Sample:
    """The records up to `head` were visible when these syncs were the newest."""

    head: int
    syncs: tuple[tuple[Shard, int], ...]

    @property
    def is_synced(self) -> bool:
        return all([shard.has_synced(number) for shard, number in self.syncs])


class SyncProgress:
    """The synced seq of one topic, guarded by the topic's lock."""

    __slots__ = ("_samples", "synced")

    def __init__(self, synced: int) -> None:
        self.synced = synced
        self._samples: list[_Sample] = []

    def advance(self, head: int, shards: Sequence[Shard]) -> None:
        """Look again. `shards` are those that the records up to `head` are in."""
        samples = self._samples
        while samples and samples[0].is_synced:
            self.synced = samples.pop(0).head
        if head <= self.synced:
            return
        newest = _Sample(head, tuple([(shard, shard.syncs_begun) for shard in shards]))
        if newest.is_synced:
            self.synced = head
            samples.clear()
        elif samples and samples[-1].syncs == newest.syncs:
            samples[-1] = newest
        elif len(samples) < _SAMPLES_MAX:
            samples.append(newest)


class Watermarks:
    """Safe from several threads."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self._shards = shards

    def synced_seq(self, handle: Handle) -> int:
        """The records up to here survive a power cut. It only rises, and may be known a sync later
        than it is true. Records of a RAM-only topic are never synced."""
        with handle.lock:
            return self.synced_under_lock(handle)

    def synced_under_lock(self, handle: Handle) -> int:
        """The same; the topic's lock is held."""
        head, durability = handle.topic.head, handle.topic.config.durability
        progress = handle.sync_progress
        if progress is None:
            progress = handle.sync_progress = SyncProgress(handle.recovered_head)
        if durability == "ephemeral" or handle.has_unwritten:
            return progress.synced
        if durability == "fsync":
            progress.synced = head
        else:
            # Copies refer to the bytes of their source records, which may be in any shard.
            progress.advance(head, self._shards if handle.has_copies else (handle.shard,))
        return progress.synced

    def written_seq(self, handle: Handle) -> int:
        """The records up to here are written to a file, so a kill of the process loses none."""
        with handle.lock:
            if handle.topic.config.durability == "ephemeral" or handle.has_unwritten:
                return self.synced_under_lock(handle)
            return handle.topic.head
