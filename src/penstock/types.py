"""The values that travel between the parts: records, pages, configuration, entries.

Everything here is immutable and knows nothing of files, threads or time.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from penstock.schema_types import U64, RetryDelay, Share, TopicName

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
    """Further settings of a queue. Left out of a configuration that has none."""

    group_by: Literal["tag"] | None = None  # one job of a group at a time, in their order
    retry_base_ms: RetryDelay = 0  # of a nack that names no delay: doubling with each delivery
    retry_cap_ms: RetryDelay = 300_000
    retry_jitter: Share = 0.5  # the share of a delay that is left to chance


class TopicConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of a topic. 0 switches a limit off."""

    type: Literal["log", "queue"] = "log"
    ttl_ms: U64 = 0
    cap_records: U64 = 0
    cap_bytes: U64 = 0
    discard: Literal["old", "reject"] = "old"
    durable: bool = False
    durability: Durability = "disk"
    priority: int | None = None
    auto_priority: bool = True
    auto_create: bool = True
    idempotency_window_ms: U64 = 120_000
    dedupe_node: bool = True
    lease_ms: int = 30_000
    claim_jitter_ms: int = 0
    max_deliveries: U64 = 0
    dead_letter: TopicName | None = None
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
    SOURCE_TRIM = 7  # the router's source lost them before they were copied

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Offset:
    """Everything up to and including record `seq` of one epoch of a topic. A topic that was created
    again has another epoch, in which seqs start at 1."""

    epoch: int
    seq: int


class Gap(msgspec.Struct, frozen=True):
    """A tombstone: seqs first..last were lost, and no caller deleted them."""

    first: int
    last: int
    reason: str
    missed_estimate: int
    earliest_seq: int
    head_seq: int


class Appended(msgspec.Struct, frozen=True):
    """The answer of an append, once its durability class is met."""

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
    delayed_id: int = 0  # of a delayed append, whose records have no seqs yet

    @property
    def offset(self) -> Offset:
        """The end of the batch."""
        return Offset(self.epoch, self.last_seq)


class DelayedInfo(msgspec.Struct, frozen=True):
    """One append whose time has not come. `size` is the bytes of its data and metadata."""

    id: int
    topic: str
    deliver_at: int  # ms since 1970
    count: int
    size: int


class DelayedBatch(DelayedInfo, frozen=True):
    """The same with its records."""

    records: list[Record]


class Page(msgspec.Struct, frozen=True):
    """One read. Pass `next_seq` as the next `after`: it is the last seq that was looked at."""

    records: list[Record]
    gap: Gap | None
    next_seq: int
    head_seq: int
    earliest_seq: int
    caught_up: bool
    epoch: int

    @property
    def offset(self) -> Offset:
        """What was looked at so far."""
        return Offset(self.epoch, self.next_seq)


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

    @property
    def offset(self) -> Offset:
        """What was looked at so far."""
        return Offset(self.epoch, self.next_seq)


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

    @property
    def offset(self) -> Offset:
        """What was looked at so far."""
        return Offset(self.epoch, self.next_seq)


class Removed(msgspec.Struct, frozen=True):
    """The answer of a delete."""

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

    @property
    def offset(self) -> Offset:
        """The end of the topic."""
        return Offset(self.epoch, self.head_seq)


class Position(msgspec.Struct, frozen=True):
    """The position of a consumer in a topic, and its lag."""

    name: str
    seq: int
    epoch: int
    ts: int
    lag_records: int
    lag_ms: int
    head_seq: int

    @property
    def offset(self) -> Offset:
        """What the consumer has processed."""
        return Offset(self.epoch, self.seq)


class Job(msgspec.Struct, frozen=True, gc=False):
    """A job that a worker has leased until `deadline` (ms since 1970)."""

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
    """The answer of a claim. Fewer jobs than requested, or none, are not an error."""

    topic: str
    jobs: list[Job]
    ready: int


class Redriven(msgspec.Struct, frozen=True):
    """The jobs that a redrive moved, or would move; why others stayed, by seq; and the last seq
    examined: pass `next_seq` as the next `after` until `is_done`."""

    topic: str
    moved: int
    failed: dict[int, str]
    next_seq: int
    is_done: bool


class QueueCounts(msgspec.Struct, frozen=True):
    """The numbers of jobs of a queue. `dead_lettered` counts all dead letters since the queue
    exists."""

    ready: U64
    in_flight: U64
    delayed: U64
    dead_lettered: U64


class Schedule(msgspec.Struct, frozen=True):
    """A recurring job: its cron text, and when it is due next, or since when it waits for a worker
    (ms since 1970)."""

    seq: int
    cron: str
    timezone: str
    due: int


class Settled(msgspec.Struct, frozen=True):
    """The answer of ack, nack and extend. `skipped` are the jobs that the caller does not hold (any
    more), in the order of the request."""

    topic: str
    done: int
    skipped: list[int]
    ready: int
    in_flight: int
    deadlines: dict[int, int] = {}  # of an extend
    fsync_ms: float = 0.0


class RouterRules(msgspec.Struct, frozen=True):
    """The rules of a router."""

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
    """The present state of a router. `cursor` is the last seq of its source that it has
    examined."""

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
    """A topic of a watch was dropped. No more items follow for it."""


class LossRange(msgspec.Struct, frozen=True, array_like=True, order=True):
    """Seqs first..last in the middle of a topic that are lost. The lower four bits of `cause` are
    the cause; the upper bits count how many routers have passed on the report."""

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
    """The tags that a delete or a read matches. A prefix is literal: there are no other
    wildcards."""

    value: bytes
    is_prefix: bool
