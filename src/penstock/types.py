"""The values that travel between the parts: records, pages, configuration, entries.

Everything here is immutable and knows nothing of files, threads or time.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

Durability = Literal["ephemeral", "memory", "disk", "fsync"]


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """One record. On append only data, tag, node and meta count; seq and ts are assigned."""

    data: Any = None
    tag: str | None = None
    node: str | None = None
    meta: Any = None
    seq: int = 0
    ts: int = 0


class QueueRules(msgspec.Struct, frozen=True, kw_only=True):
    """What a queue may be told besides. Left out of a configuration that has none."""

    group_by: Literal["tag"] | None = None  # one job of a group at a time, in their order
    retry_base_ms: int = 0  # of a nack that names no delay: doubling with each delivery
    retry_cap_ms: int = 300_000
    retry_jitter: float = 0.5  # the share of a delay that is left to chance


class TopicConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What a topic was told to be. 0 switches a limit off."""

    type: Literal["log", "queue"] = "log"
    ttl_ms: int = 0
    cap_records: int = 0
    cap_bytes: int = 0
    discard: Literal["old", "reject"] = "old"
    durable: bool = False
    durability: Durability = "disk"
    priority: int | None = None
    auto_priority: bool = True
    auto_create: bool = True
    idempotency_window_ms: int = 120_000
    dedupe_node: bool = True
    lease_ms: int = 30_000
    claim_jitter_ms: int = 0
    max_deliveries: int = 0
    dead_letter: str | None = None
    leases_durable: bool = False
    queue: QueueRules | msgspec.UnsetType = msgspec.UNSET

    @property
    def rules(self) -> QueueRules:
        return _NO_RULES if isinstance(self.queue, msgspec.UnsetType) else self.queue


_NO_RULES = QueueRules()


class Cause(enum.IntEnum):
    """Why seqs are missing. The numbers are on disk (Loss frames): never renumber."""

    CAP = 1
    TTL = 2
    MIXED = 3
    RECREATED = 4
    LOST = 5  # did not survive a restart, as the topic's class allows
    DAMAGE = 6
    SOURCE_TRIM = 7  # a router's source had let go of them before they were copied

    @property
    def word(self) -> str:
        return self.name.lower()


class Gap(msgspec.Struct, frozen=True):
    """A tombstone: seqs first..last were lost without anyone asking for it."""

    first: int
    last: int
    reason: str
    missed_estimate: int
    earliest_seq: int
    head_seq: int


class Appended(msgspec.Struct, frozen=True):
    """What an append answers, once its durability class is met."""

    topic: str
    first_seq: int
    last_seq: int
    count: int
    head_seq: int
    epoch: int
    ts: int
    created: bool = False
    deduped: bool = False
    wal_append_ms: float = 0.0
    fsync_ms: float = 0.0
    throttle_wait_ms: float = 0.0  # of its time, what the server took under pressure


class Page(msgspec.Struct, frozen=True):
    """One read. Pass `next_seq` as the next `after`: it is the last seq that was looked at."""

    records: list[Record]
    gap: Gap | None
    next_seq: int
    head_seq: int
    earliest_seq: int
    caught_up: bool
    epoch: int


class JsonPage(msgspec.Struct, frozen=True):
    """The same with the records as one JSON array, copied from the log and never parsed."""

    records: bytes
    count: int
    gap: Gap | None
    next_seq: int
    head_seq: int
    earliest_seq: int
    caught_up: bool
    epoch: int


class FramesPage(msgspec.Struct, frozen=True):
    """The same with the records as their frames, back to back, checksums and all."""

    frames: bytes
    count: int
    gap: Gap | None
    next_seq: int
    head_seq: int
    earliest_seq: int
    caught_up: bool
    epoch: int


class Removed(msgspec.Struct, frozen=True):
    """What a delete answers."""

    deleted: int
    earliest_seq: int
    head_seq: int
    count: int
    bytes: int


class TopicInfo(msgspec.Struct, frozen=True):
    """One topic as of now."""

    name: str
    id: int
    epoch: int
    config: TopicConfig
    head_seq: int
    earliest_seq: int
    next_seq: int
    count: int
    bytes: int
    segments: int
    last_write_ts: int | None


class Position(msgspec.Struct, frozen=True):
    """How far a consumer of a topic has come, and what is still ahead of it."""

    name: str
    seq: int
    epoch: int
    ts: int
    lag_records: int
    lag_ms: int
    head_seq: int


class Job(msgspec.Struct, frozen=True, gc=False):
    """A job in the hands of a worker until `deadline` (ms since 1970)."""

    seq: int
    lease_id: str
    deadline: int
    ts: int
    deliveries: int  # this one included
    data: Any = None
    tag: str | None = None
    meta: Any = None

    @staticmethod
    def named(jobs: Sequence[int | Job], lease_ids: Sequence[str]) -> tuple[list[int], list[str]]:
        """Seqs and lease ids of jobs, or of seqs with their ids beside them or none."""
        if not lease_ids and set(map(type, jobs)) == {Job}:
            return [one.seq for one in jobs], [one.lease_id for one in jobs]  # type: ignore[union-attr]
        seqs = [one.seq if isinstance(one, Job) else one for one in jobs]
        if lease_ids:
            return seqs, list(lease_ids)
        ids = [one.lease_id if isinstance(one, Job) else "" for one in jobs]
        return seqs, ids if any(ids) else []


