"""What `/v0/metrics` shows: gathered off the loop, written as Prometheus text or JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from penstock.engine.engine import Log
from penstock.engine.handle import Handle
from penstock.engine.stats import LogStats
from penstock.errors import TopicNotFound
from penstock.runtime.governor import Ladder
from penstock.types import QueueCounts

TOPIC_SERIES_MAX: Final = 1000  # names are strangers' text: their number is bounded
CLASSES: Final = ("ephemeral", "memory", "disk", "fsync")


@dataclass(frozen=True, slots=True)
class Pressure:
    """How hard the server is pressed, and what it does about it."""

    ladder: Ladder
    latency_ms: float
    depths: tuple[int, ...]  # topics that wait for their turn, by band from the lowest up
    paused: int
    writes_throttled: int
    deliveries: int


NO_PRESSURE: Final = Pressure(Ladder(), 0.0, (0, 0, 0, 0, 0), 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Gauges:
    """What the event loop knows."""

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


def gather(log: Log, gauges: Gauges, may_name: Callable[[str], bool]) -> Metrics:
    """Takes each topic's lock for a moment; not on the loop. Sums are of everything, names only
    those the caller may know."""
    handles = [log.find(name) for name in log.names()]
    found = [handle for handle in handles if handle is not None]
    classes = dict.fromkeys(CLASSES, 0)
    rows: list[TopicRow] = []
    queues = leases = named = 0
    for handle in found:
        config = handle.topic.config
        classes[config.durability] += 1
        counts = _queue_counts(log, handle)
        if counts is not None:
            queues += 1
            leases += counts.in_flight
        if not may_name(handle.topic.name):
            continue
        named += 1
        if len(rows) < TOPIC_SERIES_MAX:
            with handle.lock:
                topic = handle.topic
                ends = topic.head, topic.earliest
                rows.append(TopicRow(topic.name, *ends, topic.live, topic.bytes, counts))
    is_truncated = named > len(rows)
    return Metrics(gauges, log.stats(), classes, queues, leases, rows, is_truncated)


def _queue_counts(log: Log, handle: Handle) -> QueueCounts | None:
    if handle.topic.config.type != "queue":
        return None
    try:
        return log.queues.counts(handle)
    except TopicNotFound:  # dropped this moment
        return None


def as_json(found: Metrics) -> dict[str, Any]:
    gauges, stats = found.gauges, found.stats
    return {
        "topics": stats.topics,
        **{f"topics_{name}": count for name, count in found.classes.items()},
        "routers": stats.routers,
        "records_live": stats.records_live,
        "bytes_live": stats.bytes_live,
        "queue_topics": found.queues,
        "queue_leases_in_flight": found.leases,
        "connections": gauges.connections,
        "sse_connections": gauges.sse_connections,
        "watch_sessions": gauges.watch_sessions,
        "pressure": {
            "pressure": round(gauges.pressure.ladder.pressure, 4),
            "coalesce_ms": gauges.pressure.ladder.coalesce_ms,
            "commit_window_ms": gauges.pressure.ladder.commit_window_ms,
            "deferring": gauges.pressure.ladder.is_deferring,
            "scheduling_latency_ms": round(gauges.pressure.latency_ms, 3),
            "ready_topics": gauges.pressure.depths,
            "paused_topics": gauges.pressure.paused,
            "writes_throttled": gauges.pressure.writes_throttled,
            "deliveries": gauges.pressure.deliveries,
        },
        "ready": True,
        "replay_progress": gauges.replay_progress,
        "uptime_ms": gauges.uptime_ms,
        "wal": {
            "fsyncs": stats.wal_syncs_total,
            "frames": stats.wal_frames_total,
            "batches": stats.wal_writes_total,
            "bytes_written": stats.wal_frames_bytes_total,
            "rotations": stats.wal_rotations_total,
            "queue_depth": stats.wal_queue_depth,
            "queue_depth_peak": stats.wal_queue_depth_peak,
            "submit_full_total": stats.wal_refused_total,
            "read_only": stats.is_read_only,
            "fsync_count": stats.wal_syncs_total,
            "fsync_micros_total": round(stats.wal_sync_seconds_total * 1e6),
        },
    }


def as_text(found: Metrics) -> bytes:
    """Prometheus text. Names of topics need no escaping: their alphabet has nothing to escape."""
    gauges, stats = found.gauges, found.stats
    page = Page()
    page.gauge("topics", "Topics.", stats.topics)
    page.family("topics_by_class", "gauge", "Topics by durability class.")
    for name, count in found.classes.items():
        page.sample("topics_by_class", count, f'class="{name}"')
    page.gauge("routers", "Routers.", stats.routers)
    page.gauge("router_lag_records", "Not yet copied.", stats.router_lag_records)
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
        ("topic_queue_delayed", "Jobs that were put off.", "delayed"),
        ("topic_queue_dead_lettered_total", "Jobs that went to the dead letters.", "dead_lettered"),
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
    return page.text()


def _pressure(page: Page, found: Pressure) -> None:
    ladder = found.ladder
    page.gauge("pressure", "How hard the server is pressed, 0 to 1.", round(ladder.pressure, 4))
    page.gauge("coalesce_ms", "News are gathered for so long.", ladder.coalesce_ms)
    window_ms = ladder.commit_window_ms or 0
    page.gauge("commit_window_ms", "Commit window, 0: as the disk asks for.", window_ms)
    page.gauge("deferring", "1 while the least important is put off.", ladder.is_deferring)
    page.gauge("scheduling_latency_ms", "Wait of a topic for its turn.", round(found.latency_ms, 3))
    page.family("ready_topics", "gauge", "Topics that wait for their turn, by band.")
    for band, depth in enumerate(found.depths):
        page.sample("ready_topics", depth, f'band="{band}"')
    page.gauge("paused_topics", "Of these, put off.", found.paused)
    page.counter("writes_throttled_total", "Writes refused for pressure.", found.writes_throttled)
    page.counter("deliveries_total", "Turns of topics with news.", found.deliveries)


def _wal(page: Page, stats: LogStats) -> None:
    page.counter("wal_frames_total", "Frames written.", stats.wal_frames_total)
    page.counter("wal_batches_total", "Write calls.", stats.wal_writes_total)
    page.counter("wal_fsyncs_total", "Syncs.", stats.wal_syncs_total)
    page.counter("wal_bytes_written_total", "Bytes written.", stats.wal_frames_bytes_total)
    page.counter("wal_rotations_total", "Files completed.", stats.wal_rotations_total)
    page.gauge("wal_queue_depth", "Submissions waiting.", stats.wal_queue_depth)
    page.gauge("wal_queue_depth_peak", "Most ever waiting.", stats.wal_queue_depth_peak)
    page.counter("wal_submit_full_total", "Refused by a full queue.", stats.wal_refused_total)
    page.gauge("wal_read_only", "1 if closed for writing.", stats.is_read_only)
    page.gauge("wal_unabsorbed_bytes", "WAL not yet in segments.", stats.wal_unabsorbed_bytes)
    page.gauge("disk_loss_window_ms", "Age of the oldest unsynced.", stats.disk_loss_window_ms)
    page.gauge("segments", "Sealed segments.", stats.segments)
    page.gauge("cold_segments", "Segments in the cold tier.", stats.cold_segments)
    page.gauge("cold_bytes", "Their bytes.", stats.cold_bytes)
    page.counter("cold_moved_total", "Segments moved there.", stats.cold_moved_total)
    page.counter("cold_failures_total", "Moves that failed.", stats.cold_failures_total)
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


class Page:
    """A growing Prometheus text."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def family(self, name: str, kind: str, text: str) -> None:
        self._lines.append(f"# HELP penstock_{name} {text}")
        self._lines.append(f"# TYPE penstock_{name} {kind}")

    def sample(self, name: str, value: float, labels: str = "") -> None:
        number = int(value) if value == int(value) else value
        self._lines.append(
            f"penstock_{name}{{{labels}}} {number}" if labels else f"penstock_{name} {number}"
        )

    def gauge(self, name: str, text: str, value: float) -> None:
        self.family(name, "gauge", text)
        self.sample(name, value)

    def counter(self, name: str, text: str, value: float) -> None:
        self.family(name, "counter", text)
        self.sample(name, value)

    def text(self) -> bytes:
        return ("\n".join(self._lines) + "\n").encode()
