"""The embedded log: the one object people hold. Each verb is a few lines over the parts."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any

from penstock import config as config_
from penstock import forks
from penstock.clock import Clock, SystemClock
from penstock.config import Settings
from penstock.engine import batch as batches
from penstock.engine import deletion, opening, read
from penstock.engine.append import Appender, Held
from penstock.engine.audit import Audit
from penstock.engine.catalogue import Catalogue
from penstock.engine.cohorts import Cohorts
from penstock.engine.consumer_verbs import ConsumerVerbs
from penstock.engine.consumers import Consumers
from penstock.engine.handle import Handle
from penstock.engine.keeper import Keeper
from penstock.engine.keeping_verbs import KeepingVerbs
from penstock.engine.multi import MultiAppender, Part
from penstock.engine.queue_verbs import QueueVerbs
from penstock.engine.queues import Queues
from penstock.engine.read import ReadOptions
from penstock.engine.router_verbs import RouterVerbs
from penstock.engine.routers import Routers
from penstock.engine.stats import LogStats, stats_of
from penstock.errors import (
    InvalidArgument,
    LogFailed,
    Overloaded,
    PenstockError,
    StorageError,
)
from penstock.storage.fs import Filesystem, OsFilesystem
from penstock.storage.wal.ticket import Ticket
from penstock.topics import names, reading
from penstock.types import (
    Appended,
    Cause,
    FramesPage,
    Gap,
    JsonPage,
    Page,
    Record,
    Removed,
    SeqsLost,
    TopicInfo,
)

Progress = Callable[[int, int], None]
Outcome = Ticket | Appended | PenstockError


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
    elif overrides:
        raise InvalidArgument(f"give settings or single fields, not both: {sorted(overrides)}")
    parts = opening.open_parts(
        fs or OsFilesystem(),
        clock or SystemClock(),
        os.path.abspath(os.fspath(path)),
        settings,
        random_bytes,
        progress,
    )
    return Log(parts)


class Log(QueueVerbs, RouterVerbs, ConsumerVerbs, KeepingVerbs):
    """Safe from several threads. A context manager: leaving it closes the log. In a forked child
    every verb raises Closed, and closing does nothing: the log is the parent's."""

    def __init__(self, parts: opening.Parts) -> None:
        self.parts = parts  # for the tools of this package; not for users
        self.recovery = parts.recovered
        self._timeout_s = parts.settings.append_timeout_s
        self._catalogue = Catalogue(parts)
        self._consumers = Consumers(self._catalogue, parts.clock)
        self._appender = Appender(parts.registry, parts.clock, parts.place_of)
        parts.on_failure = self._wake_everyone
        self._multi = MultiAppender(parts, self._catalogue, self._appender)
        self._multi.finish_interrupted()
        self._keeper = Keeper(parts, self._catalogue)
        self.queues = Queues(parts, self._catalogue, self._bury)  # for servers
        self._cohorts = Cohorts(self.queues, parts.clock)
        self.routing = Routers(parts, self._catalogue, self._appender)  # for servers
        self.audit = Audit(parts, self._catalogue, self._note)  # for servers
        self._closer = 0  # the thread that closes, or began to and was interrupted
        self._is_shut = False
        self._owner_pid = forks.pid()
        forks.add(self)

    # Topics.

    def create(self, topic: str, **config: Any) -> TopicInfo:
        """Create a topic, or give an existing one this configuration. Durable on return."""
        catalogue = self._catalogue
        name = names.topic_name(topic)
        wanted = catalogue.config(name, config)
        with catalogue.changing:
            catalogue.check_open()
            handle = self.parts.handles.get(name)
            if handle is None:
                handle = catalogue.create(name, wanted)
            else:
                if wanted.durability == "ephemeral" != handle.topic.config.durability:
                    self.checkpoint(everything=True)  # what is on disk stays on disk
                was_in_memory = handle.topic.config.durability == "ephemeral"
                with self.routing.held(handle):  # no copy is made by the rules of two classes
                    if wanted.durability == "fsync" and handle.feeds:
                        self.harden(handle)  # its copies so far promised less
                    catalogue.configure(handle, wanted)
                if was_in_memory and wanted.durability != "ephemeral":
                    self.checkpoint(everything=True)  # what was in memory goes to disk
            return catalogue.info(handle)

    def drop(self, topic: str) -> bool:
        """Remove a topic with everything in it; false when there is none."""
        self.routing.finish(topic)
        with self._catalogue.changing:
            self._catalogue.check_open()
            handle = self._catalogue.find(topic)
            if handle is None:
                return False
            routes = self.routing.leave(handle)
            self._catalogue.drop(handle)
            self.routing.left(handle, routes)
            return True

    def topics(self, prefix: str = "") -> list[TopicInfo]:
        """All topics whose name starts with `prefix`, sorted by name."""
        self._catalogue.check_open()
        return [self._catalogue.info(handle) for handle in self._catalogue.all(prefix)]

    @property
    def count(self) -> int:
        """How many topics there are."""
        return self._catalogue.count

    def names(self, prefix: str = "") -> list[str]:
        """The names of all topics that start with `prefix`, sorted."""
        return [handle.topic.name for handle in self._catalogue.all(prefix)]

    def topic(self, name: str) -> TopicInfo:
        """One topic as of now."""
        return self._catalogue.info(self._catalogue.get(name))

    @property
    def changing(self) -> threading.RLock:
        """Hold it to look and then create or drop with nobody in between."""
        return self._catalogue.changing

    def refresh(self, handle: Handle) -> None:
        """Let go of what is past the topic's TTL by now, and bring what routers owe it."""
        self._catalogue.refresh(handle)

    def harden(self, handle: Handle) -> None:
        """Return when everything that can be read of this topic is past a sync: copies count on
        the bytes of what they are copies of, which may lie in another shard."""
        for shard in {one.shard for one in handle.upstream()}:
            shard.harden()

    def info(self, handle: Handle) -> TopicInfo:
        """One topic as of now, by its handle."""
        return self._catalogue.info(handle)

    def find(self, topic: str) -> Handle | None:
        """The topic at work, for servers; None when there is none."""
        return self._catalogue.find(topic)

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

        A record is any JSON-able value, `bytes` holding a JSON text, or a `Record`. The topic
        is created with defaults when it is missing, unless `create` is false. With
        `expected_seq` the append happens only if that is the newest seq: two writers that
        read the same head cannot both win. Jobs of a queue are handed out no earlier than
        `deliver_at` (ms since 1970), or `delay_ms` from now; with `cron` (in `timezone`, or UTC)
        they come again at each of its times, until they are deleted.
        """
        batch = batches.prepare(records, tag=tag, node=node, key=idempotency_key)
        if (deliver_at, delay_ms, cron, timezone) != (None,) * 4:
            batch = self.queues.timing.later(batch, deliver_at, delay_ms, cron, timezone)
        if create:
            handle, created = self._catalogue.get_or_create(topic)
        else:
            handle, created = self._catalogue.get(topic), False
        return self._append(handle, created, batch, expected_seq)

    def _append(
        self, handle: Handle, created: bool, batch: batches.Batch, expected_seq: int | None
    ) -> Appended:
        self._check_room(handle, batch.count, may_wait=True)
        staged = self._multi.stage(handle, batch, expected_seq)
        if isinstance(staged, Appended):
            return staged
        if not staged.is_done:
            handle.shard.drive(staged)
            staged.wait(self._timeout_s)
        elif handle.listeners:  # kept in memory: nobody else tells the followers
            handle.wake()
        return self._appender.answer(staged, created=created, batch=batch)

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

        def resolved(outcome: Outcome) -> None:
            done(self.answer(outcome, batch))

        self.submit_to(self._catalogue.get(topic), batch, resolved)

    def submit_to(
        self,
        handle: Handle,
        batch: batches.Batch,
        resolved: Callable[[Outcome], None],
        expected_seq: int | None = None,
        push: Callable[[Handle], None] = Handle.push,
        may_defer: bool = True,
    ) -> None:
        """The same for a checked batch, for servers; `answer` tells what an outcome means. Waits
        for no disk, except that an `ephemeral` topic now and then reserves seqs. `push` gets the
        topic's shard going, now or later. Without `may_defer` it is queued at once or refused."""
        self._catalogue.check_open()
        self._check_room(handle, batch.count, may_wait=False)
        try:
            staged = self._appender.stage(handle, batch, resolved, expected_seq)
        except Held:
            if not may_defer:
                raise Overloaded("a batch is under way here", retry_after_ms=2) from None
            self._multi.defer(handle, batch, resolved, expected_seq)
            return
        if isinstance(staged, Appended):
            resolved(staged)
        elif not staged.is_done:
            push(handle)
        elif handle.listeners:
            handle.wake()

    def has_key(self, handle: Handle, key: bytes) -> bool:
        """Would a batch with this key add nothing?"""
        return bool(key) and self._appender.has_key(handle, key)

    def answer(self, outcome: Outcome, batch: batches.Batch) -> Appended | PenstockError:
        """What came of a batch given to `submit_to`."""
        if not isinstance(outcome, Ticket):
            return outcome
        if outcome.error is not None:
            return outcome.error
        return self._appender.answer(outcome, created=False, batch=batch)

    @staticmethod
    def note_wait(outcome: Outcome, waited_s: float) -> None:
        """The batch was kept waiting on purpose before it was given to `submit_to`."""
        if isinstance(outcome, Ticket):
            outcome.throttle_s += waited_s

    def reserve(self, handle: Handle, count: int) -> None:
        """Make sure that the next `count` records of an `ephemeral` topic need not wait."""
        self._catalogue.check_open()
        self._check_room(handle, count, may_wait=True)

    def append_many(
        self, writes: Sequence[tuple[str, Sequence[Any]]], *, idempotency_key: str | None = None
    ) -> list[Appended]:
        """Append to several topics, everything or nothing. Durable on return, whatever the
        classes of the topics; missing topics are created."""
        parts = []
        for number, (topic, records) in enumerate(writes):
            key = None if idempotency_key is None else f"{number}:{idempotency_key}"
            batch = batches.prepare(records, tag=None, node=None, key=key)
            parts.append(Part(*self._made(topic, batch)))
        return self.append_parts(parts)

    def append_parts(self, parts: list[Part]) -> list[Appended]:
        """The same for checked batches."""
        if not parts:
            raise InvalidArgument("a batch must name a topic")
        return self._multi.append(parts)

    def _made(self, topic: str, batch: batches.Batch) -> tuple[Handle, batches.Batch, bool]:
        handle, created = self._catalogue.get_or_create(topic)
        return handle, batch, created

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
        """Records past seq `after`. Those of `node` are left out, and with `tag` (a trailing `*`
        is a prefix) those that have another or none. A gap is part of the page."""
        wanted = read.options(limit, node, max_bytes, tag)
        return read.read(self._readable(topic, after), after, epoch, wanted)

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
        """The same with the records as one JSON array, as the HTTP API spells them."""
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
        return read.read_json(self._readable(topic, after), after, epoch, wanted)

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
        return read.read_frames(self._readable(topic, after), after, epoch, wanted)

    def read_hot(
        self,
        handle: Handle,
        after: int,
        epoch: int | None,
        wanted: ReadOptions,
        *,
        is_stream: bool = False,
    ) -> JsonPage | None:
        """A page that needs no disk, or None when this read might have to wait for one. A stream
        is woken by what routers bring and need not ask for it."""
        if not read.is_quick(handle, after, wanted) or (handle.is_behind and not is_stream):
            return None
        try:
            return read.read_json(handle, after, epoch, wanted, hot_only=True)
        except read.NotHot:  # sealed since we asked
            return None

    def frames_hot(
        self, handle: Handle, after: int, epoch: int | None, wanted: ReadOptions
    ) -> FramesPage | None:
        """The same as frames."""
        if not read.is_quick(handle, after, wanted) or handle.is_behind:
            return None
        try:
            return read.read_frames(handle, after, epoch, wanted, hot_only=True)
        except read.NotHot:
            return None

    def seek(self, topic: str, ts_ms: int) -> int:
        """The `after` from which a read begins with the first record committed at `ts_ms` or
        later; the head when there is none. Goes by the index, whatever the topic's size."""
        names.time_ms(ts_ms)
        handle = self._readable(topic, 0)
        with handle.lock:
            return reading.seek(handle.topic, ts_ms)

    def follow(
        self,
        topic: str,
        after: int = 0,
        *,
        node: str | list[str] | None = None,
        tag: Any = None,
        timeout_s: float | None = None,
    ) -> Iterator[Record | Gap]:
        """Every record past `after`, then each new one as it becomes visible. Gaps come as
        `Gap` values in their place. Ends when the topic is dropped or the log closed, or after
        `timeout_s` without anything new."""
        handle = self._readable(topic, after)
        wanted = read.options(None, node, None, tag)
        wake = threading.Condition()

        def notify() -> None:
            with wake:
                wake.notify()

        handle.listen(notify)  # before the first read, so that nothing is missed in between
        try:
            while not handle.is_dropped and not self._catalogue.is_closed:
                self._catalogue.refresh(handle)
                page = read.read(handle, after, None, wanted)
                if page.gap is not None:
                    yield page.gap
                yield from page.records
                after = page.next_seq
                clock = self.parts.clock  # raises in a child that was forked meanwhile
                with wake:
                    if handle.topic.head > after or handle.is_dropped or self._catalogue.is_closed:
                        continue
                    if not clock.wait(wake, timeout_s):
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
        for seq in [*seqs, *([] if before_seq is None else [before_seq])]:
            names.seq(seq)
        match = None if tag is None else names.tag_match(tag)
        return deletion.delete(self._catalogue, self._catalogue.get(topic), before_seq, match, seqs)

    # Queues: see QueueVerbs.

    def _note(self, handle: Handle, batch: batches.Batch) -> Appended:
        return self._append(handle, False, batch, None)

    def _bury(self, topic: str, batch: batches.Batch) -> Appended:
        """For what is deleted elsewhere next: the copy must not be the weaker one."""
        handle, created = self._catalogue.get_or_create(topic)
        answer = self._append(handle, created, batch, None)
        if handle.topic.config.durability in ("memory", "disk"):
            handle.shard.harden()
        return answer

    # The log itself.

    def sync(self) -> None:
        """Return when everything acknowledged so far is past a sync, whatever its class."""
        self._catalogue.check_open()
        for shard in self.parts.shards:
            shard.harden()

    def stats(self) -> LogStats:
        """Counters and gauges of this log."""
        return stats_of(self.parts, self._catalogue.all(), self.routing)

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
        self._catalogue.commit(handle, SeqsLost(handle.topic.id, first, last, Cause.DAMAGE))

    def close(self) -> None:
        """Commit, sync, seal, unlock. May be repeated, also to finish one that was interrupted."""
        if self._owner_pid != forks.pid():
            return
        me = threading.get_ident()
        with self._catalogue.changing:
            if self._is_shut or self._closer not in (0, me):
                return
            self._closer = me
            self._catalogue.is_closed = True
        self.routing.stop()
        self._keeper.stop()
        try:
            self._catalogue.close()
            if not self.parts.is_troubled and self.parts.is_checkpoint_due():
                # A log that is never open for long has no other moment for it.
                self._keeper.checkpoint(everything=False, progress=lambda done, total: None)
        finally:
            self.parts.close()
            self._is_shut = True
            self._wake_everyone()
            forks.discard(self)

    def leave_to_parent(self) -> None:
        """In a forked child: the files are the parent's, and its threads are not here. Generators
        of `follow` still hold a topic, whose lock another thread may have held."""
        for handle in self.parts.handles.values():
            handle.lock = threading.Lock()
        owner_pid = self._owner_pid
        left = forks.LeftToParent("log", owner_pid)
        self.__dict__.update(dict.fromkeys(self.__dict__, left), _owner_pid=owner_pid)

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

    def _readable(self, topic: str, after: int) -> Handle:
        names.seq(after)
        handle = self._catalogue.get(topic)
        self._catalogue.refresh(handle)
        return handle

    def _check_room(self, handle: Handle, count: int, *, may_wait: bool) -> None:
        """May this append go ahead? Waits, or says no, when checkpoints lag behind."""
        parts = self.parts
        if parts.is_troubled:
            parts.check_writable(handle.shard)
        if handle.topic.config.durability == "ephemeral":
            ticket = self._appender.reserve(handle, count)
            if ticket is not None:
                self._catalogue.finish(handle, ticket)
        elif parts.is_backed_up:
            if not may_wait:
                raise Overloaded("checkpoints cannot keep up", retry_after_ms=250)
            self._keeper.wait_for_room()

    def _wake_everyone(self) -> None:
        for handle in list(self.parts.handles.values()):
            handle.wake()
