"""The verbs as the outside may call them: the one bridge between the event loop and the log.

The loop never waits for a disk. Appends are queued and answered by callback; reads of records
that are still in memory happen at once; everything else runs on a few threads.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from penstock.clock import Clock
from penstock.engine.batch import Batch
from penstock.engine.engine import Log, Outcome
from penstock.engine.handle import Handle
from penstock.engine.multi import Part
from penstock.engine.read import ReadOptions, is_cold, read_frames, read_json
from penstock.errors import Overloaded, PenstockError, TopicNotFound
from penstock.limits import SHARD_QUEUE_SUBMISSIONS_MAX
from penstock.runtime.governor import Ladder
from penstock.runtime.priority import Recency, effective_priority
from penstock.server.bridge import Bridge, Relay
from penstock.server.delivery import Delivery
from penstock.server.errors import throttled
from penstock.server.feeds import Feeds
from penstock.server.patience import Patience
from penstock.topics import names
from penstock.types import Appended, FramesPage, JsonPage, Removed, TopicInfo

T = TypeVar("T")
Late = tuple[Handle, Batch, Callable[[Outcome], None], int | None]
_THREADS = 8
_COLD_THREADS = 4
_QUEUE_LONG = SHARD_QUEUE_SUBMISSIONS_MAX // 4
_note = logging.getLogger("penstock.server")


class Service:
    """Event loop only. `log` is there once recovery is over."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, clock: Clock, *, total_bytes_max: int
    ) -> None:
        self.clock = clock
        self.bridge = Bridge(loop)
        self.recency = Recency()
        self.delivery = Delivery(loop, clock, self._busy, self._throttle)
        self.feeds = Feeds(self.bridge, self.delivery, self.priority)
        self._patience = Patience(loop, self._submit, Log.note_wait)
        self._running = 0  # calls on the threads, waiting ones included
        self.writes_throttled = 0
        self._loop = loop
        self._log: Log | None = None
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="penstock-work")
        # Who waits for a slow cold tier keeps nobody from the disk.
        self._patient = ThreadPoolExecutor(_COLD_THREADS, thread_name_prefix="penstock-cold")
        self._scribe = ThreadPoolExecutor(1, thread_name_prefix="penstock-audit")  # in their order
        self._making: dict[str, tuple[asyncio.Lock, int]] = {}  # and how many wait for it
        self._late: dict[int, deque[Late]] = {}  # by topic: appends that wait for seqs
        self._unpushed: dict[int, Handle] = {}  # one topic for each shard that waits
        self.is_stopping = False
        self._kept: set[asyncio.Future[Any]] = set()
        self._total_bytes_max = total_bytes_max
        self._total_bytes = 0  # never below the truth while only appends happen
        self._parts_bytes = 0  # of batches over several topics that are under way

    @property
    def log(self) -> Log:
        if self._log is None:
            raise AssertionError("the log is not open yet")
        return self._log

    @property
    def is_open(self) -> bool:
        return self._log is not None

    def adopt(self, log: Log) -> None:
        self._log = log
        log.routing.forwarder.priority_of = self.priority

    async def run(self, call: Callable[..., T], *args: Any, **named: Any) -> T:
        """Anything that may wait for a disk."""
        self._running += 1
        self.delivery.stir()
        try:
            return await self._loop.run_in_executor(self._threads, lambda: call(*args, **named))
        finally:
            self._running -= 1

    def close(self) -> None:
        """Blocks: commits, syncs, seals. Not on the loop."""
        self._patient.shutdown(wait=False, cancel_futures=True)
        self._threads.shutdown(wait=True)
        self._scribe.shutdown(wait=True)
        if self._log is not None:
            self._log.close()

    # Pressure.

    def priority(self, handle: Handle) -> int:
        """How important a topic is now. Any thread."""
        config = handle.topic.config
        return effective_priority(
            config.priority,
            is_auto=config.auto_priority,
            last_read_ms=self.recency.last_read_ms(handle.topic.id),
            now_ms=self.clock.now_ms(),
        )

    def _busy(self) -> tuple[int, float]:
        waiting = 0 if self._log is None else self._log.routing.forwarder.depth
        return waiting, min(1.0, self._running / _THREADS)

    def _throttle(self, ladder: Ladder) -> None:
        """What the log has to do of it."""
        if self._log is None:
            return
        self._log.routing.forwarder.defer(ladder.is_deferring)
        for shard in self._log.parts.shards:
            shard.widen(ladder.commit_window_ms)

    def keep(self, task: asyncio.Future[Any]) -> None:
        """Hold on to work that nobody waits for, until it is done."""
        self._kept.add(task)
        task.add_done_callback(self._kept.discard)

    def audit(self, act: str, fields: dict[str, Any]) -> None:
        """Write an act down, on a thread. One that cannot be is told in the server's log."""
        if self._log is not None:
            self._scribe.submit(self._audit, act, fields)

    def _audit(self, act: str, fields: dict[str, Any]) -> None:
        try:
            self.log.audit.note(act, **fields)
        except PenstockError as error:
            _note.error("not in the audit: %s %s: %s", act, fields, error)

    # Topics.

    def find(self, topic: str) -> Handle | None:
        """The topic at work, or None. While writes that came first are waiting for its creation
        it is not there yet: nobody overtakes them."""
        handle = None if topic in self._making else self.log.find(topic)
        # The log's own topics are nobody's business.
        return None if handle is None or topic.startswith("_") else handle

    def handle(self, topic: str) -> Handle:
        """The topic at work. A name that cannot exist is not found either."""
        handle = self.log.find(topic)
        if handle is None or topic.startswith("_"):
            raise TopicNotFound(topic)
        return handle

    async def create(self, topic: str, config: dict[str, Any]) -> tuple[TopicInfo, bool]:
        """Create or configure; (the topic, whether it is new)."""
        info, is_new = await self.run(self._create, topic, config)
        if is_new:
            self.feeds.created(topic)
        else:
            self._tell_changed(topic)
        return info, is_new

    def _create(self, topic: str, config: dict[str, Any]) -> tuple[TopicInfo, bool]:
        log = self.log
        names.topic_name(topic)
        most = log.parts.settings.max_topics
        with log.changing:
            is_new = log.find(topic) is None
            if is_new and most and log.count >= most:
                raise throttled("max_topics", most)
            return log.create(topic, **config), is_new

    async def ensure(self, topic: str, config: dict[str, Any]) -> bool:
        """Make sure that a topic exists for a write; true when this call made it. An existing
        one keeps its configuration. Calls for one topic return in their order."""
        lock, waiting = self._making.get(topic) or (asyncio.Lock(), 0)
        self._making[topic] = lock, waiting + 1
        try:
            async with lock:
                if self.log.find(topic) is not None:
                    return False
                return await self.run(self._ensure, topic, config) and self._tell_created(topic)
        finally:
            waiting = self._making[topic][1] - 1
            if waiting:
                self._making[topic] = lock, waiting
            else:
                del self._making[topic]

    def _ensure(self, topic: str, config: dict[str, Any]) -> bool:
        with self.log.changing:
            return self.log.find(topic) is None and self._create(topic, config)[1]

    async def delete(
        self, topic: str, before_seq: int | None, match: Any, seqs: Sequence[int] = ()
    ) -> Removed:
        """Delete records. Nobody who comes later is shown them."""
        removed = await self.run(self.log.delete, topic, before_seq, match, seqs=seqs)
        self._tell_changed(topic)
        return removed

    def _tell_changed(self, topic: str) -> None:
        handle = self.log.find(topic)
        if handle is not None:
            self.feeds.changed(handle)

    def _tell_created(self, topic: str) -> bool:
        self.feeds.created(topic)
        return True

    # Appends.

    def append(
        self,
        handle: Handle,
        batch: Batch,
        resolved: Callable[[Outcome], None],
        expected_seq: int | None = None,
        *,
        is_patient: bool = False,
    ) -> None:
        """Queue an append; `resolved` is called on the loop. Raises what can be known at once.
        `log.answer` tells what an outcome means. A patient one waits where others are refused."""
        self._admit(handle, batch)
        if self._patience.has(handle):
            self._patience.wait(handle, batch, resolved, expected_seq)
            return
        try:
            if self.delivery.ladder.retry_after_s is not None:
                self._check_pressure(handle)
            self._submit(handle, batch, resolved, expected_seq)
        except Overloaded:
            if not is_patient:
                self.writes_throttled += 1
                raise
            self._patience.wait(handle, batch, resolved, expected_seq)

    def append_in_turn(
        self, handle: Handle, batch: Batch, resolved: Callable[[Outcome], None]
    ) -> None:
        """Queue an append at once or refuse it: kept waiting here, it could be overtaken by the
        next one of its sender."""
        short = handle.is_short_of_seqs(batch.count)
        if short or handle.topic.id in self._late or self._patience.has(handle):
            raise Overloaded("others wait for this topic", retry_after_ms=2)
        if self.delivery.ladder.retry_after_s is not None:
            self._check_pressure(handle)
        self._admit(handle, batch)
        relay = Relay(self.bridge, resolved)
        self.log.submit_to(handle, batch, relay.post, None, self._push_soon, may_defer=False)

    def _check_pressure(self, handle: Handle) -> None:
        """Near the top a queue that is long is as good as full."""
        retry_after_s = self.delivery.ladder.retry_after_s or 0
        if handle.shard.queue_depth >= _QUEUE_LONG:
            raise Overloaded("the server is pressed hard", retry_after_ms=retry_after_s * 1000)

    def _submit(
        self,
        handle: Handle,
        batch: Batch,
        resolved: Callable[[Outcome], None],
        expected_seq: int | None,
    ) -> None:
        if self._late or handle.is_short_of_seqs(batch.count):
            self._submit_late((handle, batch, resolved, expected_seq))
        else:
            relay = Relay(self.bridge, resolved)
            self.log.submit_to(handle, batch, relay.post, expected_seq, self._push_soon)

    def _submit_late(self, late: Late) -> None:
        """A topic in memory reserves its next million seqs, and that waits for a sync. Whoever
        comes meanwhile waits behind, so that nobody overtakes."""
        handle, batch, resolved, expected_seq = late
        queue = self._late.get(handle.topic.id)
        if queue is not None:
            queue.append(late)
        elif handle.is_short_of_seqs(batch.count):
            self._late[handle.topic.id] = deque([late])
            self._threads.submit(self._reserve, handle, batch.count)
        else:
            relay = Relay(self.bridge, resolved)
            self.log.submit_to(handle, batch, relay.post, expected_seq, self._push_soon)

    def _push_soon(self, handle: Handle) -> None:
        """Wake a shard once for all that arrived with this turn of the loop: its thread would
        otherwise fight the loop for the interpreter after every request."""
        if not self._unpushed:
            self._loop.call_soon(self._push)
        self._unpushed.setdefault(id(handle.shard), handle)

    def _push(self) -> None:
        handles, self._unpushed = self._unpushed, {}
        for handle in handles.values():
            handle.push()

    def _reserve(self, handle: Handle, count: int) -> None:
        """On a thread: get the seqs, then go on where it was."""
        error: PenstockError | None = None
        try:
            self.log.reserve(handle, count)
        except PenstockError as caught:
            error = caught
        self.bridge.post(self._reserved, (handle, error))

    def _reserved(self, outcome: tuple[Handle, PenstockError | None]) -> None:
        handle, error = outcome
        queue = self._late.pop(handle.topic.id)
        if error is not None:  # for the first; who waits behind it finds out for itself
            queue.popleft()[2](error)
        for late in queue:
            try:
                self._submit_late(late)
            except PenstockError as refusal:
                late[2](refusal)

    def _admit(self, handle: Handle, batch: Batch) -> None:
        """What the topic has already is not refused for want of room: it adds nothing."""
        if self._total_bytes_max and not self.log.has_key(handle, batch.key):
            self.admit_bytes(batch.payload_bytes)

    def admit_bytes(self, incoming: int) -> None:
        """Hold the quota on all live payload bytes. Counted up here, and afresh when it seems to
        be reached: deletes and evictions make room without telling."""
        most = self._total_bytes_max
        if self._total_bytes + incoming > most:
            late = sum(one[1].payload_bytes for queue in self._late.values() for one in queue)
            handles = [one for name, one in list(self.log.parts.handles.items()) if name[0] != "_"]
            # In this order: bytes move from the first to the second while we look.
            known = sum(one.staged_bytes + one.topic.bytes for one in handles)
            self._total_bytes = known + late + self._parts_bytes
        if self._total_bytes + incoming > most:
            raise throttled("max_total_bytes", most)
        self._total_bytes += incoming

    async def append_parts(self, parts: list[Part]) -> list[Appended]:
        """Append to several topics, everything or nothing."""
        size = sum(part.batch.payload_bytes for part in parts)
        if self._total_bytes_max and not all(
            self.log.has_key(part.handle, part.batch.key) for part in parts
        ):
            self.admit_bytes(size)
        self._parts_bytes += size
        try:
            return await self.run(self.log.append_parts, parts)
        finally:
            self._parts_bytes -= size

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
        return self.log.read_hot(handle, after, epoch, wanted, is_stream=is_stream)

    def frames_hot(
        self, handle: Handle, after: int, epoch: int | None, wanted: ReadOptions
    ) -> FramesPage | None:
        """The same as frames."""
        return self.log.frames_hot(handle, after, epoch, wanted)

    async def read(
        self,
        handle: Handle,
        after: int,
        epoch: int | None,
        wanted: ReadOptions,
        *,
        is_strong: bool = False,
    ) -> JsonPage:
        """A page from wherever it is. A strong one holds only what is past a sync."""
        return await self._paged(read_json, handle, after, epoch, wanted, is_strong)

    async def read_frames(
        self,
        handle: Handle,
        after: int,
        epoch: int | None,
        wanted: ReadOptions,
        *,
        is_strong: bool = False,
    ) -> FramesPage:
        return await self._paged(read_frames, handle, after, epoch, wanted, is_strong)

    async def _paged(self, reader: Callable[..., T], handle: Handle, after: int, *rest: Any) -> T:
        """As `_read`, on a thread that may wait as long as this page takes."""
        if not is_cold(handle, after):
            return await self.run(self._read, reader, handle, after, *rest)
        call = functools.partial(self._read, reader, handle, after, *rest)
        return await self._loop.run_in_executor(self._patient, call)

    def _read(
        self,
        reader: Callable[[Handle, int, int | None, ReadOptions], T],
        handle: Handle,
        after: int,
        epoch: int | None,
        wanted: ReadOptions,
        is_strong: bool,
    ) -> T:
        self.log.refresh(handle)
        page = reader(handle, after, epoch, wanted)
        if is_strong and handle.topic.config.durability != "fsync":
            self.log.harden(handle)
        return page

    def touch(self, handle: Handle) -> None:
        """Somebody read this topic."""
        self.recency.touch(handle.topic.id, self.clock.now_ms())