class Claimed(msgspec.Struct, frozen=True):
    """What a claim answers. Fewer jobs than asked for, or none, is no error."""

    topic: str
    jobs: list[Job]
    ready: int


class Redriven(msgspec.Struct, frozen=True):
    """What a redrive moved, or would move; why others stayed, by seq; and how far it has looked:
    pass `next_seq` as the next `after` until `is_done`."""

    topic: str
    moved: int
    failed: dict[int, str]
    next_seq: int
    is_done: bool


class QueueCounts(msgspec.Struct, frozen=True):
    """The jobs of a queue. Delayed ones were put off; dead-lettered counts all there ever were."""

    ready: int
    in_flight: int
    delayed: int
    dead_lettered: int


class Schedule(msgspec.Struct, frozen=True):
    """A recurring job: when it is due by its cron text, and when it will be next, or was and
    waits for a worker (ms since 1970)."""

    seq: int
    cron: str
    timezone: str
    due: int


class Settled(msgspec.Struct, frozen=True):
    """What ack, nack and extend answer. Skipped are jobs that the caller does not hold (any
    more), in the order of the request."""

    topic: str
    done: int
    skipped: list[int]
    ready: int
    in_flight: int
    deadlines: dict[int, int] = {}  # of an extend
    fsync_ms: float = 0.0


class RouterRules(msgspec.Struct, frozen=True):
    """What a router was told to do with the records of its source."""

    preserve_node: bool = True
    preserve_tag: bool = True
    allow_cycle: bool = False
    exactly_once: bool = False
    match: TagMatch | None = None  # of records to take; untagged ones never match

    @property
    def filter(self) -> tuple[str, str, str] | None:
        """The match as callers write it."""
        if self.match is None:
            return None
        value = self.match.value.decode()
        return ("tag", "Glob", f"{value}*") if self.match.is_prefix else ("tag", "Eq", value)

    @property
    def bits(self) -> int:
        """As they are logged, but for the match."""
        return (
            self.preserve_node
            | self.preserve_tag << 1
            | self.allow_cycle << 2
            | self.exactly_once << 3
        )

    @staticmethod
    def of(bits: int, match: TagMatch | None = None) -> RouterRules:
        return RouterRules(bool(bits & 1), bool(bits & 2), bool(bits & 4), bool(bits & 8), match)


class RouterInfo(msgspec.Struct, frozen=True):
    """One router as of now. `cursor` is the seq of its source that it has come to."""

    name: str
    source: str
    dest: str
    preserve_node: bool
    preserve_tag: bool
    filter: tuple[str, str, str] | None
    allow_cycle: bool
    exactly_once: bool
    cursor: int
    forwarded_total: int
    lag_records: int
    created: bool = False
    stopped: str = ""  # why it does not go on, if it does not


class CaughtUp(msgspec.Struct, frozen=True):
    """A watch has delivered everything up to `head_seq` and now waits for more."""

    head_seq: int


class Dropped(msgspec.Struct, frozen=True):
    """A topic of a watch is no more. Nothing further comes from it."""


class LossRange(msgspec.Struct, frozen=True, array_like=True, order=True):
    """Seqs first..last in the middle of a topic that are gone involuntarily. The lower four bits
    of `cause` are the cause, those above count how often a router passed on the word of it."""

    first: int
    last: int
    cause: int

    @property
    def why(self) -> Cause:
        return Cause(self.cause & 15)

    @property
    def hops(self) -> int:
        return self.cause >> 4


class TagMatch(msgspec.Struct, frozen=True):
    """Which tags a delete or a read takes. A prefix is literal: no other wildcard exists."""

    value: bytes
    is_prefix: bool


# Entries: every change to the state of the topics is one of these, live and on replay.


@dataclass(frozen=True, slots=True)
class TopicCreated:
    topic_id: int
    name: str
    config: TopicConfig
    ts: int


@dataclass(frozen=True, slots=True)
class TopicConfigured:
    topic_id: int
    name: str
    config: TopicConfig


@dataclass(frozen=True, slots=True)
class TopicDropped:
    topic_id: int
    name: str


class RecordsAppended(msgspec.Struct, frozen=True):
    """Consecutive seqs of one topic; `frames` are their WAL bytes, `offsets` where each starts.

    Made once per append, so a Struct: it costs a tenth of a frozen dataclass.
    """

    topic_id: int
    first_seq: int
    count: int
    first_ts: int
    last_ts: int
    payload_bytes: int
    frames: bytes | memoryview
    offsets: bytes
    key: bytes = b""


