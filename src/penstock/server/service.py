"""The verbs for all protocols: the one bridge between the event loop and the log.

The loop never waits for a disk. Appends are queued and answered by callback; reads of records
that are still in memory happen at once; everything else runs on a few threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import msgspec

from penstock.clock import Clock
from penstock.engine import deletion, read
from penstock.engine.atomic_batches import TopicAppend
from penstock.engine.batch import Batch
from penstock.engine.core import LogCore, Outcome
from penstock.engine.handle import Handle, Pushable
from penstock.engine.read import ReadOptions
from penstock.errors import Overloaded, PenstockError, StorageError, TopicNotFound
from penstock.limits import SHARD_QUEUE_SUBMISSIONS_MAX
from penstock.runtime.effective_priority import Recency, effective_priority
from penstock.runtime.governor import Ladder
from penstock.server.admission_queue import AdmissionQueue, Obstacle, PendingAppend
from penstock.server.append_coalescing import AppendRun, AppendRuns
from penstock.server.appends import Answer, TopicWrite
from penstock.server.audit_writer import AuditWriter
from penstock.server.delivery_scheduler import DeliveryScheduler
from penstock.server.errors import throttled
from penstock.server.feeds import Feeds
from penstock.server.http import bodies
from penstock.server.loop_bridge import Bridge, Relay
from penstock.server.storage_quota import StorageQuota
from penstock.server.sync_turns import SyncTurns
from penstock.topics import validation
from penstock.types import (
    Appended,
    FramesPage,
    JsonPage,
    Removed,
    TopicConfig,
    TopicInfo,
)
from penstock.wire.models import WriteOptions

T = TypeVar("T")
_THREADS = 8
_COLD_THREADS = 4
_QUEUE_LONG = SHARD_QUEUE_SUBMISSIONS_MAX // 4
_logger = logging.getLogger("penstock.server")


class Service:
    """Event loop only. `core` is set when recovery has ended."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, clock: Clock, *, total_bytes_max: int
    ) -> None:
        self.clock = clock
        self.bridge = Bridge(loop)
        self.recency = Recency()
        self.delivery = DeliveryScheduler(loop, clock, self._busy, self._throttle)
        self.feeds = Feeds(self.bridge, self.delivery, self.priority)
        self._admission_queue = AdmissionQueue(loop, self._submit, self._overcome, self.bridge.post)
        self._runs = AppendRuns(self)
        self._sync_turns = SyncTurns(lambda handle: self.run(self.core.sync_all, handle))
        self._running = 0  # calls on the threads, waiting ones included
        self.writes_throttled = 0
        self._loop = loop
        self._core: LogCore | None = None
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="penstock-work")
        # Reads of a slow cold tier must not occupy the threads that use the disk.
        self._cold_threads = ThreadPoolExecutor(_COLD_THREADS, thread_name_prefix="penstock-cold")
        self._audit_writer = AuditWriter(self.bridge, self._push_soon)
        self._unpushed: dict[str, Pushable] = {}  # one for each shard that waits
        self._is_end_scheduled = False  # of this turn of the loop
        self.is_stopping = False
        self._kept: set[asyncio.Future[Any]] = set()
        self._quota = StorageQuota(total_bytes_max, self._live_bytes)

    @property
    def core(self) -> LogCore:
        if self._core is None:
            raise AssertionError("the log is not open yet")
        return self._core

    @property
    def is_open(self) -> bool:
        return self._core is not None

    def adopt(self, core: LogCore) -> None:
        self._core = core
        core.routing.router_thread.priority_of = self.priority

    async def run(self, call: Callable[..., T], *args: Any, **named: Any) -> T:
        """Run a call that may wait for a disk on a thread, after all earlier appends."""
        self._runs.submit_all()
        self._running += 1
        self.delivery.stir()
        try:
            return await self._loop.run_in_executor(self._threads, lambda: call(*args, **named))
        finally:
            self._running -= 1

    async def submit(self, call: Callable[..., None], *args: Any, **named: Any) -> Any:
        """Call a verb of the log that answers by callback, and wait for its answer here: no thread
        waits for the disk. Raises the answer when it is an error."""
        waiting: asyncio.Future[Any] = self._loop.create_future()

        def answered(answer: Any) -> None:
            if not waiting.done():
                waiting.set_result(answer)

        call(*args, **named, done=Relay(self.bridge, answered).post, push=self._push_soon)
        answer = await waiting
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        """Blocks: commits, syncs, seals. Not on the loop."""
        self._cold_threads.shutdown(wait=False, cancel_futures=True)
        self._threads.shutdown(wait=True)
        self._audit_writer.close()
        if self._core is not None:
            self._core.close()

    # Pressure.

    def priority(self, handle: Handle) -> int:
        """The current priority of a topic. Any thread."""
        config = handle.config
        return effective_priority(
            config.priority,
            is_auto=config.auto_priority,
            last_read_ms=self.recency.last_read_ms(handle.id),
            now_ms=self.clock.now_ms(),
        )

    def _busy(self) -> tuple[int, float]:
        waiting = 0 if self._core is None else self._core.routing.router_thread.depth
        return waiting, min(1.0, self._running / _THREADS)

    def _throttle(self, ladder: Ladder) -> None:
        """Apply the ladder to the log: defer routers, widen the commit window."""
        if self._core is None:
            return
        self._core.routing.router_thread.defer(ladder.is_deferring)
        self._core.widen_commits(ladder.commit_window_ms)

    def keep(self, task: asyncio.Future[Any]) -> None:
        """Keep a reference to a background task until it is done."""
        self._kept.add(task)
        task.add_done_callback(self._kept.discard)

    def audit(self, act: str, fields: dict[str, Any]) -> None:
        """Record an act in the audit, and do not wait for it."""
        if self._core is not None:
            self._audit_writer.note(act, fields)
            self.end_turn_soon()

    # Topics.

    def handle(self, topic: str) -> Handle:
        """The open topic. TopicNotFound also for an invalid name."""
        handle = self.core.catalogue.find(topic)
        if handle is None or validation.is_internal(topic):
            raise TopicNotFound(topic)
        return handle

    async def create(self, topic: str, config: dict[str, Any]) -> tuple[TopicInfo, bool]:
        """Create or configure; (the topic, whether it is new)."""
        if self.core.catalogue.find(topic) is None and await self._ensure(topic, config):
            return self.core.catalogue.info(self.handle(topic)), True
        info, is_new = await self.run(self._configure, topic, config)
        if is_new:  # it was dropped meanwhile
            self.feeds.created(topic)
        else:
            self._announce_change(topic)
        return info, is_new

    def _configure(self, topic: str, config: dict[str, Any]) -> tuple[TopicInfo, bool]:
        with self.core.catalogue.changing:
            is_new = self.core.catalogue.find(topic) is None
            return self.core.create(topic, config), is_new

    def delete(
        self,
        topic: str,
        before_seq: int | None,
        match: Any,
        seqs: Sequence[int],
        done: Callable[[Removed | Exception], None],
    ) -> None:
        """Delete records. Later reads do not return them. `done` is called on the loop, later, with
        the answer. Errors that are known at once are raised."""
        handle = self.handle(topic)
        tag = None if match is None else validation.tag_match(match)
        self._runs.submit(topic)  # earlier appends are deleted too

        def deleted(outcome: Removed | Exception) -> None:
            if isinstance(outcome, Removed):
                self.feeds.changed(handle)
            done(outcome)

        relay = Relay(self.bridge, deleted)
        catalogue, push = self.core.catalogue, self._push_soon
        if not deletion.submit(catalogue, handle, before_seq, tag, seqs, relay.post, push):
            # It has to read files first.
            work = self.run(deletion.delete, catalogue, handle, before_seq, tag, seqs)
            self.keep(asyncio.ensure_future(_told(work, relay.post)))

    def _announce_change(self, topic: str) -> None:
        handle = self.core.catalogue.find(topic)
        if handle is not None:
            self.feeds.changed(handle)

    # Appends.

    def append(
        self,
        topic: str,
        batch: Batch,
        options: WriteOptions,
        done: Callable[[Answer], None],
        *,
        placed: Callable[[], None] | None = None,
        check: Callable[[TopicConfig], None] | None = None,
    ) -> bool:
        """Append a batch: the one entry point for every protocol. `done` is called on the loop with
        the answer. Errors that are known at once are raised.

        Appends to a topic happen in the order of these calls. True when this one has its place in
        that order already; otherwise it waits in the topic's queue, and `placed` is called when it
        has left it. `check` is called right before the append is submitted.
        """
        if options.is_for_later:
            batch = self.core.queues.timing.later(batch, options)
        is_admitted = False
        is_pressed = self.delivery.ladder.retry_after_s is not None
        run = None if is_pressed else self._runs.open.get(topic)
        if run is not None and placed is None:
            is_admitted = self._admit(run.handle, batch)
            if run.add(batch, options, done):  # as most appends to a busy topic do
                return True
        handle = self.core.catalogue.find(topic)
        queue = self._admission_queue
        if handle is None or handle.is_dropped or queue.has(topic):
            append = PendingAppend(topic, batch, options, done, placed, check)
            if queue.has(topic):
                queue.add(append)
            else:
                check_creation(topic, options)
                queue.add(append, Obstacle.TOPIC_MISSING)
            return False
        if not is_admitted:
            self._admit(handle, batch)
        if not is_pressed and placed is None and self._runs.add(handle, batch, options, done):
            return True
        self._runs.submit(topic)
        append = PendingAppend(topic, batch, options, done, placed, check)
        append.is_admitted = True
        if queue.has(topic):  # there was no room for those before it
            queue.add(append)
            return False
        try:
            if is_pressed:
                self._check_pressure(handle)
            obstacle = self._submit(append)
        except Overloaded as error:
            self._refuse(append, error)
            return False
        if obstacle is not None:
            queue.add(append, obstacle)
        return obstacle is None

    def _refuse(self, append: PendingAppend, error: Overloaded) -> None:
        """There is no room: queue the append if its caller waits or others wait, else raise."""
        if not append.options.disable_backpressure and not self._admission_queue.has(append.topic):
            self.writes_throttled += 1
            raise error
        self._admission_queue.add(append)

    def _check_pressure(self, handle: Handle) -> None:
        """Near the top of the ladder a long queue is treated like a full one."""
        retry_after_ms = (self.delivery.ladder.retry_after_s or 0) * 1000
        if handle.queue_depth >= _QUEUE_LONG:
            raise Overloaded(
                f"server overloaded: retry after {retry_after_ms} ms", retry_after_ms=retry_after_ms
            )

    def _submit(self, append: PendingAppend) -> Obstacle | None:
        """Pass an append to the log, or return the obstacle."""
        handle = self.core.catalogue.find(append.topic)
        batch = append.batch
        if handle is None or handle.is_dropped:
            check_creation(append.topic, append.options)
            return Obstacle.TOPIC_MISSING
        if append.check is not None:
            append.check(handle.config)
        if not append.is_admitted:
            append.is_admitted = self._admit(handle, batch)
        if handle.is_short_of_seqs(batch.count):
            return Obstacle.SEQS_MISSING
        self.core.submit_to(
            handle,
            batch,
            Relay(self.bridge, functools.partial(self._resolve, append)).post,
            append.options,
            self._push_soon,
            append.placed is None,
        )
        return None

    def _resolve(self, append: PendingAppend, outcome: Outcome) -> None:
        if append.waited_s:
            self.core.note_wait(outcome, append.waited_s)
        answer = self.core.answer(outcome, append.batch)
        if append.is_new_topic and isinstance(answer, Appended):
            answer = msgspec.structs.replace(answer, created=not answer.deduped)
        append.done(answer)

    def _overcome(
        self, append: PendingAppend, obstacle: Obstacle, then: Callable[[Exception | None], None]
    ) -> None:
        """A topic in memory reserves its next million seqs, and that waits for a sync, as a new
        topic does."""
        if obstacle is Obstacle.TOPIC_MISSING:

            def created(is_new: bool | Exception) -> None:
                append.is_new_topic = is_new is True
                if isinstance(is_new, StorageError):  # the caller is not told the path
                    _logger.error("topic %r could not be created: %s", append.topic, is_new)
                then(is_new if isinstance(is_new, Exception) else None)

            config = append.options.config
            given = {} if config is None else bodies.config_of(config)
            self._submit_create(append.topic, given, created)
        else:
            self._threads.submit(self._reserve, self.handle(append.topic), append.batch.count, then)

    def _reserve(
        self, handle: Handle, count: int, then: Callable[[Exception | None], None]
    ) -> None:
        """On a thread."""
        error: Exception | None = None
        try:
            self.core.reserve(handle, count)
        except Exception as caught:  # noqa: BLE001 - told on the loop
            error = caught
        self.bridge.post(then, error)

    def _submit_create(
        self, topic: str, config: dict[str, Any], done: Callable[[bool | Exception], None]
    ) -> None:
        """Create a missing topic. `done` is called on the loop, later: did this call create it?"""

        def told(outcome: bool | Exception) -> None:
            if outcome is True:
                self.feeds.created(topic)
            elif isinstance(outcome, Overloaded) and outcome.limit is not None:
                outcome = throttled(*outcome.limit)
            done(outcome)

        def created(found: Handle | PenstockError, is_new: bool) -> None:
            self.bridge.post(told, found if isinstance(found, PenstockError) else is_new)

        try:
            self.core.catalogue.submit_create(topic, config, created, self._push_soon)
        except PenstockError as error:
            self.bridge.post(told, error)

    async def _ensure(self, topic: str, config: dict[str, Any]) -> bool:
        """Create a topic unless it exists; true when this call created it."""
        waiting: asyncio.Future[bool | Exception] = self._loop.create_future()

        def created(outcome: bool | Exception) -> None:
            if not waiting.done():
                waiting.set_result(outcome)

        self._submit_create(topic, config, created)
        outcome = await waiting
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _push_soon(self, submitted: Pushable) -> None:
        """Wake a shard once for all that arrived with this turn of the loop: its thread would
        otherwise compete with the loop for the interpreter after every request."""
        self._unpushed[submitted.shard_group] = submitted
        self.end_turn_soon()

    def end_turn_soon(self) -> None:
        """Submit the appends and the acts of this turn of the loop, and wake the shards, at its
        end."""
        if not self._is_end_scheduled:
            self._is_end_scheduled = True
            self._loop.call_soon(self._end_turn)

    def submit_run(self, run: AppendRun) -> None:
        """Pass the appends of one turn to the log, as one batch."""
        self.core.submit_to(run.handle, run.batch(), run.post, push=self._push_soon)

    def refuse_run(self, run: AppendRun, error: Overloaded) -> None:
        """There is no room for the appends of one turn."""
        for batch, options, done in run.members:
            append = PendingAppend(run.handle.name, batch, options, done)
            append.is_admitted = True
            try:
                self._refuse(append, error)
            except Overloaded:
                self.bridge.post(done, error)

    def is_waiting(self, topic: str) -> bool:
        """True if appends wait for this topic."""
        return self._admission_queue.has(topic)

    def _end_turn(self) -> None:
        self._runs.submit_all()
        if self._audit_writer.acts:
            self._audit_writer.submit(self.core.audit)
        self._is_end_scheduled = False
        unpushed, self._unpushed = self._unpushed, {}
        for submitted in unpushed.values():
            submitted.push()

    def _admit(self, handle: Handle, batch: Batch) -> bool:
        """Count an append towards the quota. A repeated append is not refused for lack of room: it
        adds nothing."""
        if self._quota.is_set and not self.core.has_key(handle, batch.key):
            self._quota.admit(batch.payload_bytes)
        return True

    @contextlib.contextmanager
    def room_for(self, size: int) -> Iterator[None]:
        """Count an append that does not pass `append` towards the quota; inside, it is queued."""
        if self._quota.is_set:
            self._quota.admit(size)
        with self._quota.under_way(size):
            yield

    def _live_bytes(self) -> int:
        """The payload bytes of all topics, and of appends that wait."""
        waiting = self._admission_queue.waiting_bytes + self._runs.waiting_bytes
        return self.core.catalogue.payload_bytes() + waiting

    async def append_batch(self, writes: Sequence[TopicWrite]) -> list[Appended]:
        """Append to several topics, everything or nothing. Missing topics are created. The batch
        waits in the queue of each of its topics, and keeps other appends waiting behind it."""
        for write in writes:
            self._runs.submit(write.topic)
        hold = await self._admission_queue.hold([write.topic for write in writes])
        size = sum(write.batch.payload_bytes for write in writes)
        try:
            parts = []
            for write in writes:
                is_new = await self._create_for(write)
                handle = self.handle(write.topic)
                parts.append(TopicAppend(handle, write.batch, is_new, write.options))
            if self._quota.is_set and not all(
                self.core.has_key(part.handle, part.batch.key) for part in parts
            ):
                self._quota.admit(size)
            with self._quota.under_way(size):
                return await self.run(self.core.append_parts, parts)
        finally:
            self._admission_queue.release(hold)

    async def _create_for(self, write: TopicWrite) -> bool:
        options = write.options
        if self.core.catalogue.find(write.topic) is not None:
            return False
        check_creation(write.topic, options)
        config = {} if options.config is None else bodies.config_of(options.config)
        return await self._ensure(write.topic, config)

    def has_key(self, topic: str, key: bytes) -> bool:
        """True if a batch with this key would add nothing to the topic."""
        handle = self.core.catalogue.find(topic)
        return handle is not None and self.core.has_key(handle, key)

    def config_of(self, topic: str) -> TopicConfig | None:
        """The configuration of a topic; None when there is none."""
        handle = self.core.catalogue.find(topic)
        return None if handle is None else handle.config

    async def sync(self, topics: Iterable[str]) -> None:
        """Return when everything that can be read of these topics is past a sync. Deleted topics,
        and topics whose appends are always synced, are left out."""
        found = [self.core.catalogue.find(topic) for topic in topics]
        handles = [one for one in found if one is not None and one.config.durability != "fsync"]
        if len(handles) == 1:
            await self._sync_turns.sync(handles[0])
        else:
            await asyncio.gather(*[self._sync_turns.sync(handle) for handle in handles])

    # Reads.

    def read_hot(
        self,
        handle: Handle,
        after: int,
        epoch: int | None,
        wanted: ReadOptions,
        *,
        is_stream: bool = False,
    ) -> JsonPage | None:
        """A page from memory; None when it needs `read`."""
        return read.read_hot(handle, after, epoch, wanted, is_stream=is_stream)

    def frames_hot(
        self, handle: Handle, after: int, epoch: int | None, wanted: ReadOptions
    ) -> FramesPage | None:
        """The same as frames."""
        return read.frames_hot(handle, after, epoch, wanted)

    async def read(
        self,
        handle: Handle,
        after: int,
        epoch: int | None,
        wanted: ReadOptions,
        *,
        is_strong: bool = False,
    ) -> JsonPage:
        """A page from memory or disk. A strong read returns only synced records."""
        return await self._paged(read.read_json, handle, after, epoch, wanted, is_strong)

    async def read_frames(
        self,
        handle: Handle,
        after: int,
        epoch: int | None,
        wanted: ReadOptions,
        *,
        is_strong: bool = False,
    ) -> FramesPage:
        return await self._paged(read.read_frames, handle, after, epoch, wanted, is_strong)

    async def _paged(self, reader: Callable[..., T], handle: Handle, after: int, *rest: Any) -> T:
        """As `_read`, on a thread that may wait as long as this page takes."""
        if not read.is_cold(handle, after):
            return await self.run(self._read, reader, handle, after, *rest)
        call = functools.partial(self._read, reader, handle, after, *rest)
        return await self._loop.run_in_executor(self._cold_threads, call)

    def _read(
        self,
        reader: Callable[[Handle, int, int | None, ReadOptions], T],
        handle: Handle,
        after: int,
        epoch: int | None,
        wanted: ReadOptions,
        is_strong: bool,
    ) -> T:
        self.core.catalogue.refresh(handle)
        page = reader(handle, after, epoch, wanted)
        if is_strong and handle.config.durability != "fsync":
            self.core.sync_all(handle)
        return page

    def touch(self, handle: Handle) -> None:
        """Record that a client has read this topic."""
        self.recency.touch(handle.id, self.clock.now_ms())


async def _told(work: Awaitable[T], done: Callable[[T | Exception], None]) -> None:
    """Wait for a call and pass on its outcome."""
    outcome: T | Exception
    try:
        outcome = await work
    except Exception as error:  # noqa: BLE001 - it is the answer
        outcome = error
    done(outcome)


def check_creation(topic: str, options: WriteOptions) -> None:
    """Check that an append with these options may create this topic, or raise."""
    may_create = options.create
    if may_create is None:
        config = {} if options.config is None else bodies.config_of(options.config)
        may_create = bool(config.get("auto_create", True))
    if not may_create:
        raise TopicNotFound(topic)
    validation.topic_name(topic)
