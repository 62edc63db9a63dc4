"""Answers of the HTTP API, as declared models: handlers encode them, and the OpenAPI document is
derived from them.

Three answers are formatted as bytes around records that are never parsed, and not built from their
model: `AppendAnswer` in `server/http/writes.py`, `ReadAnswer` in `reads.py` and `AuditAnswer` in
`audit.py`. A test decodes every answer of a server with its model and encodes it again.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from penstock.schema_types import U64, RouterName, Share, TopicName
from penstock.types import Cause, QueueCounts, TopicConfig
from penstock.wire.jobs import JobView

Milliseconds = Annotated[float, Meta(ge=0)]
LossReason = Annotated[str, Meta(extra_json_schema={"enum": [cause.word for cause in Cause]})]
TopicType = Literal["log", "queue"]


class Performance(msgspec.Struct, kw_only=True):
    """What the call cost the server."""

    server_total_ms: Milliseconds


class SyncPerformance(Performance, kw_only=True):
    """`fsync_ms` is present when the call waited for a sync."""

    fsync_ms: Milliseconds | UnsetType = UNSET


class AppendPerformance(Performance, kw_only=True):
    """`throttle_wait_ms` is present when the server delayed the append under pressure."""

    wal_append_ms: Milliseconds
    fsync_ms: Milliseconds
    throttle_wait_ms: Milliseconds | UnsetType = UNSET


class ReadPerformance(Performance, kw_only=True):
    """`records_scanned` counts the records that the filters saw."""

    records_scanned: U64


# Topics.


class TopicPutAnswer(msgspec.Struct, kw_only=True):
    """A topic was created or configured."""

    topic: str
    created: bool
    config: TopicConfig
    epoch: U64
    performance: Performance


class TopicAnswer(msgspec.Struct, kw_only=True):
    """A topic. `queue` counts the jobs of a queue."""

    topic: str
    type: TopicType
    head_seq: U64
    earliest_seq: U64
    next_seq: U64
    count: U64
    bytes: U64
    config: TopicConfig
    effective_priority: int
    epoch: U64
    last_write_ts: U64 | None
    segments: U64
    last_read_ts: U64 | None
    performance: Performance
    queue: QueueCounts | UnsetType = UNSET


class TopicListRow(msgspec.Struct, kw_only=True):
    """One topic of a list. The optional members are present with `config=true`."""

    topic: str
    head_seq: U64
    earliest_seq: U64
    count: U64
    bytes: U64
    durable: bool
    effective_priority: int
    epoch: U64
    config: TopicConfig | UnsetType = UNSET
    segments: U64 | UnsetType = UNSET
    last_write_ts: U64 | UnsetType | None = UNSET


class TopicListAnswer(msgspec.Struct, kw_only=True):
    """A page of topics. `next_cursor` is present when more topics follow."""

    topics: list[TopicListRow]
    next_cursor: str | UnsetType = UNSET
    performance: Performance


class TopicDeletedAnswer(msgspec.Struct, kw_only=True):
    """The topic does not exist any more; `deleted` says whether it existed."""

    topic: str
    deleted: bool
    routers_removed: tuple[str, ...]
    performance: Performance


class RecordsDeletedAnswer(msgspec.Struct, kw_only=True):
    """The number of deleted records, and the topic after the delete."""

    topic: str
    deleted: U64
    earliest_seq: U64
    head_seq: U64
    count: U64
    bytes: U64
    performance: Performance


# Appends and reads.


class AppendRow(msgspec.Struct, kw_only=True):
    """The records that an append wrote to one topic."""

    topic: TopicName
    first_seq: U64
    last_seq: U64
    count: U64
    head_seq: U64
    epoch: U64
    ts: U64
    created: bool
    deduped: bool


class AppendAnswer(AppendRow, kw_only=True):
    """An append. `seqs` is absent with `return_seqs=false`. The records of a delayed append have
    no seqs yet: `first_seq` and `last_seq` are 0, and there is a `delayed_id`."""

    seqs: list[U64] | UnsetType = UNSET
    delayed_id: U64 | UnsetType = UNSET
    performance: AppendPerformance


class BatchAnswer(msgspec.Struct, kw_only=True):
    """An append to several topics, in the order of `writes`."""

    results: list[AppendRow]
    performance: Performance


class RecordView(msgspec.Struct, kw_only=True):
    """A record. `data` is absent only with `include_data: false`."""

    seq: U64 = msgspec.field(name="$seq")
    ts: U64 = msgspec.field(name="$ts")
    node: str | UnsetType = msgspec.field(name="$node", default=UNSET)
    tag: str | UnsetType = msgspec.field(name="$tag", default=UNSET)
    data: Any = UNSET
    meta: Any = UNSET


class GapView(msgspec.Struct, kw_only=True):
    """Seqs `gap_from` to `gap_to` are lost, and no caller deleted them."""

    gap_from: U64
    gap_to: U64
    reason: LossReason
    missed_estimate: U64
    earliest_seq: U64
    head_seq: U64


class ReadAnswer(msgspec.Struct, kw_only=True):
    """A page of records. `next_from_seq` is the `from_seq` of the next page."""

    records: list[RecordView]
    topic: str
    next_from_seq: U64
    head_seq: U64
    earliest_seq: U64
    caught_up: bool
    tombstone: GapView | None
    lag: U64
    epoch: U64
    performance: ReadPerformance


# Queues.


class ClaimAnswer(msgspec.Struct, kw_only=True):
    """The claimed jobs, each with its lease."""

    topic: str
    claimed: list[JobView]
    count: U64
    ready: U64
    performance: Performance


class AckAnswer(msgspec.Struct, kw_only=True):
    """`skipped` are the jobs that the node does not hold."""

    topic: str
    acked: U64
    skipped: list[U64]
    ready: U64
    in_flight: U64
    performance: SyncPerformance


class NackAnswer(msgspec.Struct, kw_only=True):
    """`skipped` are the jobs that the node does not hold."""

    topic: str
    nacked: U64
    skipped: list[U64]
    ready: U64
    in_flight: U64
    performance: SyncPerformance


class ExtendAnswer(msgspec.Struct, kw_only=True):
    """The new deadline of each extended job, by its seq."""

    topic: str
    extended: U64
    skipped: list[U64]
    deadlines: dict[str, U64]
    performance: Performance


class RedriveAnswer(msgspec.Struct, kw_only=True):
    """How many dead letters were moved, and why others were not, by their seq."""

    topic: str
    moved: U64
    failed: dict[str, str]
    next_seq: U64
    done: bool
    dry_run: bool
    performance: Performance


class ScheduleRow(msgspec.Struct, kw_only=True):
    """A recurring job."""

    seq: U64 = msgspec.field(name="$seq")
    cron: str
    timezone: str
    due: U64


class ScheduleListAnswer(msgspec.Struct, kw_only=True):
    """The recurring jobs of a queue."""

    topic: str
    schedules: list[ScheduleRow]
    performance: Performance


# Delayed records.


class DelayedRow(msgspec.Struct, kw_only=True):
    """The records of one append whose time has not come. `size` is the bytes of their data and
    metadata."""

    id: U64
    deliver_at: U64
    count: U64
    size: U64


class DelayedListAnswer(msgspec.Struct, kw_only=True):
    """A page of delayed batches. `next_after` is present when more of them follow."""

    topic: str
    delayed: list[DelayedRow]
    next_after: U64 | UnsetType = UNSET
    performance: Performance


class DelayedCancelledAnswer(msgspec.Struct, kw_only=True):
    """The batch is not delayed any more, and never becomes visible."""

    topic: str
    delayed_id: U64
    deleted: Annotated[bool, Meta(extra_json_schema={"const": True})]
    performance: Performance


# Consumer positions.


class PositionRow(msgspec.Struct, kw_only=True):
    """A consumer's position, and how far the consumer is behind."""

    name: TopicName
    seq: U64
    epoch: U64
    ts: U64
    lag_records: U64
    lag_ms: U64


