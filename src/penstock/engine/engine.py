"""The embedded log, the public object. Each verb is a few lines over the core."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Never, Unpack

from penstock import types
from penstock.append_options import AppendKeywords, refuse_in_batch
from penstock.append_options import checked as checked_options
from penstock.codec.columns import ColumnsPage
from penstock.engine import (
    deletion,
    following,
    read_verbs,
    router_verbs,
    submission,
    table_verbs,
)
from penstock.engine.checkpoint import CheckpointReport
from penstock.engine.cold_mover import ColdReport
from penstock.engine.core import LogCore
from penstock.engine.interruptible_calls import uninterrupted
from penstock.engine.maintenance import Progress
from penstock.engine.stats import LogStats
from penstock.engine.watches import Notify, Watch
from penstock.errors import LogFailed, PenstockError, StorageError
from penstock.verb_keywords import (
    ColumnsKeywords,
    FollowKeywords,
    JsonKeywords,
    ReadKeywords,
    RedriveKeywords,
)

if TYPE_CHECKING:
    from penstock.features.store import FeatureStore

Jobs = Sequence[int | types.Job]
Seqs = Sequence[int]
Writes = Sequence[tuple[str, Sequence[Any]]]
Ids = Sequence[str]


class Log:
    """Safe from several threads. A context manager: leaving it closes the log. In a forked child
    every verb raises Closed, and closing does nothing: the log is the parent's."""

    def __init__(self, core: LogCore) -> None:
        self.core = core  # for servers and tools
        self.recovery = core.parts.recovered
        self.delayed = core.delayed  # lists and cancels delayed records

    # Topics.

    @uninterrupted  # type: ignore[arg-type]  # a setting cannot be called self
    def create(self, topic: str, **config: Any) -> types.TopicInfo:
        """Create a topic, or give an existing one this configuration. Durable on return."""
        return self.core.create(topic, config)

    @uninterrupted
    def drop(self, topic: str) -> bool:
        """Remove a topic with everything in it; false when there is none."""
        return self.core.drop(topic)

    def topics(self, prefix: str = "") -> list[types.TopicInfo]:
        """All topics whose name starts with `prefix`, sorted by name."""
        return self.core.catalogue.infos(prefix)

    def topic(self, name: str) -> types.TopicInfo:
        """One topic as of now."""
        return self.core.catalogue.info(self.core.catalogue.get(name))

    # Records. `append_options` and `verb_keywords` declare the options.

    def append(
        self,
        topic: str,
        records: Sequence[Any],
        *,
        tag: str | None = None,
        node: str | None = None,
        **options: Unpack[AppendKeywords],
    ) -> types.Appended:
        """Append a batch, all or nothing; returns when the topic's durability class is met. A
        record is any JSON-able value, `bytes` holding a JSON text, or a `Record`. A missing topic
        is created unless `create` is false. With `expected_seq` only if it is the newest seq. Later
        with `deliver_at` (ms since 1970) or `delay_ms`; jobs also repeatedly by `cron`."""
        given = checked_options(options)
        return self.core.append(topic, self.core.batch_of(records, tag, node, given), given)

    def submit(
        self,
        topic: str,
        records: Sequence[Any],
        done: Callable[[types.Appended | PenstockError], None],
        *,
        tag: str | None = None,
        node: str | None = None,
        **options: Unpack[AppendKeywords],
    ) -> None:
        """Append without waiting: `done` is called with the answer, on a thread of the log. The
        topic must exist. Errors that are known at once are raised."""
        submission.submit(self.core, topic, records, done, tag, node, checked_options(options))

    def append_many(
        self, writes: Writes, *, idempotency_key: str | None = None, **others: Never
    ) -> list[types.Appended]:
        """Append to several topics, everything or nothing. Durable on return, whatever the
        classes of the topics; missing topics are created. Such a batch cannot be delayed."""
        refuse_in_batch(others)
        return self.core.append_many(writes, idempotency_key)

    def read(
        self, topic: str, after: int = 0, limit: int | None = None, **options: Unpack[ReadKeywords]
    ) -> types.Page:
        """Records after seq `after`. Records of `node` are left out. With `tag`, only records with
        that tag are returned; a trailing `*` matches a prefix. A gap is part of the page."""
        return read_verbs.read(self.core, topic, after, limit, options)

    def read_json(
        self, topic: str, after: int = 0, limit: int | None = None, **options: Unpack[JsonKeywords]
    ) -> types.JsonPage:
        """The same with the records as one JSON array, in the form of the HTTP API."""
        return read_verbs.read_json(self.core, topic, after, limit, options)

    def read_frames(
        self, topic: str, after: int = 0, limit: int | None = None, **options: Unpack[ReadKeywords]
    ) -> types.FramesPage:
        """The same as frames, back to back: nothing is decoded, and each has its checksum."""
        return read_verbs.read_frames(self.core, topic, after, limit, options)

    def read_columns(
        self,
        topic: str,
        after: int = 0,
        limit: int | None = None,
        **options: Unpack[ColumnsKeywords],
    ) -> ColumnsPage:
        """The same column by column, in Arrow's layout: seqs, times, and `columns` (names among
        node, tag, meta and data). A page may end early, where a segment ends."""
        return read_verbs.read_columns(self.core, topic, after, limit, options)

    def seek(self, topic: str, ts_ms: int) -> int:
        """The `after` of a read that begins with the first record committed at `ts_ms` or later;
        the head when there is none."""
        return self.core.seek(topic, ts_ms)

    def follow(
        self, topic: str, after: int = 0, **options: Unpack[FollowKeywords]
    ) -> Iterator[types.Record | types.Gap]:
        """Every record after `after`, then each new one when it is committed, and `Gap` values for
        lost ones. Ends with the topic, the log, or after `timeout_s` without a record or gap."""
        return following.follow(self.core, topic, after, options)

    def watch(self, topics: Sequence[str], notify: Notify) -> Watch:
        """Call `notify(topic, head, synced)` now and whenever one of them moves: what is visible of
        a topic, and what survives a power cut. Many moves may be one call. It is called on a thread
        of the log, and must be quick. A topic need not exist: then both are `Offset(0, 0)`."""
        return self.core.watches.add(topics, notify)

    @uninterrupted
    def delete(
        self, topic: str, before_seq: int | None = None, tag: Any = None, *, seqs: Seqs = ()
    ) -> types.Removed:
        """Remove existing records permanently: those below `before_seq`, with `tag`, or in `seqs`.
        Readers see no gap for them. Durable on return."""
        return deletion.delete_by(self.core.catalogue, topic, before_seq, tag, seqs)

    # Queues.

    def claim(
        self, topic: str, node: str, max: int = 1, *, lease_ms: int | None = None, wait_s: float = 0
    ) -> types.Claimed:
        """Lease up to `max` ready jobs to worker `node`, and wait up to `wait_s` for the first. No
        other worker gets a job before its deadline: ack it or extend the lease until then."""
        return self.core.claim(topic, node, max, lease_ms, wait_s)

    def ack(self, topic: str, node: str, jobs: Jobs, lease_ids: Ids = ()) -> types.Settled:
        """Delete jobs that are done, with one sync for all on an `fsync` queue. For `Job` values of
        a claim, each job that is no longer held under the same lease is skipped."""
        return self.core.resolve_jobs(self.core.queues.ack, topic, node, jobs, lease_ids)

    def nack(
        self, topic: str, node: str, jobs: Jobs, lease_ids: Ids = (), *, delay_ms: int | None = None
    ) -> types.Settled:
        """Return jobs that are not done to the queue. They are ready again after `delay_ms`, or as
        the queue's retry rule says; without either, at once."""
        nack = self.core.queues.nack
        return self.core.resolve_jobs(nack, topic, node, jobs, lease_ids, delay_ms=delay_ms)

    def extend(
        self, topic: str, node: str, jobs: Jobs, lease_ids: Ids = (), *, lease_ms: int
    ) -> types.Settled:
        """Extend the leases of these jobs to `lease_ms` from now."""
        extend = self.core.queues.extend
        return self.core.resolve_jobs(extend, topic, node, jobs, lease_ids, lease_ms=lease_ms)

    @uninterrupted
    def redrive(self, topic: str, **options: Unpack[RedriveKeywords]) -> types.Redriven:
        """Move dead letters of `topic` back to their queues, or to `to`: those in `seqs`, with
        `tag`, or all; at most `limit` in a call. A dry run only returns which would move."""
        return self.core.redrive(self.core.catalogue.get(topic), **options)

    def schedules(self, topic: str) -> list[types.Schedule]:
        """The recurring jobs of a queue. To stop one, delete it by its seq."""
        return self.core.queues.schedules(self.core.catalogue.get(topic))

    def queue_counts(self, topic: str) -> types.QueueCounts:
        """The numbers of jobs that are ready, in flight, delayed and dead-lettered so far."""
        return self.core.queues.counts(self.core.catalogue.get(topic))

    # Routers.
    create_router = router_verbs.create_router
    router = router_verbs.router
    routers = router_verbs.routers
    drop_router = router_verbs.drop_router

    # Tables, and other projections.
    table = table_verbs.table
    tables = table_verbs.tables
    drop_table = table_verbs.drop_table
    projections = property(table_verbs.projections)

    @property
    def features(self) -> FeatureStore:
        """Aggregates per key: register them, push events, get rows."""
        return self.core.features.store

    # Consumers.

    @uninterrupted
    def move_position(self, topic: str, name: str, seq: int) -> types.Position:
        """Record that consumer `name` has processed all records up to `seq`. Durable on return."""
        return self.core.consumers.move(topic, name, seq)

    def position(self, topic: str, name: str) -> types.Position | None:
        """The position of a consumer and its lag; None when it has no position."""
        return self.core.consumers.get(topic, name)

    def positions(self, topic: str) -> list[types.Position]:
        """The positions of all consumers of a topic, sorted by name."""
        return self.core.consumers.all(topic)

    @uninterrupted
    def drop_position(self, topic: str, name: str) -> bool:
        """Remove the position of a consumer; false when it has none. Durable on return."""
        return self.core.consumers.drop(topic, name)

    # The log itself.

    def sync(self) -> None:
        """Return when everything acknowledged so far is past a sync, whatever its class."""
        self.core.sync()

    def checkpoint(
        self, *, everything: bool = False, progress: Progress = lambda done, total: None
    ) -> CheckpointReport:
        """Absorb the WAL into segments and a snapshot. `everything` seals small tails, too."""
        return self.core.checkpoint(everything=everything, progress=progress)

    def compact(self, progress: Progress = lambda done, total: None) -> CheckpointReport:
        """Move everything into segments, drop dead records from them, remove absorbed files."""
        return self.core.compact(progress)

    def relocate(self, progress: Progress = lambda done, total: None) -> ColdReport:
        """Move old segments to the cold tier now. OSError or ColdUnavailable: nothing is lost."""
        return self.core.relocate(progress)

    def upkeep(self) -> None:
        """One round of maintenance, as the background thread does it."""
        self.core.maintenance.beat()

    def stats(self) -> LogStats:
        """Counters and gauges of this log."""
        return self.core.stats()

    @property
    def failed(self) -> LogFailed | None:
        """The error that closed the log for writing, or None."""
        return self.core.failed

    @property
    def damage(self) -> list[StorageError]:
        """The known damage on disk."""
        return list(self.core.parts.failure.damage)

    def close(self) -> None:
        """Commit, sync, seal, unlock. May be called again, also to finish an interrupted call."""
        self.core.close()

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()
