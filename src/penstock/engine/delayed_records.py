"""Delayed records: an append to a plain topic whose records become visible at a later time.

Until then they are one record of an internal queue, durable at once. When their time has come,
`delayed_delivery` appends them to their topic.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from penstock import forks
from penstock.append_options import AppendOptions
from penstock.clock import Clock
from penstock.engine import delayed_batch, read
from penstock.engine.append import Appender
from penstock.engine.batch import Batch
from penstock.engine.catalogue import Catalogue
from penstock.engine.delayed_delivery import DelayedDelivery
from penstock.engine.handle import Handle
from penstock.engine.internal_topics import DELAYED
from penstock.engine.job_timing import JobTiming
from penstock.engine.journal import check_open
from penstock.entries import RecordsDeleted
from penstock.errors import (
    AlreadyDelivered,
    DelayedNotFound,
    InvalidArgument,
    NotAQueue,
    Overloaded,
    PenstockError,
    TopicFull,
)
from penstock.limits import DELAYED_BATCHES_MAX
from penstock.storage.wal.pending_commit import PendingCommit
from penstock.topics import validation
from penstock.topics.leases import dropped
from penstock.types import Appended, DelayedBatch, DelayedInfo, Record

if TYPE_CHECKING:
    from penstock.engine.opening import LogContext

T = TypeVar("T")
Resolved = Callable[[Appended | PenstockError], None]


class DelayedRecords:
    """Safe from several threads. In a forked child every use raises Closed."""

    def __init__(
        self,
        parts: LogContext,
        catalogue: Catalogue,
        timing: JobTiming,
        append: Callable[[Handle, Batch], Appended],
    ) -> None:
        self._handles = parts.handles
        self._catalogue = catalogue
        self._appender: Appender = parts.appender
        self._clock: Clock = parts.clock
        self._timing = timing
        self._timeout_s = parts.settings.append_timeout_s
        self.delivery = DelayedDelivery(parts, catalogue, timing, append)
        self._owner_pid = forks.pid()
        forks.add(self)

    def leave_to_parent(self) -> None:
        """In a forked child."""
        left = forks.LeftToParent("log", self._owner_pid)
        self.__dict__.update(dict.fromkeys(self.__dict__, left))

    # What callers ask.

    def batches(self, topic: str, after: int = 0, limit: int = 256) -> list[DelayedBatch]:
        """The delayed batches of a topic with an id past `after`, by their ids."""
        return self._list(topic, after, limit, _shown)

    def infos(self, topic: str, after: int = 0, limit: int = 256) -> list[DelayedInfo]:
        """The same without the records."""
        return self._list(topic, after, limit, _info)

    def _list(
        self, topic: str, after: int, limit: int, show: Callable[[str, _Logged], T]
    ) -> list[T]:
        handle = self._catalogue.get(topic)
        store = self._handles.get(DELAYED.name)
        wanted = read.options(limit, None, None, str(handle.id))
        found: list[T] = []
        validation.seq(after)
        while store is not None and len(found) < wanted.limit:
            page = read.read_json(store, after, None, wanted)
            some = _LOGGED.decode(page.records)
            with store.lock:
                delayed = [one for one in some if self._is_delayed(store, one.seq)]
            found += [show(topic, one) for one in delayed[: wanted.limit - len(found)]]
            after = page.next_seq
            if page.caught_up:
                break
        return found

    def cancel(self, topic: str, ids: Sequence[int]) -> int:
        """Remove delayed batches; how many were still delayed. Durable on return."""
        handle = self._catalogue.get(topic)
        store = self._handles.get(DELAYED.name)
        for one in ids:
            validation.seq(one)
        if store is None:
            return 0
        self._catalogue.check_writable(store)
        own = self.delivery.tags(store, sorted({*ids}))
        wanted = [seq for seq in ids if own.get(seq) == str(handle.id)]
        with store.lock:
            check_open(store)
            queue = store.topic.queue
            there = tuple([seq for seq in dict.fromkeys(wanted) if self._is_delayed(store, seq)])
            if not there:
                return 0
            commit = self._catalogue.journal.submit(
                store,
                (RecordsDeleted(store.id, None, None, there, store.next_seq - 1),),
                steps=(
                    dropped(queue.delayed, there),
                    dropped(queue.leases, there),
                    (self.delivery.stuck.difference_update, there),
                    (queue.offered.update, there),
                ),
            )
        self._catalogue.journal.wait(store, commit)
        return len(there)

    def cancel_one(self, topic: str, delayed_id: int) -> None:
        """Remove one delayed batch, or raise DelayedNotFound or AlreadyDelivered. Durable on
        return."""
        if self.cancel(topic, [delayed_id]):
            return
        store = self._handles.get(DELAYED.name)
        if store is None or not 0 < delayed_id <= store.head:
            raise DelayedNotFound(topic, delayed_id)
        own = self.delivery.tags(store, [delayed_id])
        if own.get(delayed_id, "") not in ("", str(self._catalogue.get(topic).id)):
            raise DelayedNotFound(topic, delayed_id)  # of another topic
        raise AlreadyDelivered(topic, delayed_id)

    # Appends.

    def append(
        self, handle: Handle, created: bool, batch: Batch, options: AppendOptions
    ) -> Appended:
        """Store a batch for its topic until it is due. Durable on return."""
        self._check(handle, batch, options)
        store = self._catalogue.internal(DELAYED)
        self._catalogue.check_writable(store)
        stored = self._stored(handle, batch)
        try:
            staged = self._appender.stage(store, stored)
        except TopicFull:
            raise _full() from None
        self.delivery.watch(store)
        if isinstance(staged, PendingCommit):
            self._catalogue.journal.wait(store, staged)
            staged = self._appender.answer(staged, created=False, batch=stored)
        return msgspec.structs.replace(_answer(handle, batch, staged), created=created)

    def submit(
        self,
        handle: Handle,
        batch: Batch,
        resolved: Resolved,
        options: AppendOptions,
        push: Callable[[Handle], None],
    ) -> None:
        """The same without waiting."""
        self._check(handle, batch, options)
        stored = self._stored(handle, batch)

        def committed(commit: PendingCommit) -> None:
            if commit.error is not None:
                resolved(commit.error)
            else:
                answer = self._appender.answer(commit, created=False, batch=stored)
                resolved(_answer(handle, batch, answer))

        def stage(store: Handle) -> None:
            self._catalogue.check_writable(store)
            try:
                staged = self._appender.stage(store, stored, committed)
            except TopicFull:
                raise _full() from None
            self.delivery.watch(store)
            if isinstance(staged, Appended):
                resolved(_answer(handle, batch, staged))
            else:
                push(store)

        def created(store: Handle | PenstockError, is_new: bool) -> None:
            try:
                if isinstance(store, PenstockError):
                    raise store
                stage(store)
            except PenstockError as error:
                resolved(error)

        known = self._handles.get(DELAYED.name)
        if known is not None:
            stage(known)
        else:
            self._catalogue.submit_internal(DELAYED, created)

    # Inside.

    def _is_delayed(self, store: Handle, seq: int) -> bool:
        """False for a batch that is on its way to its topic. The lock is held."""
        return seq in store.topic.queue.delayed or seq in self.delivery.stuck

    def _check(self, handle: Handle, batch: Batch, options: AppendOptions) -> None:
        self._catalogue.check_open()
        self._catalogue.check_writable(handle)
        if batch.cron:
            raise NotAQueue(handle.name)
        if options.expected_seq is not None:
            raise InvalidArgument(
                "expected_seq cannot be combined with deliver_at or delay_ms: delayed records get "
                "their seqs when they become visible"
            )
        with handle.lock:
            check_open(handle)

    def _stored(self, handle: Handle, batch: Batch) -> Batch:
        wall_ms = batch.due_ms - self._timing.now_ms() + self._clock.now_ms()
        text = delayed_batch.encode(batch, handle.id, wall_ms)
        key = b""
        if batch.key:  # keys belong to a topic
            named = hashlib.blake2b(b"%d:%b" % (handle.id, batch.key), digest_size=16)
            key = named.hexdigest().encode()
        tag = str(handle.id).encode()
        return Batch([text], len(text), tag=tag, key=key, due_ms=batch.due_ms)


class _Logged(msgspec.Struct):
    seq: int
    data: msgspec.Raw


_LOGGED = msgspec.json.Decoder(list[_Logged])


def _info(topic: str, logged: _Logged) -> DelayedInfo:
    stored = delayed_batch.decode(bytes(logged.data))
    return DelayedInfo(logged.seq, topic, stored.due_ms, len(stored.datas), stored.payload_bytes)


def _shown(topic: str, logged: _Logged) -> DelayedBatch:
    stored = delayed_batch.decode(bytes(logged.data))
    count = len(stored.datas)
    metas = stored.metas or [msgspec.Raw(b"null")] * count
    tags, nodes = stored.tags or [None] * count, stored.nodes or [None] * count
    records = [
        Record(read.value_of(data), tag, node, read.value_of(meta))
        for data, tag, node, meta in zip(stored.datas, tags, nodes, metas, strict=True)
    ]
    return DelayedBatch(logged.seq, topic, stored.due_ms, count, stored.payload_bytes, records)


def _answer(handle: Handle, batch: Batch, stored: Appended) -> Appended:
    """The records have no seqs yet."""
    return msgspec.structs.replace(
        stored,
        topic=handle.name,
        first_seq=0,
        last_seq=0,
        count=batch.count,
        head_seq=handle.head,
        epoch=handle.epoch,
        delayed_id=stored.first_seq,
    )


def _full() -> Overloaded:
    return Overloaded(
        "too many delayed records wait for their time",
        retry_after_ms=1000,
        limit=("delayed_batches", DELAYED_BATCHES_MAX),
    )