class PositionAnswer(PositionRow, kw_only=True):
    """A consumer's position in a topic."""

    topic: str
    head_seq: U64
    performance: Performance


class PositionListAnswer(msgspec.Struct, kw_only=True):
    """The positions of a topic, by name."""

    topic: str
    positions: list[PositionRow]
    head_seq: U64
    performance: Performance


class PositionDeletedAnswer(msgspec.Struct, kw_only=True):
    """The position does not exist any more; `deleted` says whether it existed."""

    topic: str
    name: str
    deleted: bool
    performance: Performance


# Routers.


class RouterSettings(msgspec.Struct, kw_only=True):
    """A router's name, topics and rules."""

    router: RouterName
    source: TopicName
    dest: TopicName
    preserve_node: bool
    preserve_tag: bool
    filter: tuple[str, str, str] | None
    allow_cycle: bool
    guarantee: Literal["at_least_once", "exactly_once"]


class RouterPutAnswer(RouterSettings, kw_only=True):
    """A router was created or changed."""

    created: bool
    performance: Performance


class RouterRow(RouterSettings, kw_only=True):
    """A router and its progress. `stopped` is the reason when it has stopped."""

    forwarded_total: U64
    cursor: U64
    lag_records: U64
    stopped: str | None


class RouterAnswer(RouterRow, kw_only=True):
    """A router and its progress."""

    performance: Performance


class RouterListAnswer(msgspec.Struct, kw_only=True):
    """A page of routers. `next_cursor` is present when more routers follow."""

    routers: list[RouterRow]
    next_cursor: str | UnsetType = UNSET
    performance: Performance


