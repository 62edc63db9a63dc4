"""The embedded log: the one object people hold. Each verb is a few lines over the parts."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, TypeVar

from penstock import config as config_
from penstock import limits
from penstock.clock import Clock, SystemClock
from penstock.codec.entry import encode_entry
from penstock.config import Settings
from penstock.engine import batch as batches
from penstock.engine import opening, read
from penstock.engine.append import Appender
from penstock.engine.checkpoint import CheckpointReport
from penstock.engine.handle import Handle
from penstock.engine.stats import LogStats, stats_of
from penstock.engine.upkeep import Upkeep
from penstock.errors import (
    Closed,
    InvalidArgument,
    LogFailed,
    Overloaded,
    PenstockError,
    StorageError,
    TopicExists,
    TopicNotFound,
)
from penstock.storage.fs import Filesystem, OsFilesystem
from penstock.storage.wal.ticket import Ticket, closed_gate
from penstock.topics import names
from penstock.types import (
    Appended,
    Cause,
    ControlEntry,
    FloorMoved,
    Gap,
    JsonPage,
    Page,
    Record,
    RecordsDeleted,
    Removed,
    SeqsLost,
    SeqsReserved,
    TopicConfig,
    TopicConfigured,
    TopicCreated,
    TopicDropped,
    TopicInfo,
)

Progress = Callable[[int, int], None]
T = TypeVar("T")


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
    """Open the log in this directory, making it when it is not there.

    Settings come from `PENSTOCK_*` unless given. The directory is locked until `close`.
    """
    if settings is None:
        settings = config_.from_environment(os.environ, **overrides)
    parts = opening.open_parts(
        fs or OsFilesystem(),
        clock or SystemClock(),
        os.path.abspath(os.fspath(path)),
        settings,
        random_bytes,
        progress,
    )
    return Log(parts)


class Log:
    """Safe from several threads. A context manager: leaving it closes the log."""

    def __init__(self, parts: opening.Parts) -> None:
        self.parts = parts  # for the tools of this package; not for users
        self._settings = parts.settings
        self._clock = parts.clock
        self._registry = parts.registry
        self._handles = parts.handles  # by name; changed under _ddl only
        self._appender = Appender(parts.registry, parts.clock)
        self._ddl = threading.RLock()  # creations, removals, configuration: one at a time
        self._room = threading.Condition()
        self._is_closed = False
        self.recovery = parts.recovered
        parts.on_failure = self._wake_everyone
        self._upkeep: Upkeep | None = None
        if self._settings.background and not parts.is_damaged:
            self._upkeep = Upkeep(parts.clock, self._settings.upkeep_interval_ms, self.upkeep)

    # Topics.

    def create(self, topic: str, **config: Any) -> TopicInfo:
        """Create a topic, or give an existing one this configuration. Durable on return."""
        name = names.topic_name(topic)
        wanted = names.topic_config(
            config, topic=name, default_durability=self._settings.default_durability
        )
        with self._ddl:
            self._check_open()
            handle = self._handles.get(name)
            if handle is None:
                self._create(name, wanted)
            else:
                self._configure(handle, wanted)
            return self.topic(name)

    def drop(self, topic: str) -> bool:
        """Remove a topic with everything in it; false when there is none."""
        with self._ddl:
            self._check_open()
            handle = self._handles.get(topic)
            if handle is None:
                return False
            entry = TopicDropped(handle.topic.id, handle.topic.name)
            with handle.lock:
                handle.is_dropped = True
            self._commit(handle, entry)
            del self._handles[topic]
        handle.wake()
        return True

    def topics(self, prefix: str = "") -> list[TopicInfo]:
        """All topics whose name starts with `prefix`, sorted by name."""
        self._check_open()
        chosen = sorted(name for name in list(self._handles) if name.startswith(prefix))
        found = (self._handles.get(name) for name in chosen)
        return [self._info(handle) for handle in found if handle is not None]

    def topic(self, name: str) -> TopicInfo:
        """One topic as of now."""
        return self._info(self._handle(name))

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
    ) -> Appended:
        """Append a batch, all or nothing; returns when the topic's durability class is met.

        A record is any JSON-able value, `bytes` holding a JSON text, or a `Record`. The topic
        is created with defaults when it is missing, unless `create` is false.
        """
        batch = batches.prepare(records, tag=tag, node=node, key=idempotency_key)
        handle, created = self._handle_for_append(topic, create)
        shard = handle.shard
        self._check_room(handle, len(batch.datas), may_wait=True)
        staged = self._appender.stage(handle, batch)
        if isinstance(staged, Appended):
            return staged
        deduped = staged.is_done and bool(batch.key)
        shard.drive(staged)
        if not staged.is_done or staged.error is not None:
            staged.wait(self._settings.append_timeout_s)
        return self._appender.answer(staged, created=created, deduped=deduped)

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

        The topic must exist. Raises at once what can be known at once.
        """
        batch = batches.prepare(records, tag=tag, node=node, key=idempotency_key)
        handle = self._handle(topic)
        self._check_room(handle, len(batch.datas), may_wait=False)
        answer = self._appender.answer

        def resolved(ticket: Ticket) -> None:
            done(ticket.error or answer(ticket, created=False, deduped=False))

        staged = self._appender.stage(handle, batch, resolved)
        if isinstance(staged, Appended):
            done(staged)
        elif not staged.is_done:
            handle.shard.push()

    def read(
        self,
        topic: str,
        after: int = 0,
        limit: int | None = None,
        *,
        node: str | list[str] | None = None,
        epoch: int | None = None,
        max_bytes: int | None = None,
    ) -> Page:
        """Records past seq `after`. Those of `node` are left out. A gap is part of the page."""
        wanted = read.options(limit, node, max_bytes)
        handle = self._handle_for_read(topic, after)
        return read.read(handle, after, epoch, wanted)

    def read_json(
        self,
        topic: str,
        after: int = 0,
        limit: int | None = None,
        *,
        node: str | list[str] | None = None,
        epoch: int | None = None,
        max_bytes: int | None = None,
        include_tags: bool = False,
        include_meta: bool = True,
        include_data: bool = True,
    ) -> JsonPage:
        """The same with the records as one JSON array, as the HTTP API spells them."""
        wanted = read.options(
            limit,
            node,
            max_bytes,
            include_tags=include_tags,
            include_meta=include_meta,
            include_data=include_data,
            is_wire=True,
        )
        handle = self._handle_for_read(topic, after)
        return read.read_json(handle, after, epoch, wanted)

    def follow(
        self,
        topic: str,
        after: int = 0,
        *,
        node: str | list[str] | None = None,
        timeout_s: float | None = None,
    ) -> Iterator[Record | Gap]:
        """Every record past `after`, then each new one as it becomes visible. Gaps come as
        `Gap` values in their place. Ends when the topic is dropped or the log closed, or after
        `timeout_s` without anything new."""
        wake = threading.Condition()

        def notify() -> None:
            with wake:
                wake.notify()

        handle = self._handle(topic)
        handle.listen(notify)
        epoch = handle.topic.epoch
        try:
            while not self._is_closed and not handle.is_dropped:
                page = self.read(topic, after, limits.READ_RECORDS_DEFAULT, node=node, epoch=epoch)
                if page.gap is not None:
                    yield page.gap
                yield from page.records
                after = page.next_seq
                with wake:
                    if handle.topic.head > after or self._is_closed or handle.is_dropped:
                        continue
                    if not self._clock.wait(wake, timeout_s):
                        return
        finally:
            handle.unlisten(notify)

    def delete(
        self,
        topic: str,
        before_seq: int | None = None,
        tag: Any = None,
        *,
        seqs: Sequence[int] = (),
    ) -> Removed:
        """Remove for good what exists now and lies below `before_seq`, has this tag (a trailing
        `*` is a prefix), or is one of `seqs`. Silent for readers; durable on return."""
        if before_seq is None and tag is None and not seqs:
            raise InvalidArgument("give before_seq, tag or seqs: what should go?")
        if before_seq is not None and (not isinstance(before_seq, int) or before_seq < 0):
            raise InvalidArgument(f"before_seq must be a seq, not {before_seq!r}")
        match = None if tag is None else names.tag_match(tag)
        handle = self._handle(topic)
        self.parts.check_writable(handle.shard)
        with handle.lock:
            if handle.is_dropped:
                raise TopicNotFound(topic)
            entry = RecordsDeleted(
                handle.topic.id, before_seq, match, tuple(seqs), handle.next_seq - 1
            )
            ticket = self._stage(handle, entry)
        self._finish(handle, ticket)
        info = self._info(handle)
        deleted = ticket.result if isinstance(ticket.result, int) else 0
        return Removed(deleted, info.earliest_seq, info.head_seq, info.count, info.bytes)

    # The log itself.

    def sync(self) -> None:
        """Return when everything acknowledged so far is past a sync, whatever its class."""
        self._check_open()
        for shard in self.parts.shards:
            shard.tick()
            if shard.failed is not None:
                raise shard.failed

    def checkpoint(
        self, *, everything: bool = False, progress: Progress = lambda done, total: None
    ) -> CheckpointReport:
        """Absorb the WAL into segments and a snapshot. `everything` seals small tails too and
        starts new WAL files, so that all older ones can go."""
        self._check_open()
        self.parts.check_undamaged()
        return self._guarded(lambda: self._checkpoint(everything, progress))

    def compact(self, progress: Progress = lambda done, total: None) -> CheckpointReport:
        """Everything into segments, dead records out of them, absorbed files removed."""
        self.checkpoint(everything=True, progress=progress)
        return self.checkpoint(everything=True)

    def upkeep(self) -> None:
        """What the background thread does on every beat; call it yourself without one."""
        if self._is_closed or self.parts.failed is not None or self.parts.is_damaged:
            return
        now_ms = self._clock.now_ms()
        try:
            self._guarded(lambda: self._beat(now_ms))
        except PenstockError as error:
            if self.parts.failed is None and isinstance(error, StorageError):
                self.parts.note_damage(error)

    def stats(self) -> LogStats:
        """Counters and gauges of this log."""
        return stats_of(self.parts, list(self._handles.values()))

    @property
    def failed(self) -> LogFailed | None:
        """Why the log is closed for writing, if it is."""
        return self.parts.failed

    @property
    def damage(self) -> list[StorageError]:
        """What is known to be damaged on disk."""
        return list(self.parts.damage)

    def bury(self, handle: Handle, first: int, last: int) -> None:
        """For `repair`: records first..last cannot be read; report them as lost."""
        self._commit(handle, SeqsLost(handle.topic.id, first, last, Cause.DAMAGE))

    def close(self) -> None:
        """Commit, sync, seal, unlock. May be repeated."""
        with self._ddl:
            if self._is_closed:
                return
            self._is_closed = True
        if self._upkeep is not None:
            self._upkeep.stop()
        try:
            self._note_ephemeral_heads()
        finally:
            self.parts.close()
            self._wake_everyone()

    def __enter__(self) -> Log:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # Inside.

    def _create(self, name: str, config: TopicConfig) -> Handle:
        if self._settings.max_topics and len(self._registry) >= self._settings.max_topics:
            raise Overloaded(
                f"there are {len(self._registry)} topics already (max_topics)", retry_after_ms=1000
            )
        topic_id = self._registry.next_id
        now_ms = self._clock.now_ms()
        shard = self.parts.shard_of(topic_id)
        self.parts.check_writable(shard)
        created = TopicCreated(topic_id, name, config, now_ms)
        frames = encode_entry(created, now_ms)
        reserved = SeqsReserved(topic_id, limits.SEQ_RESERVE)
        if config.durability != "fsync":
            frames += encode_entry(reserved, now_ms)
        made: list[Handle] = []

        def publish(_: Ticket) -> None:
            self._registry.apply(created)
            if config.durability != "fsync":
                self._registry.apply(reserved)
            topic = self._registry.by_id(topic_id)
            if topic is None:
                raise AssertionError("a created topic must exist")
            made.append(Handle(topic, shard))

        self._registry.next_id = topic_id + 1
        ticket = Ticket(frames, publish, durable=True, lane=topic_id, gate=closed_gate())
        shard.submit(ticket)
        shard.drive(ticket)
        ticket.wait(self._settings.append_timeout_s)
        self._handles[name] = made[0]
        return made[0]

    def _configure(self, handle: Handle, wanted: TopicConfig) -> None:
        current = handle.topic.config
        if current.type != wanted.type:
            raise TopicExists(
                f"topic {handle.topic.name!r} is a {current.type}, it cannot become a {wanted.type}"
            )
        if current == wanted:
            return
        if wanted.durability == "ephemeral" and current.durability != "ephemeral":
            self.checkpoint(everything=True)  # what is on disk stays on disk
        self._commit(handle, TopicConfigured(handle.topic.id, handle.topic.name, wanted))

    def _commit(self, handle: Handle, entry: ControlEntry) -> Ticket:
        """Log a control entry durably and apply it."""
        self.parts.check_writable(handle.shard)
        with handle.lock:
            ticket = self._stage(handle, entry)
        self._finish(handle, ticket)
        return ticket

    def _stage(self, handle: Handle, entry: ControlEntry, *, durable: bool = True) -> Ticket:
        def publish(ticket: Ticket) -> None:
            with handle.lock:
                ticket.result = self._registry.apply(entry)  # type: ignore[arg-type]

        frames = encode_entry(entry, self._clock.now_ms())
        ticket = Ticket(frames, publish, durable=durable, lane=handle.topic.id, gate=closed_gate())
        handle.shard.submit(ticket)
        return ticket

    def _finish(self, handle: Handle, ticket: Ticket) -> None:
        handle.shard.drive(ticket)
        ticket.wait(self._settings.append_timeout_s)

    def _handle(self, name: str) -> Handle:
        self._check_open()
        handle = self._handles.get(name)
        if handle is None:
            names.topic_name(name)
            raise TopicNotFound(name)
        return handle

    def _handle_for_append(self, name: str, create: bool) -> tuple[Handle, bool]:
        handle = self._handles.get(name)
        if handle is not None:
            if self._is_closed:
                raise Closed("the log is closed")
            return handle, False
        if not create:
            return self._handle(name), False
        with self._ddl:
            self._check_open()
            handle = self._handles.get(name)
            if handle is not None:
                return handle, False
            config = names.topic_config(
                {},
                topic=names.topic_name(name),
                default_durability=self._settings.default_durability,
            )
            return self._create(name, config), True

    def _handle_for_read(self, name: str, after: int) -> Handle:
        if not isinstance(after, int) or after < 0:
            raise InvalidArgument(f"after must be a seq, not {after!r}")
        handle = self._handle(name)
        if handle.topic.config.ttl_ms:
            self._expire(handle)
        return handle

    def _expire(self, handle: Handle) -> None:
        """Move the TTL floor. Logged but not synced: after a crash the clock moves it again."""
        with handle.lock:
            topic = handle.topic
            expired = topic.expired_to(self._clock.now_ms())
            if expired <= topic.expiry_floor or handle.is_dropped:
                return
            entry = FloorMoved(topic.id, topic.evict_floor, topic.earliest, expired)
            if self.parts.failed is not None or self.parts.is_damaged or self._is_closed:
                self._registry.apply(entry)
                return
            ticket = self._stage(handle, entry, durable=False)
        self._finish(handle, ticket)

    def _info(self, handle: Handle) -> TopicInfo:
        if handle.topic.config.ttl_ms:
            self._expire(handle)
        with handle.lock:
            topic = handle.topic
            return TopicInfo(
                topic.name,
                topic.id,
                topic.epoch,
                topic.config,
                topic.head,
                topic.earliest,
                topic.head + 1,
                topic.live,
                topic.bytes,
                sum(span.run.is_sealed for span in topic.spans),
                topic.last_ts or None,
            )

    def _check_room(self, handle: Handle, count: int, *, may_wait: bool) -> None:
        """May this append go ahead? Waits, or says no, when checkpoints lag behind."""
        parts = self.parts
        if parts.is_troubled:
            parts.check_writable(handle.shard)
        if handle.topic.config.durability == "ephemeral":
            ticket = self._appender.reserve(handle, count)
            if ticket is not None:
                self._finish(handle, ticket)
        elif parts.is_backed_up:
            if not may_wait:
                raise Overloaded("checkpoints cannot keep up", retry_after_ms=250)
            self._wait_for_room()

    def _wait_for_room(self) -> None:
        """Latency, not loss."""
        parts = self.parts
        deadline = self._clock.monotonic() + self._settings.append_timeout_s
        if self._upkeep is None:
            self.upkeep()
            return
        self._upkeep.nudge()
        with self._room:
            while parts.is_backed_up:
                left_s = deadline - self._clock.monotonic()
                if left_s <= 0 or parts.failed is not None:
                    raise parts.failed or Overloaded(
                        "checkpoints cannot keep up with the writers", retry_after_ms=1000
                    )
                self._clock.wait(self._room, min(left_s, 0.1))

    def _beat(self, now_ms: int) -> None:
        self.parts.weigh()
        for handle in list(self._handles.values()):
            if handle.topic.config.ttl_ms:
                self._expire(handle)
            if handle.topic.keys:
                with handle.lock:
                    handle.topic.forget_keys(now_ms, limits.IDEMPOTENCY_KEYS_MAX)
        checkpointer = self.parts.checkpointer
        sealed = checkpointer.seal_due(now_ms)
        if sealed or self.parts.is_checkpoint_due():
            self._checkpoint(False, lambda done, total: None)

    def _checkpoint(self, everything: bool, progress: Progress) -> CheckpointReport:
        if everything:
            for shard in self.parts.shards:
                shard.rotate()
        written = self.parts.written_bytes()
        report = self.parts.checkpointer.run(everything=everything, progress=progress)
        self.parts.absorbed(written)
        self.parts.weigh()
        with self._room:
            self._room.notify_all()
        return report

    def _guarded(self, work: Callable[[], T]) -> T:
        """The first failed write, sync or rename closes the log, wherever it happens."""
        try:
            return work()
        except OSError as error:
            failed = LogFailed(
                error.filename or self.parts.layout.root,
                reason=f"upkeep failed: {error.strerror or error}",
                hint="the log is closed for writing; free space or replace the disk, then reopen",
            )
            self.parts.fail(failed)
            raise failed from error

    def _note_ephemeral_heads(self) -> None:
        """RAM-only records end here; say how far their seqs went."""
        if self.parts.failed is not None or self.parts.is_damaged:
            return
        for handle in list(self._handles.values()):
            topic = handle.topic
            tail = [span for span in topic.spans if not span.run.is_sealed]
            if topic.config.durability == "ephemeral" and tail:
                first = tail[0].first + tail[0].start
                self._commit(handle, SeqsLost(topic.id, first, topic.head, Cause.LOST))

    def _check_open(self) -> None:
        if self._is_closed:
            raise Closed("the log is closed")

    def _wake_everyone(self) -> None:
        for handle in list(self._handles.values()):
            handle.wake()
