"""Counters and gauges of a log, as one value."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, get_args

import msgspec

from penstock.codec import kernel
from penstock.engine.handle import Handle
from penstock.storage.segments.reader import Segment
from penstock.storage.wal.stats import SYNC_BUCKETS_US, ShardStats
from penstock.types import Durability

if TYPE_CHECKING:
    from penstock.engine.opening import LogContext
    from penstock.engine.routers import Routers


class LogStats(msgspec.Struct, frozen=True):
    """Names are those of `/metrics`, without the prefix `penstock_`. A histogram is (upper bound,
    how many fell between it and the one before), in rising order."""

    topics: int
    topics_by_class: dict[str, int]
    records_live: int
    bytes_live: int
    segments: int
    cold_segments: int
    cold_bytes: int
    cold_moved_total: int
    cold_failures_total: int
    routers: int
    router_lag_records: int
    router_copies_derived_total: int
    router_copies_logged_total: int
    wal_frames_total: int
    wal_frames_bytes_total: int
    wal_writes_total: int
    wal_tickets_total: int
    wal_syncs_total: int
    wal_sync_seconds_total: float
    wal_sync_histogram: list[tuple[str, int]]
    wal_rotations_total: int
    wal_refused_total: int
    wal_queue_depth: int
    wal_queue_depth_peak: int
    wal_unabsorbed_bytes: int
    disk_loss_window_ms: float
    torn_tails_cut: int
    damaged: int
    is_read_only: bool
    kernel: str


def stats_of(parts: LogContext, handles: list[Handle], routing: Routers) -> LogStats:
    shards = [shard.stats for shard in parts.shards]
    mover = parts.mover
    cold = [
        span.run
        for handle in handles
        for span in (list(handle.topic.spans) if mover is not None else ())
        if isinstance(span.run, Segment) and span.run.is_cold
    ]
    return LogStats(
        topics=len(handles),
        topics_by_class=_by_class(handles),
        records_live=sum(handle.topic.live for handle in handles),
        bytes_live=sum(handle.topic.bytes for handle in handles),
        segments=sum(span.run.is_sealed for h in handles for span in list(h.topic.spans)),
        cold_segments=len(cold),
        cold_bytes=sum(segment.facts.data_bytes for segment in cold),
        cold_moved_total=0 if mover is None else mover.moved_total,
        cold_failures_total=0 if mover is None else mover.failures_total,
        routers=routing.count,
        router_lag_records=routing.lag_records,
        router_copies_derived_total=routing.forward.derived_total,
        router_copies_logged_total=routing.forward.logged_total,
        wal_frames_total=sum(one.frames for one in shards),
        wal_frames_bytes_total=sum(one.bytes_written for one in shards),
        wal_writes_total=sum(one.writes for one in shards),
        wal_tickets_total=sum(one.commits for one in shards),
        wal_syncs_total=sum(one.syncs for one in shards),
        wal_sync_seconds_total=sum(one.sync_seconds for one in shards),
        wal_sync_histogram=_histogram(shards),
        wal_rotations_total=sum(one.rotations for one in shards),
        wal_refused_total=sum(one.refused for one in shards),
        wal_queue_depth=sum(shard.queue_depth for shard in parts.shards),
        wal_queue_depth_peak=max(one.queue_peak for one in shards),
        wal_unabsorbed_bytes=parts.wal_backlog.unabsorbed_bytes(),
        disk_loss_window_ms=max(shard.loss_window_ms() for shard in parts.shards),
        torn_tails_cut=len(parts.recovered.verdict.torn),
        damaged=len(parts.failure.damage),
        is_read_only=parts.failure.error is not None or parts.failure.is_damaged,
        kernel="compiled" if kernel.COMPILED else "interpreted",
    )


def _by_class(handles: list[Handle]) -> dict[str, int]:
    counted = Counter(handle.topic.config.durability for handle in handles)
    return {name: counted[name] for name in get_args(Durability)}


def _histogram(shards: list[ShardStats]) -> list[tuple[str, int]]:
    bounds = [*map(str, SYNC_BUCKETS_US), "+Inf"]
    counts = (sum(slot) for slot in zip(*(one.sync_buckets for one in shards), strict=True))
    return list(zip(bounds, counts, strict=True))