class RouterDeletedAnswer(msgspec.Struct, kw_only=True):
    """The router does not exist any more; `deleted` says whether it existed."""

    router: str
    deleted: bool
    performance: Performance


# Watch sessions.


class StartView(msgspec.Struct, kw_only=True):
    """Where the stream of a topic starts."""

    from_seq: U64
    head_seq: U64
    earliest_seq: U64
    epoch: U64


class WatchAnswer(msgspec.Struct, kw_only=True):
    """A watch session. Its events are at `stream_url`."""

    wid: Annotated[str, Meta(extra_json_schema={"pattern": "^wid_[A-Za-z0-9_-]{22}$"})]
    stream_url: str
    session_ttl_ms: U64
    topics: dict[str, StartView]
    performance: Performance


class TicketAnswer(msgspec.Struct, kw_only=True):
    """A ticket for `?ticket=` of a stream."""

    ticket: str
    expires_in_ms: U64
    performance: Performance


# Operations.


class AuditAct(msgspec.Struct, kw_only=True):
    """One act: what was done to which name, by which key, from where, with which status."""

    act: str
    name: str
    key: str | None
    peer: str
    status: int
    asked: str | UnsetType = UNSET


class AuditRow(msgspec.Struct, kw_only=True):
    """A record of the audit."""

    seq: U64 = msgspec.field(name="$seq")
    ts: U64 = msgspec.field(name="$ts")
    data: AuditAct


class AuditAnswer(msgspec.Struct, kw_only=True):
    """A page of the audit, oldest first."""

    records: list[AuditRow]
    next_from_seq: U64
    head_seq: U64
    caught_up: bool
    performance: Performance


class HealthAnswer(msgspec.Struct, kw_only=True):
    """`failed` means that a disk error has closed the log for writing."""

    status: Literal["ok", "failed"]
    version: str
    uptime_ms: U64


class ReadyAnswer(msgspec.Struct, kw_only=True):
    """Recovery is complete."""

    status: Literal["ready"]
    wal_replay_complete: Annotated[bool, Meta(extra_json_schema={"const": True})]
    topics: U64


class PressureMetrics(msgspec.Struct, kw_only=True):
    """The load of the server, and what the server does about it."""

    pressure: Share
    coalesce_ms: Milliseconds
    commit_window_ms: Milliseconds | None
    deferring: bool
    scheduling_latency_ms: Milliseconds
    ready_topics: list[U64]
    paused_topics: U64
    writes_throttled: U64
    deliveries: U64


class WalMetrics(msgspec.Struct, kw_only=True):
    """Counters of the write-ahead log since the start."""

    fsyncs: U64
    frames: U64
    batches: U64
    bytes_written: U64
    rotations: U64
    queue_depth: U64
    queue_depth_peak: U64
    submit_full_total: U64
    read_only: bool
    fsync_count: U64
    fsync_micros_total: U64


class MetricsAnswer(msgspec.Struct, kw_only=True):
    """The metrics as JSON. The Prometheus text has more of them."""

    topics: U64
    topics_ephemeral: U64
    topics_memory: U64
    topics_disk: U64
    topics_fsync: U64
    routers: U64
    records_live: U64
    bytes_live: U64
    queue_topics: U64
    queue_leases_in_flight: U64
    connections: U64
    sse_connections: U64
    watch_sessions: U64
    pressure: PressureMetrics
    ready: bool
    replay_progress: Share
    uptime_ms: U64
    wal: WalMetrics


# Errors.


class ErrorDetail(msgspec.Struct, kw_only=True):
    """Every member that the `detail` of an error can have. The code decides which are present."""

    topic: str | UnsetType = UNSET
    table: str | UnsetType = UNSET
    router: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    delayed_id: U64 | UnsetType = UNSET
    seqs: U64 | UnsetType = UNSET
    max: U64 | UnsetType = UNSET
    limit: str | UnsetType = UNSET
    count: U64 | UnsetType = UNSET
    expected_seq: U64 | UnsetType = UNSET
    head_seq: U64 | UnsetType = UNSET
    earliest_seq: U64 | UnsetType = UNSET
    cap_records: U64 | UnsetType = UNSET
    cap_bytes: U64 | UnsetType = UNSET
    expected_epoch: Annotated[int, Meta(ge=0)] | UnsetType = UNSET
    epoch: U64 | UnsetType = UNSET
    existing_type: TopicType | UnsetType = UNSET
    requested_type: TopicType | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    cycle: list[str] | UnsetType = UNSET
    changes: list[dict[str, Any]] | UnsetType = UNSET
    path: str | UnsetType = UNSET
    event: str | UnsetType = UNSET
    feature: str | UnsetType = UNSET
    field: str | UnsetType = UNSET
    value: bool | int | float | str | UnsetType = UNSET
    index: Annotated[int, Meta(ge=0)] | UnsetType = UNSET
    replay_progress: Share | UnsetType = UNSET