@dataclass(frozen=True, slots=True)
class RecordsDeleted:
    """A permanent delete as an operation. Nothing above `bound_seq` is ever touched by it."""

    topic_id: int
    before_seq: int | None
    match: TagMatch | None
    seqs: tuple[int, ...]
    bound_seq: int


@dataclass(frozen=True, slots=True)
class FloorMoved:
    topic_id: int
    evict: int
    earliest: int
    expiry: int


@dataclass(frozen=True, slots=True)
class SeqsReserved:
    topic_id: int
    ceiling: int


@dataclass(frozen=True, slots=True)
class SeqsLost:
    topic_id: int
    first: int
    last: int
    cause: Cause


@dataclass(frozen=True, slots=True)
class PositionMoved:
    """A consumer says how far it has come, or that it is no more."""

    topic_id: int
    name: str
    seq: int
    ts: int
    is_removed: bool = False


@dataclass(frozen=True, slots=True)
class BatchStarted:
    """The next `count` appended records of the topic belong together, all or none."""

    topic_id: int
    first_seq: int
    count: int
    key: bytes
    ts: int
    router: str = ""  # that copied them, and is thereby past `cursor` of its source
    cursor: int = 0


@dataclass(frozen=True, slots=True)
class DurableMarked:
    """Everything up to (file index, offset) of this shard is past a successful sync."""

    file_index: int
    offset: int


@dataclass(frozen=True, slots=True)
class Scarred:
    """Unreadable bytes stood here and were taken out by `repair`; the frame fills their place."""

    bytes_lost: int


@dataclass(frozen=True, slots=True)
class Checkpointed:
    snapshot_id: int


@dataclass(frozen=True, slots=True)
class RouterCreated:
    name: str
    source: str
    dest: str
    options: int
    match: TagMatch | None
    cursor: int
    dest_base: int
    topic_id: int = 0  # of the destination, where the router is kept
    source_id: int = 0


@dataclass(frozen=True, slots=True)
class RouterDropped:
    name: str
    topic_id: int = 0


@dataclass(frozen=True, slots=True)
class RecordsRouted:
    """A router has come to `cursor`: `lost` seqs of its destination stand for records that its
    source no longer had, and after them come the copies of those it took."""

    topic_id: int
    router: str
    cursor: int
    lost: int = 0
    copies: RecordsAppended | None = None
    lost_hops: int = 0  # how often the word of this loss was passed on


@dataclass(frozen=True, slots=True)
class Place:
    """Bytes start..end-1 of a WAL file. `group` is the name of the directory it is in."""

    group: str
    file_index: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class CopiesLogged:
    """How copies are logged: not their bytes but where those lie in the log already, and which
    seqs of the source were taken. With nothing taken, that the router went on."""

    topic_id: int
    first_seq: int
    ts: int
    router: str
    options: int
    cursor: int
    lost: int = 0
    source_id: int = 0
    source: str = ""
    place: Place | None = None
    # Numbers in pairs, from seq 1 on: how many are passed over, how many are taken.
    runs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LeaseChanged:
    topic_id: int
    seq: int
    event: int
    lease_id: int
    deadline_ms: int
    deliveries: int
    node: str


class LeaseEvent(enum.IntEnum):
    """What became of jobs. The numbers are on disk (Leases frames): never renumber."""

    CLAIMED = 0
    RELEASED = 1
    EXTENDED = 2
    DELAYED = 4
    DEAD = 5
    SCHEDULED = 6


@dataclass(frozen=True, slots=True)
class LeasesChanged:
    """The same happened to several jobs of a queue. Claimed ones have consecutive lease ids from
    `lease_id` on; for dead ones it is how many there have been in all. Of scheduled ones `node`
    is the schedule."""

    topic_id: int
    event: LeaseEvent
    seqs: tuple[int, ...]
    deliveries: tuple[int, ...] = ()  # of claimed ones, this one included
    node: str = ""
    lease_id: int = 0
    until_ms: int = 0
    lease_ms: int = 0


COPIES_DURABLE = 0x80  # among the options of CopiesLogged: the copies were waited for
COPIES_HOPS_SHIFT = 4  # three bits: how often the word of what was lost has been passed on

TopicEntry = (
    TopicCreated
    | TopicConfigured
    | TopicDropped
    | RecordsAppended
    | RecordsDeleted
    | FloorMoved
    | SeqsReserved
    | SeqsLost
    | PositionMoved
    | LeasesChanged
    | RouterCreated
    | RouterDropped
    | RecordsRouted
)
ControlEntry = (
    TopicCreated
    | TopicConfigured
    | TopicDropped
    | RecordsDeleted
    | FloorMoved
    | SeqsReserved
    | SeqsLost
    | PositionMoved
    | BatchStarted
    | DurableMarked
    | Scarred
    | Checkpointed
    | RouterCreated
    | RouterDropped
    | LeaseChanged
    | LeasesChanged
    | CopiesLogged
)
