"""Counters and gauges of a log, as one value."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from penstock.codec import kernel
from penstock.engine.handle import Handle

if TYPE_CHECKING:
    from penstock.engine.opening import Parts


class LogStats(msgspec.Struct, frozen=True):
    """Names are what `/metrics` will show, without the `penstock_` prefix."""

    topics: int
    records_live: int
    bytes_live: int
    segments: int
    wal_frames_bytes_total: int
    wal_writes_total: int
    wal_tickets_total: int
    wal_syncs_total: int
    wal_sync_seconds_total: float
    wal_rotations_total: int
    wal_refused_total: int
    wal_unabsorbed_bytes: int
    disk_loss_window_ms: float
    torn_tails_cut: int
    damaged: int
    is_read_only: bool
    kernel: str


def stats_of(parts: Parts, handles: list[Handle]) -> LogStats:
    shards = [shard.stats for shard in parts.shards]
    return LogStats(
        topics=len(handles),
        records_live=sum(handle.topic.live for handle in handles),
        bytes_live=sum(handle.topic.bytes for handle in handles),
        segments=sum(span.run.is_sealed for h in handles for span in list(h.topic.spans)),
        wal_frames_bytes_total=sum(one.bytes_written for one in shards),
        wal_writes_total=sum(one.writes for one in shards),
        wal_tickets_total=sum(one.tickets for one in shards),
        wal_syncs_total=sum(one.syncs for one in shards),
        wal_sync_seconds_total=sum(one.sync_seconds for one in shards),
        wal_rotations_total=sum(one.rotations for one in shards),
        wal_refused_total=sum(one.refused for one in shards),
        wal_unabsorbed_bytes=parts.unabsorbed_bytes(),
        disk_loss_window_ms=max(shard.loss_window_ms() for shard in parts.shards),
        torn_tails_cut=len(parts.recovered.verdict.torn),
        damaged=len(parts.damage),
        is_read_only=parts.failed is not None or parts.is_damaged,
        kernel="compiled" if kernel.COMPILED else "interpreted",
    )
