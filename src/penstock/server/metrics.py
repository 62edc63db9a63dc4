"""`/v0/metrics`: collected on a thread, written as Prometheus text or JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from penstock.engine.core import LogCore
from penstock.engine.handle import Handle
from penstock.engine.stats import LogStats
from penstock.errors import TopicNotFound
from penstock.runtime.governor import Ladder
from penstock.server import projection_metrics
from penstock.server.metrics_text import MetricsText
from penstock.server.projection_metrics import ProjectionRows
from penstock.types import QueueCounts
from penstock.wire.answers import MetricsAnswer, PressureMetrics, WalMetrics

TOPIC_SERIES_MAX: Final = 1000  # names are strangers' text: their number is bounded
CLASSES: Final = ("ephemeral", "memory", "disk", "fsync")


@dataclass(frozen=True, slots=True)
class Pressure:
    """The pressure on the server, and its measures against it."""

    ladder: Ladder
    latency_ms: float
    depths: tuple[int, ...]  # topics that wait for their turn, by band from the lowest up
    paused: int
    writes_throttled: int
    deliveries: int


NO_PRESSURE: Final = Pressure(Ladder(), 0.0, (0, 0, 0, 0, 0), 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Gauges:
    """The gauges of the event loop."""

    connections: int
    connections_refused: int
    sse_connections: int
    watch_sessions: int
    uptime_ms: int
    replay_progress: float
    pressure: Pressure = NO_PRESSURE


@dataclass(frozen=True, slots=True)
class TopicRow:
    name: str
    head_seq: int
    earliest_seq: int
    live: int
    size: int
    queue: QueueCounts | None = None


@dataclass(frozen=True, slots=True)
class Metrics:
    """Everything at one moment."""

    gauges: Gauges
    stats: LogStats
    classes: dict[str, int]
    queues: int
    leases: int
    topics: list[TopicRow]
    is_truncated: bool
    projections: ProjectionRows


def gather(core: LogCore, gauges: Gauges, may_name: Callable[[str], bool]) -> Metrics:
    """Takes each topic's lock briefly; not for the event loop. Sums include all topics; names only
    those that the caller may see."""
    classes = dict.fromkeys(CLASSES, 0)
    rows: list[TopicRow] = []
    queues = leases = named = 0
    for handle in core.catalogue.all():
        config = handle.config
        classes[config.durability] += 1
        counts = _queue_counts(core, handle)
        if counts is not None:
            queues += 1
            leases += counts.in_flight
        if not may_name(handle.name):
            continue
        named += 1
        if len(rows) < TOPIC_SERIES_MAX:
            rows.append(TopicRow(handle.name, *handle.extent(), counts))
    is_truncated = named > len(rows)
    projections = projection_metrics.gather(core, may_name)
    return Metrics(gauges, core.stats(), classes, queues, leases, rows, is_truncated, projections)


def _queue_counts(core: LogCore, handle: Handle) -> QueueCounts | None:
    if handle.config.type != "queue":
        return None
    try:
        return core.queues.counts(handle)
    except TopicNotFound:  # dropped this moment
        return None


def as_json(found: Metrics) -> MetricsAnswer:
    gauges, stats, pressure = found.gauges, found.stats, found.gauges.pressure
    return MetricsAnswer(
        topics=stats.topics,
        **{f"topics_{name}": count for name, count in found.classes.items()},
        routers=stats.routers,
        records_live=stats.records_live,
        bytes_live=stats.bytes_live,
        queue_topics=found.queues,
        queue_leases_in_flight=found.leases,
        connections=gauges.connections,
        sse_connections=gauges.sse_connections,
        watch_sessions=gauges.watch_sessions,
        pressure=PressureMetrics(
            pressure=round(pressure.ladder.pressure, 4),
            coalesce_ms=pressure.ladder.coalesce_ms,
            commit_window_ms=pressure.ladder.commit_window_ms,
            deferring=pressure.ladder.is_deferring,
            scheduling_latency_ms=round(pressure.latency_ms, 3),
            ready_topics=list(pressure.depths),
            paused_topics=pressure.paused,
            writes_throttled=pressure.writes_throttled,
            deliveries=pressure.deliveries,
        ),
        ready=True,
        replay_progress=gauges.replay_progress,
        uptime_ms=gauges.uptime_ms,
        wal=WalMetrics(
            fsyncs=stats.wal_syncs_total,
            frames=stats.wal_frames_total,
            batches=stats.wal_writes_total,
            bytes_written=stats.wal_frames_bytes_total,
            rotations=stats.wal_rotations_total,
            queue_depth=stats.wal_queue_depth,
            queue_depth_peak=stats.wal_queue_depth_peak,
            submit_full_total=stats.wal_refused_total,
            read_only=stats.is_read_only,
            fsync_count=stats.wal_syncs_total,
            fsync_micros_total=round(stats.wal_sync_seconds_total * 1e6),
        ),
    )


def as_text(found: Metrics) -> bytes:
    """Prometheus text. Names of topics need no escaping: their alphabet has nothing to escape."""
    gauges, stats = found.gauges, found.stats
    page = MetricsText()
    page.gauge("topics", "Topics.", stats.topics)
    page.family("topics_by_class", "gauge", "Topics by durability class.")
    for name, count in found.classes.items():
        page.sample("topics_by_class", count, f'class="{name}"')
    page.gauge("routers", "Routers.", stats.routers)
    page.gauge("router_lag_records", "Source seqs not examined yet.", stats.router_lag_records)
    derived, logged = stats.router_copies_derived_total, stats.router_copies_logged_total
    page.family("router_copies_total", "counter", "Copies made, by how they are logged.")
    page.sample("router_copies_total", derived, 'logged="as_reference"')
    page.sample("router_copies_total", logged, 'logged="with_bytes"')
    page.gauge("records_live", "Live records.", stats.records_live)
    page.gauge("bytes_live", "Bytes of live payloads.", stats.bytes_live)
    for series, text, field in (
        ("topic_head_seq", "Newest seq.", "head_seq"),
        ("topic_earliest_seq", "First live seq.", "earliest_seq"),
        ("topic_records_live", "Live records of a topic.", "live"),
        ("topic_bytes_live", "Live payload bytes of a topic.", "size"),
    ):
        page.family(series, "gauge", text)
        for row in found.topics:
            page.sample(series, getattr(row, field), f'topic="{row.name}"')
    page.gauge("topic_metrics_truncated", "1 if some topics are left out.", found.is_truncated)
    page.gauge("queue_topics", "Topics that are queues.", found.queues)
    page.gauge("queue_leases_in_flight", "Leases in flight.", found.leases)
    for series, text, field in (
        ("topic_queue_ready", "Jobs that are ready.", "ready"),
        ("topic_queue_in_flight", "Jobs that are leased.", "in_flight"),
        ("topic_queue_delayed", "Jobs that are delayed.", "delayed"),
        ("topic_queue_dead_lettered_total", "Jobs moved to the dead letters.", "dead_lettered"),
    ):
        page.family(series, "counter" if series.endswith("total") else "gauge", text)
        for row in found.topics:
            if row.queue is not None:
                page.sample(series, getattr(row.queue, field), f'topic="{row.name}"')
    page.gauge("connections", "Open connections.", gauges.connections)
    page.counter("connections_refused_total", "Refused.", gauges.connections_refused)
    page.gauge("sse_connections", "Open event streams and WebSockets.", gauges.sse_connections)
    page.gauge("watch_sessions", "Watch sessions.", gauges.watch_sessions)
    page.gauge("ready", "1 once recovery is over.", 1)
    page.gauge("recovery_progress", "Recovery, 0 to 1.", gauges.replay_progress)
    page.gauge("uptime_ms", "Milliseconds since the start.", gauges.uptime_ms)
    _pressure(page, gauges.pressure)
    _wal(page, stats)
    projection_metrics.write(page, found.projections)
    return page.text()


def _pressure(page: MetricsText, found: Pressure) -> None:
    ladder = found.ladder
    page.gauge("pressure", "Pressure on the server, 0 to 1.", round(ladder.pressure, 4))
    page.gauge("coalesce_ms", "Delay to coalesce deliveries.", ladder.coalesce_ms)
    window_ms = ladder.commit_window_ms or 0
    page.gauge("commit_window_ms", "Commit window; 0: set by each shard.", window_ms)
    page.gauge("deferring", "1 while low priority is deferred.", ladder.is_deferring)
    page.gauge("scheduling_latency_ms", "Wait of a topic for its turn.", round(found.latency_ms, 3))
    page.family("ready_topics", "gauge", "Topics that wait for their turn, by band.")
    for band, depth in enumerate(found.depths):
        page.sample("ready_topics", depth, f'band="{band}"')
    page.gauge("paused_topics", "Of these, deferred topics.", found.paused)
    page.counter("writes_throttled_total", "Writes refused under load.", found.writes_throttled)
    page.counter("deliveries_total", "Deliveries of topics to watchers.", found.deliveries)


def _wal(page: MetricsText, stats: LogStats) -> None:
    page.counter("wal_frames_total", "Frames written.", stats.wal_frames_total)
    page.counter("wal_batches_total", "Write calls.", stats.wal_writes_total)
    page.counter("wal_fsyncs_total", "Syncs.", stats.wal_syncs_total)
    page.counter("wal_bytes_written_total", "Bytes written.", stats.wal_frames_bytes_total)
    page.counter("wal_rotations_total", "Files completed.", stats.wal_rotations_total)
    page.gauge("wal_queue_depth", "Submissions waiting.", stats.wal_queue_depth)
    page.gauge(
        "wal_queue_depth_peak", "Maximum of waiting submissions.", stats.wal_queue_depth_peak
    )
    page.counter("wal_submit_full_total", "Refused by a full queue.", stats.wal_refused_total)
    page.gauge("wal_read_only", "1 if closed for writing.", stats.is_read_only)
    page.gauge("wal_unabsorbed_bytes", "WAL bytes not in segments yet.", stats.wal_unabsorbed_bytes)
    page.gauge(
        "disk_loss_window_ms", "Age of the oldest unsynced write.", stats.disk_loss_window_ms
    )
    page.gauge("segments", "Sealed segments.", stats.segments)
    page.gauge("cold_segments", "Segments in the cold tier.", stats.cold_segments)
    page.gauge("cold_bytes", "Their bytes.", stats.cold_bytes)
    page.counter("cold_moved_total", "Segments moved to the cold tier.", stats.cold_moved_total)
    page.counter(
        "cold_failures_total", "Failed passes of the cold mover.", stats.cold_failures_total
    )
    page.counter("torn_tails_cut_total", "Torn tails cut at start.", stats.torn_tails_cut)
    page.gauge("damaged", "Known damaged places.", stats.damaged)
    name = "wal_fsync_latency_us"
    page.family(name, "histogram", "Sync latency in microseconds.")
    total = 0
    for bound, count in stats.wal_sync_histogram:
        total += count
        page.sample(f"{name}_bucket", total, f'le="{bound}"')
    page.sample(f"{name}_sum", round(stats.wal_sync_seconds_total * 1e6))
    page.sample(f"{name}_count", total)
