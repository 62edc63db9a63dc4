"""The core of an open log: its parts, and the steps that need several of them.

`Log` has the verbs for callers in this process. Servers and tools use the core, which works on
topics by their handles and can append, create and delete without waiting.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from penstock import forks
from penstock.append_options import NO_OPTIONS, AppendOptions
from penstock.codec.columns import ColumnsPage, bits_of
from penstock.engine import batch as batches
from penstock.engine import read, redrive
from penstock.engine.append import Held
from penstock.engine.atomic_batches import AtomicBatches, TopicAppend
from penstock.engine.audit import Audit
from penstock.engine.catalogue import Catalogue
from penstock.engine.checkpoint import CheckpointReport
from penstock.engine.claim_batching import ClaimBatcher
from penstock.engine.cold_mover import ColdReport
from penstock.engine.consumers import Consumers
from penstock.engine.delayed_records import DelayedRecords
from penstock.engine.feature_log import LogFeatures
from penstock.engine.handle import Handle
from penstock.engine.interruptible_calls import VerbThreads
from penstock.engine.lease_options import checked, node_name
from penstock.engine.maintenance import Maintenance, Progress
from penstock.engine.opening import LogContext
from penstock.engine.projections import LogProjections
from penstock.engine.queued_appends import QueuedAppends
from penstock.engine.queues import Claimer, Queues
from penstock.engine.routers import Routers
from penstock.engine.stats import LogStats, stats_of
from penstock.engine.watches import Watches
from penstock.engine.watermarks import Watermarks
from penstock.entries import RecordsDeleted
from penstock.errors import (
    InvalidArgument,
    LogFailed,
    Overloaded,
    PenstockError,
    TopicNotFound,
)
from penstock.storage.wal.pending_commit import PendingCommit
from penstock.topics import validation
from penstock.types import Appended, Claimed, Job, Redriven, Settled, TopicInfo
from penstock.verb_keywords import ReadKeywords

Outcome = PendingCommit | Appended | PenstockError


class LogCore:
    """Safe from several threads. In a forked child every use raises Closed, and closing does
    nothing: the log is the parent's."""

    def __init__(self, parts: LogContext) -> None:
        self.parts = parts
        self._timeout_s = parts.settings.append_timeout_s
        self._backlog = parts.wal_backlog
        self.catalogue = Catalogue(parts)
        self.verb_threads = VerbThreads(
            is_threaded=parts.settings.background,
            is_locked=self.catalogue.is_changing_here,
            on_interrupt=parts.failure.fail_interrupted,
        )
        self.consumers = Consumers(self.catalogue, parts.clock)
        self._appender = parts.appender
        parts.failure.on_failure = self._wake_everyone
        self._atomic_batches = AtomicBatches(parts, self.catalogue, self._appender)
        self.queued_appends = QueuedAppends(
            parts, self.catalogue, self._atomic_batches, self._check_room, self.verb_threads
        )
        self.maintenance = Maintenance(parts, self.catalogue)
        self.queues = Queues(parts, self.catalogue, self._append_dead_letters)
        self.claims = ClaimBatcher(self.queues, parts.clock, self.verb_threads)
        self.routing = Routers(parts, self.catalogue, self._appender)
        self.audit = Audit(self)
        self.watermarks = Watermarks(parts.shards)
        self.watches = Watches(
            parts.handles,
            parts.shards,
            self.watermarks,
            is_threaded=parts.settings.background,
        )
        self.catalogue.changed = self.watches.changed
        self.delayed = DelayedRecords(
            parts,
            self.catalogue,
            self.queues.timing,
            lambda handle, batch: self.append_to(handle, False, batch),
        )
        self.projections = LogProjections(self)
        self.features = LogFeatures(self)
        self.maintenance.also = (
            self.delayed.delivery.deliver_due,
            self.watches.deliver,
            self.projections.upkeep,
        )
        self._closer = 0  # the thread that closes, or began to and was interrupted
        self._is_shut = False
        self._owner_pid = forks.pid()
        forks.add(self)

    # Topics.

    def create(self, topic: str, config: dict[str, Any]) -> TopicInfo:
        """Create a topic, or give an existing one this configuration. Durable on return."""
        catalogue = self.catalogue
        name = validation.topic_name(topic)
        wanted = catalogue.config(name, config)
        with catalogue.changing:
            catalogue.check_open()
            handle, is_new = self.parts.handles.get(name), False
            if handle is None or handle.is_dropped:
                handle, is_new = catalogue.create(name, wanted)
            if not is_new:
                if wanted.durability == "ephemeral" != handle.config.durability:
                    self.checkpoint(everything=True)  # what is on disk stays on disk
                was_in_memory = handle.config.durability == "ephemeral"
                with self.routing.held(handle):  # no copy is made by the rules of two classes
                    if wanted.durability == "fsync" and handle.has_copies:
                        self.sync_all(handle)  # its copies so far promised less
                    catalogue.configure(handle, wanted)
                if was_in_memory and wanted.durability != "ephemeral":
                    self.checkpoint(everything=True)  # what was in memory goes to disk
                    handle.has_unwritten = False
            return catalogue.info(handle)

    def drop(self, topic: str) -> bool:
        """Remove a topic with everything in it; false when there is none."""
        self.routing.finish(topic)
        with self.catalogue.changing:
            self.catalogue.check_open()
            handle = self.catalogue.find(topic)
            if handle is None:
                return False
            routes = self.routing.stop_routers_of(handle)
            self.catalogue.drop(handle)
            self.routing.end_routers_of(handle, routes)
            return True

    def readable(self, topic: str, after: int) -> Handle:
        """The topic, ready to be read past seq `after`."""
        validation.seq(after)
        self.verb_threads.finish()
        handle = self.catalogue.get(topic)
        self.catalogue.refresh(handle)
        return handle

    def seek(self, topic: str, ts_ms: int) -> int:
        """The seq after which the records committed at `ts_ms` or later begin."""
        validation.time_ms(ts_ms)
        return read.seek(self.readable(topic, 0), ts_ms)

    def read_columns(
        self,
        handle: Handle,
        after: int,
        limit: int | None,
        columns: int | Sequence[str],
        options: ReadKeywords,
    ) -> ColumnsPage:
        """Records past seq `after` column by column."""
        self.catalogue.refresh(handle)
        bits = bits_of(columns)
        return read.read_columns(handle, after, *read.parsed(limit, options), bits)

    def synced_seq(self, handle: Handle) -> int:
        """The records of a topic up to here survive a power cut."""
        return self.watermarks.synced_seq(handle)

    # Appends.

    def batch_of(
        self, records: Sequence[Any], tag: str | None, node: str | None, options: AppendOptions
    ) -> batches.Batch:
        """A checked batch of the caller's values."""
        batch = batches.prepare(records, tag=tag, node=node, key=options.idempotency_key)
        if options is not NO_OPTIONS and options.is_for_later:
            batch = self.queues.timing.later(batch, options)
        return batch

    def append(self, topic: str, batch: batches.Batch, options: AppendOptions) -> Appended:
        """Append a checked batch, and wait until the topic's durability class is met. A missing
        topic is created, unless the options say otherwise."""
        self.verb_threads.finish()
        if options.create is False:
            return self.append_to(self.catalogue.get(topic), False, batch, options)
        while True:
            handle, created = self.catalogue.get_or_create(topic)
            try:
                return self.append_to(handle, created, batch, options)
            except TopicNotFound:  # dropped in between
                if not handle.is_dropped:
                    raise

    def append_to(
        self,
        handle: Handle,
        created: bool,
        batch: batches.Batch,
        options: AppendOptions = NO_OPTIONS,
    ) -> Appended:
        """The same for a topic that is known. `created` is for the answer."""
        if batch.due_ms and handle.topic.config.type != "queue":
            return self.delayed.append(handle, created, batch, options)
        self._check_room(handle, batch.count, may_wait=True)
        staged = self._atomic_batches.stage(handle, batch, options)
        if isinstance(staged, Appended):
            return staged
        if not staged.is_done:
            handle.shard.drive(staged)
            staged.wait(self._timeout_s)
        elif handle.is_followed:  # kept in memory: nothing else notifies the followers
            handle.wake()
        return self._appender.answer(staged, created=created, batch=batch)

    def submit_to(
        self,
        handle: Handle,
        batch: batches.Batch,
        resolved: Callable[[Outcome], None],
        options: AppendOptions = NO_OPTIONS,
        push: Callable[[Handle], None] = Handle.push,
        may_defer: bool = True,
    ) -> None:
        """Append a checked batch without waiting: `resolved` is called on a thread of the log, and
        `answer` converts its outcome. Waits for no disk, except when an `ephemeral` topic reserves
        seqs. `push` wakes the topic's shard, now or later. Without `may_defer` the batch is queued
        at once or refused."""
        if batch.due_ms and handle.topic.config.type != "queue":
            self.delayed.submit(handle, batch, resolved, options, push)
            return
        self.catalogue.check_open()
        self._check_room(handle, batch.count, may_wait=False)
        try:
            staged = self._appender.stage(handle, batch, resolved, options)
        except Held:
            if not may_defer:
                raise Overloaded("another batch is in progress", retry_after_ms=2) from None
            self._atomic_batches.defer(handle, batch, resolved, options)
            return
        if isinstance(staged, Appended):
            resolved(staged)
        elif not staged.is_done:
            push(handle)
        elif handle.is_followed:
            handle.wake()

    def answer(self, outcome: Outcome, batch: batches.Batch) -> Appended | PenstockError:
        """The outcome of a batch given to `submit_to`."""
        if not isinstance(outcome, PendingCommit):
            return outcome
        if outcome.error is not None:
            return outcome.error
        return self._appender.answer(outcome, created=False, batch=batch)

    @staticmethod
    def note_wait(outcome: Outcome, waited_s: float) -> None:
        """Add the time that the batch was delayed on purpose before it was given to `submit_to`."""
        if isinstance(outcome, PendingCommit):
            outcome.throttle_s += waited_s

    def has_key(self, handle: Handle, key: bytes) -> bool:
        """True if a batch with this key would add nothing."""
        return bool(key) and self._appender.has_key(handle, key)

    def reserve(self, handle: Handle, count: int) -> None:
        """Make sure that the next `count` records of an `ephemeral` topic need not wait."""
        self.catalogue.check_open()
        self._check_room(handle, count, may_wait=True)

    def append_many(
        self, writes: Sequence[tuple[str, Sequence[Any]]], key: str | None
    ) -> list[Appended]:
        """Check the records of several topics, create missing topics, and append."""
        parts = []
        for number, (topic, records) in enumerate(writes):
            part_key = None if key is None else f"{number}:{key}"
            batch = batches.prepare(records, tag=None, node=None, key=part_key)
            handle, created = self.catalogue.get_or_create(topic)
            parts.append(TopicAppend(handle, batch, created))
        return self.verb_threads.run(lambda: self.append_parts(parts))

    def append_parts(self, parts: list[TopicAppend]) -> list[Appended]:
        """Append to several topics, everything or nothing. Durable on return."""
        if not parts:
            raise InvalidArgument("a batch must have at least one topic")
        return self._atomic_batches.append(parts)

    # Jobs.

    def claim(
        self, topic: str, node: str, most: int, lease_ms: int | None, wait_s: float
    ) -> Claimed:
        """Lease up to `most` ready jobs. Waits up to `wait_s` for the first."""
        claimer = Claimer(node_name(node), most, lease_ms)
        return self.claims.claim_within(self.catalogue.get(topic), claimer, wait_s)

    def resolve_jobs(
        self,
        verb: Callable[..., Settled],
        topic: str,
        node: str,
        jobs: Sequence[int | Job],
        lease_ids: Sequence[str],
        **change: int | None,
    ) -> Settled:
        """Call ack, nack or extend of `queues` with checked arguments."""
        handle, given = self.catalogue.get(topic), checked(jobs, lease_ids)
        return self.claims.run(handle, partial(verb, handle, node_name(node), *given, **change))

    # Dead letters and lost records.

    def redrive(
        self,
        handle: Handle,
        *,
        to: str | None = None,
        seqs: Sequence[int] = (),
        tag: Any = None,
        after: int = 0,
        limit: int = 100,
        dry_run: bool = False,
        may_go: Callable[[str], bool] = lambda topic: True,
    ) -> Redriven:
        """Move dead letters back to their queues, or to `to`. `may_go` returns whether the caller
        may write to a topic."""
        for seq in (*seqs, after):
            validation.seq(seq)
        if limit < 1:
            raise InvalidArgument(f"limit must be a positive number, not {limit!r}")
        self.catalogue.check_writable(handle)
        return redrive.redrive(
            handle,
            self._append_dead_letters,
            lambda moved: self._remove(handle, moved),
            to=None if to is None else validation.topic_name(to),
            seqs=list(seqs),
            match=None if tag is None else validation.tag_match(tag),
            after=after,
            limit=limit,
            dry_run=dry_run,
            may_go=may_go,
        )

    # The log itself.

    def checkpoint(
        self, *, everything: bool = False, progress: Progress = lambda done, total: None
    ) -> CheckpointReport:
        """Absorb the WAL into segments and a snapshot."""
        self.catalogue.check_open()
        return self.maintenance.checkpoint(everything=everything, progress=progress)

    def compact(self, progress: Progress) -> CheckpointReport:
        """Two checkpoints: the second removes the files that the first has absorbed."""
        first = self.checkpoint(everything=True, progress=progress)
        return first.plus(self.checkpoint(everything=True))

    def relocate(self, progress: Progress) -> ColdReport:
        """Move old segments to the cold tier."""
        self.catalogue.check_open()
        return self.maintenance.relocate(progress=progress)

    def sync(self) -> None:
        """Return when everything acknowledged so far is past a sync, whatever its class."""
        self.verb_threads.finish()
        self.catalogue.check_open()
        for shard in self.parts.shards:
            shard.sync_all()
        self.watches.deliver()

    def sync_all(self, handle: Handle) -> None:
        """Return when everything that can be read of this topic is synced. Copies refer to the
        bytes of their source records, which may be in any shard: their routers may be gone."""
        for shard in self.parts.shards if handle.has_copies else (handle.shard,):
            shard.sync_all()

    def widen_commits(self, window_ms: float | None) -> None:
        """Set how long commits wait for others to share their sync; None: each shard decides."""
        for shard in self.parts.shards:
            shard.widen(window_ms)

    def stats(self) -> LogStats:
        """Counters and gauges of this log."""
        return stats_of(self.parts, self.catalogue.all(), self.routing)

    @property
    def failed(self) -> LogFailed | None:
        """The error that closed the log for writing, or None."""
        return self.parts.failure.error

    @property
    def cold_location(self) -> str:
        """The folder or URL of the cold tier; empty when there is none."""
        cold = self.parts.shelf.cold
        return "" if cold is None else cold.tier.where

    def close(self) -> None:
        """Commit, sync, seal, unlock. May be called again, also to finish an interrupted call."""
        if self._owner_pid != forks.pid():
            return
        me = threading.get_ident()
        with self.catalogue.changing:
            if self._is_shut or self._closer not in (0, me):
                return
            self._closer = me
            self.catalogue.is_closed = True
        self.projections.close()
        self.verb_threads.stop()
        self.routing.stop()
        self.maintenance.stop()
        self.delayed.delivery.stop()
        self.watches.stop()
        try:
            self.catalogue.close()
            if not self.parts.failure.is_troubled and self.parts.is_checkpoint_due():
                # A log that is never open for long has no other moment for it.
                self.maintenance.checkpoint(everything=False, progress=lambda done, total: None)
        finally:
            self.parts.close()
            self._is_shut = True
            self._wake_everyone()
            forks.discard(self)

    def leave_to_parent(self) -> None:
        """In a forked child: the files belong to the parent, and its threads do not exist.
        Generators of `follow` still hold a topic, whose lock another thread may have held."""
        for handle in self.parts.handles.values():
            handle.lock = threading.Lock()
        owner_pid = self._owner_pid
        left = forks.LeftToParent("log", owner_pid)
        self.__dict__.update(dict.fromkeys(self.__dict__, left), _owner_pid=owner_pid)

    # Inside.

    def _append_dead_letters(self, topic: str, batch: batches.Batch) -> Appended:
        """For jobs that are deleted from another topic next: the copy must be at least as
        durable."""
        handle, created = self.catalogue.get_or_create(topic)
        answer = self.append_to(handle, created, batch)
        if handle.config.durability in ("memory", "disk"):
            handle.shard.sync_all()
        return answer

    def _remove(self, handle: Handle, seqs: list[int]) -> None:
        entry = RecordsDeleted(handle.id, None, None, tuple(seqs), handle.next_seq - 1)
        self.catalogue.journal.commit(handle, entry)

    def _check_room(self, handle: Handle, count: int, *, may_wait: bool) -> None:
        """Admit an append. Waits, or raises Overloaded, when checkpoints lag behind."""
        parts = self.parts
        if parts.failure.is_troubled:
            parts.failure.check_writable(handle.shard)
        if handle.topic.config.durability == "ephemeral":
            commit = self._appender.reserve(handle, count)
            if commit is not None:
                self.catalogue.journal.wait(handle, commit)
        elif self._backlog.is_too_long:
            self._backlog.hold(may_wait=may_wait)

    def _wake_everyone(self) -> None:
        for handle in self.catalogue.each():
            handle.wake()
