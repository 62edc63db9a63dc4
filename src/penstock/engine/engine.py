"""The embedded log, the public object. Each verb is a few lines over the core."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import TracebackType
from typing import Any

from penstock import config as config_
from penstock.clock import Clock, SystemClock
from penstock.config import Settings
from penstock.engine import batch as batches
from penstock.engine import deletion, following, opening, read
from penstock.engine.checkpoint import CheckpointReport
from penstock.engine.cold_mover import ColdReport
from penstock.engine.core import LogCore
from penstock.engine.lease_options import checked, node_name
from penstock.engine.maintenance import Progress
from penstock.engine.multi_append import TopicAppend
from penstock.engine.queues import Claimer
from penstock.engine.stats import LogStats
from penstock.engine.verb_threads import uninterrupted
from penstock.errors import InvalidArgument, LogFailed, PenstockError, StorageError
from penstock.storage.fs import Filesystem, OsFilesystem
from penstock.topics import validation
from penstock.types import (
    Appended,
    Claimed,
    FramesPage,
    Gap,
    Job,
    JsonPage,
    Page,
    Position,
    QueueCounts,
    Record,
    Redriven,
    Removed,
    RouterInfo,
    RouterRules,
    Schedule,
    Settled,
    TopicInfo,
)


def open_log(
    path: str | os.PathLike[str],
    *,
    settings: Settings | None = None,
    fs: Filesystem | None = None,
    clock: Clock | None = None,
    random_bytes: Callable[[int], bytes] = os.urandom,
    progress: Progress = lambda done, total: None,
    **overrides: Any,
) -> Log:
    """Open the log in this directory, or create it.

    Settings come from `PENSTOCK_*` unless given. The directory is locked until `close`.
    """
    if settings is None:
        settings = config_.from_environment(os.environ, **overrides)
    elif overrides:
        raise InvalidArgument(f"specify settings or single fields, not both: {sorted(overrides)}")
    root = os.path.abspath(os.fspath(path))
    parts = opening.open_parts(
        fs or OsFilesystem(), clock or SystemClock(), root, settings, random_bytes, progress
    )
    return Log(LogCore(parts))


class Log:
    """Safe from several threads. A context manager: leaving it closes the log. In a forked child
    every verb raises Closed, and closing does nothing: the log is the parent's."""

    def __init__(self, core: LogCore) -> None:
        self.core = core  # for servers and tools
        self.recovery = core.parts.recovered

    # Topics.

    @uninterrupted  # type: ignore[arg-type]  # a setting cannot be called self
    def create(self, topic: str, **config: Any) -> TopicInfo:
        """Create a topic, or give an existing one this configuration. Durable on return."""
        return self.core.create(topic, config)

    @uninterrupted
    def drop(self, topic: str) -> bool:
        """Remove a topic with everything in it; false when there is none."""
        return self.core.drop(topic)

    def topics(self, prefix: str = "") -> list[TopicInfo]:
        """All topics whose name starts with `prefix`, sorted by name."""
        catalogue = self.core.catalogue
        catalogue.check_open()
        return [catalogue.info(handle) for handle in catalogue.all(prefix)]

    @property
    def count(self) -> int:
        """How many topics there are."""
        return self.core.catalogue.count

    def names(self, prefix: str = "") -> list[str]:
        """The names of all topics that start with `prefix`, sorted."""
        return self.core.catalogue.names(prefix)

    def topic(self, name: str) -> TopicInfo:
        """One topic as of now."""
        return self.core.catalogue.info(self.core.catalogue.get(name))

    # Records.

    def append(
        self,
        topic: str,
        records: Sequence[Any],
        *,
        tag: str | None = None,
        node: str | None = None,
        idempotency_key: str | None = None,
        create: bool = True,
        expected_seq: int | None = None,
        deliver_at: int | None = None,
        delay_ms: int | None = None,
        cron: str | None = None,
        timezone: str | None = None,
    ) -> Appended:
        """Append a batch, all or nothing; returns when the topic's durability class is met.

        A record is any JSON-able value, `bytes` holding a JSON text, or a `Record`. The topic is
        created with defaults when it is missing, unless `create` is false. With `expected_seq` the
        append happens only if that is the newest seq: of two writers that read the same head, only
        one succeeds. Jobs of a queue are delivered no earlier than `deliver_at` (ms since 1970), or
        `delay_ms` from now; with `cron` (in `timezone`, or UTC) they are delivered again at each
        time of the cron expression, until they are deleted.
        """
        batch = batches.prepare(records, tag=tag, node=node, key=idempotency_key)
        if (deliver_at, delay_ms, cron, timezone) != (None,) * 4:
            batch = self.core.queues.timing.later(batch, deliver_at, delay_ms, cron, timezone)
        return self.core.append(topic, batch, create, expected_seq)

    def submit(
        self,
        topic: str,
        records: Sequence[Any],
        done: Callable[[Appended | PenstockError], None],
        *,
        tag: str | None = None,
        node: str | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        """Append without waiting: `done` is called with the answer, on a thread of the log.

        The topic must exist. Errors that are known at once are raised.
        """
        batch = batches.prepare(records, tag=tag, node=node, key=idempotency_key)
        core = self.core
        core.submit_to(
            core.catalogue.get(topic), batch, lambda outcome: done(core.answer(outcome, batch))
        )

    def append_many(
        self, writes: Sequence[tuple[str, Sequence[Any]]], *, idempotency_key: str | None = None
    ) -> list[Appended]:
        """Append to several topics, everything or nothing. Durable on return, whatever the
        classes of the topics; missing topics are created."""
        parts = []
        for number, (topic, records) in enumerate(writes):
            key = None if idempotency_key is None else f"{number}:{idempotency_key}"
            batch = batches.prepare(records, tag=None, node=None, key=key)
            handle, created = self.core.catalogue.get_or_create(topic)
            parts.append(TopicAppend(handle, batch, created))
        return self.core.verb_threads.run(lambda: self.core.append_parts(parts))

    def read(
        self,
        topic: str,
        after: int = 0,
        limit: int | None = None,
        *,
        node: str | list[str] | None = None,
        tag: Any = None,
        epoch: int | None = None,
        max_bytes: int | None = None,
    ) -> Page:
        """Records after seq `after`. Records of `node` are left out. With `tag`, only records with
        that tag are returned; a trailing `*` matches a prefix. A gap is part of the page."""
        wanted = read.options(limit, node, max_bytes, tag)
        return read.read(self.core.readable(topic, after), after, epoch, wanted)

    def read_json(
        self,
        topic: str,
        after: int = 0,
        limit: int | None = None,
        *,
        node: str | list[str] | None = None,
        tag: Any = None,
        epoch: int | None = None,
        max_bytes: int | None = None,
        include_tags: bool = False,
        include_meta: bool = True,
        include_data: bool = True,
    ) -> JsonPage:
        """The same with the records as one JSON array, in the form of the HTTP API."""
        wanted = read.options(
            limit,
            node,
            max_bytes,
            tag,
            include_tags=include_tags,
            include_meta=include_meta,
            include_data=include_data,
            is_wire=True,
        )
        return read.read_json(self.core.readable(topic, after), after, epoch, wanted)

    def read_frames(
        self,
        topic: str,
        after: int = 0,
        limit: int | None = None,
        *,
        node: str | list[str] | None = None,
        tag: Any = None,
        epoch: int | None = None,
        max_bytes: int | None = None,
    ) -> FramesPage:
        """The same with the records as their frames, back to back: nothing is decoded, and the
        checksums travel with them."""
        wanted = read.options(limit, node, max_bytes, tag)
        return read.read_frames(self.core.readable(topic, after), after, epoch, wanted)

    def seek(self, topic: str, ts_ms: int) -> int:
        """The `after` of a read that begins with the first record committed at `ts_ms` or later;
        the head when there is none. Uses the index, so the time does not depend on the topic's
        size."""
        return self.core.seek(topic, ts_ms)

    def follow(
        self,
        topic: str,
        after: int = 0,
        *,
        node: str | list[str] | None = None,
        tag: Any = None,
        timeout_s: float | None = None,
    ) -> Iterator[Record | Gap]:
        """Every record after `after`, then each new record when it is committed. Lost records are
        reported as `Gap` values in their place. Ends when the topic is dropped, when the log is
        closed, or after `timeout_s` without a record or gap."""
        return following.follow(self.core, topic, after, node, tag, timeout_s)

    @uninterrupted
    def delete(
        self,
        topic: str,
        before_seq: int | None = None,
        tag: Any = None,
        *,
        seqs: Sequence[int] = (),
    ) -> Removed:
        """Remove existing records permanently: those below `before_seq`, those with `tag` (a
        trailing `*` matches a prefix), or those in `seqs`. Readers see no gap for them. Durable on
        return."""
        match = deletion.checked(before_seq, tag, seqs)
        catalogue = self.core.catalogue
        return deletion.delete(catalogue, catalogue.get(topic), before_seq, match, seqs)

    # Queues.

    def claim(
        self,
        topic: str,
        node: str,
        max: int = 1,
        *,
        lease_ms: int | None = None,
        wait_s: float = 0.0,
    ) -> Claimed:
        """Lease up to `max` ready jobs of a queue to worker `node`. No other worker gets a job
        before its deadline: acknowledge it or extend the lease until then. Waits up to `wait_s` for
        the first."""
        claimer = Claimer(node_name(node), max, lease_ms)
        return self.core.claims.claim_within(self.core.catalogue.get(topic), claimer, wait_s)

    def ack(
        self, topic: str, node: str, jobs: Sequence[int | Job], lease_ids: Sequence[str] = ()
    ) -> Settled:
        """Delete jobs that are done, with one sync for all on an `fsync` queue. For `Job` values of
        a claim, each job that is no longer held under the same lease is skipped."""
        handle, given = self.core.catalogue.get(topic), checked(jobs, lease_ids)
        ack = partial(self.core.queues.ack, handle, node_name(node), *given)
        return self.core.claims.run(handle, ack)

    def nack(
        self,
        topic: str,
        node: str,
        jobs: Sequence[int | Job],
        lease_ids: Sequence[str] = (),
        *,
        delay_ms: int | None = None,
    ) -> Settled:
        """Return jobs that are not done to the queue. They are ready again after `delay_ms`, or as
        the queue's retry rule says; without either, at once."""
        handle, given = self.core.catalogue.get(topic), checked(jobs, lease_ids)
        nack = partial(self.core.queues.nack, handle, node_name(node), *given, delay_ms=delay_ms)
        return self.core.claims.run(handle, nack)

    def extend(
        self,
        topic: str,
        node: str,
        jobs: Sequence[int | Job],
        lease_ids: Sequence[str] = (),
        *,
        lease_ms: int,
    ) -> Settled:
        """Extend the leases of these jobs to `lease_ms` from now."""
        handle, given = self.core.catalogue.get(topic), checked(jobs, lease_ids)
        extend = partial(
            self.core.queues.extend, handle, node_name(node), *given, lease_ms=lease_ms
        )
        return self.core.claims.run(handle, extend)

    @uninterrupted
    def redrive(
        self,
        topic: str,
        *,
        to: str | None = None,
        seqs: Sequence[int] = (),
        tag: Any = None,
        after: int = 0,
        limit: int = 100,
        dry_run: bool = False,
    ) -> Redriven:
        """Move dead letters of `topic` back to the queues they came from, or to `to`: those in
        `seqs`, those with `tag` (a trailing `*` matches a prefix), or all; at most `limit` in one
        call. A dry run moves nothing and returns which jobs would move, and why others would
        not."""
        dead = self.core.catalogue.get(topic)
        return self.core.redrive(
            dead, to=to, seqs=seqs, tag=tag, after=after, limit=limit, dry_run=dry_run
        )

    def schedules(self, topic: str) -> list[Schedule]:
        """The recurring jobs of a queue. To stop one, delete it by its seq."""
        return self.core.queues.schedules(self.core.catalogue.get(topic))

    def queue_counts(self, topic: str) -> QueueCounts:
        """The numbers of jobs that are ready, in flight, delayed and dead-lettered so far."""
        return self.core.queues.counts(self.core.catalogue.get(topic))

    # Routers.

    @uninterrupted
    def create_router(
        self,
        name: str,
        source: str,
        dest: str,
        *,
        filter: Any = None,
        preserve_node: bool = True,
        preserve_tag: bool = True,
        allow_cycle: bool = False,
        exactly_once: bool = False,
        create_dest: bool = True,
    ) -> RouterInfo:
        """Create a router, or change the rules of an existing one. It copies every record appended
        to `source` from now on to `dest`. With `filter` it copies only records with that tag; a
        trailing `*` matches a prefix. Missing topics are created. `exactly_once` stores the origin
        in the meta of each copy. Durable on return."""
        match = None if filter is None else validation.tag_match(filter)
        rules = RouterRules(preserve_node, preserve_tag, allow_cycle, exactly_once, match)
        return self.core.routing.put(name, source, dest, rules, create_dest=create_dest)

    def router(self, name: str) -> RouterInfo:
        """One router, up to date with what its source has now."""
        return self.core.routing.info(name)

    def routers(self, prefix: str = "", *, source: str = "", dest: str = "") -> list[RouterInfo]:
        """All routers, or those of this name, source or destination, sorted by name."""
        return self.core.routing.all(prefix, source, dest)

    @uninterrupted
    def drop_router(self, name: str) -> bool:
        """Remove a router; false when there is none. Its copies stay. Durable on return."""
        return self.core.routing.drop(name)

    # Consumers.

    @uninterrupted
    def move_position(self, topic: str, name: str, seq: int) -> Position:
        """Record that consumer `name` has processed all records up to `seq`. Durable on return."""
        return self.core.consumers.move(topic, name, seq)

    def position(self, topic: str, name: str) -> Position | None:
        """The position of a consumer and its lag; None when it has no position."""
        return self.core.consumers.get(topic, name)

    def positions(self, topic: str) -> list[Position]:
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
        """Absorb the WAL into segments and a snapshot. `everything` seals small tails too and
        starts new WAL files, so that all older ones can be removed."""
        return self.core.checkpoint(everything=everything, progress=progress)

    def compact(self, progress: Progress = lambda done, total: None) -> CheckpointReport:
        """Move everything into segments, drop dead records from them, remove absorbed files."""
        first = self.checkpoint(everything=True, progress=progress)
        return first.plus(self.checkpoint(everything=True))

    def relocate(self, progress: Progress = lambda done, total: None) -> ColdReport:
        """Move old segments to the cold tier now, as the background thread does every few seconds.
        Raises OSError or ColdUnavailable when the tier cannot be written; nothing is lost then."""
        self.core.catalogue.check_open()
        return self.core.maintenance.relocate(progress=progress)

    def upkeep(self) -> None:
        """One round of maintenance. The background thread calls it; a log without one needs calls
        by its owner."""
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
        return list(self.core.parts.damage)

    def close(self) -> None:
        """Commit, sync, seal, unlock. May be called again, also to finish an interrupted call."""
        self.core.close()

    def __enter__(self) -> Log:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
