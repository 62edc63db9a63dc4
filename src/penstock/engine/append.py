"""The path of a write: number, encode, queue, wait for the class, publish."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from penstock import limits
from penstock.append_options import NO_OPTIONS, AppendOptions
from penstock.clock import Clock
from penstock.codec.entry import encode_entry
from penstock.engine.batch import Batch
from penstock.engine.handle import Handle
from penstock.engine.journal import Journal, check_open
from penstock.entries import (
    LeaseEvent,
    LeasesChanged,
    RecordsAppended,
)
from penstock.errors import (
    NotAQueue,
    RecordTooLarge,
    SeqMismatch,
    TopicFull,
    UsageError,
)
from penstock.storage.wal.pending_commit import PendingCommit, closed_gate
from penstock.topics import idempotency, validation
from penstock.topics.topic import Topic
from penstock.types import Appended


class Held(Exception):
    """A batch over several topics is in progress in this topic: retry when it is done."""


class Appender:
    """Numbers records under the topic's lock, so that seqs, disk order and visibility agree."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock

    def stage(
        self,
        handle: Handle,
        batch: Batch,
        callback: Callable[[PendingCommit], None] | None = None,
        options: AppendOptions = NO_OPTIONS,
        holder: object = None,
    ) -> PendingCommit | Appended:
        """Queue a batch; the commit is not driven yet. For a known idempotency key nothing is
        queued, and the first answer is returned. A topic that is held accepts appends only from its
        holder."""
        now_ms = self._clock.now_ms()
        count = batch.count
        gate = closed_gate() if batch.key and callback is None else None  # others may join
        with handle.lock:
            topic = handle.topic
            config = topic.config
            check_open(handle)
            if handle.holder is not holder and handle.holder is not None:
                raise Held
            if batch.key:
                under_way = handle.keys_under_way.get(idempotency.name_of(batch.key))
                if under_way is not None:
                    return _join(under_way, callback)
                seen = self._seen(handle, batch.key, now_ms)
                if seen is not None:
                    return seen
            first = handle.next_seq
            if options.expected_seq is not None:
                _check_head(handle, options.expected_seq)
            if config.discard == "reject":
                self.admit(handle, count, batch.payload_bytes)
            if batch.due_ms and config.type != "queue":
                raise NotAQueue(topic.name)
            last = first + count - 1
            ts = now_ms if now_ms > handle.last_ts else handle.last_ts
            durable = config.durability == "fsync"
            frames, appends, offsets, payload = batch.encode_commit(
                topic.id, first, ts, 4 if durable else 0
            )
            entry = RecordsAppended(
                topic.id, first, count, ts, ts, payload, appends, offsets, batch.key
            )
            delay = _delay(entry, batch) if batch.due_ms else None
            is_kept = config.durability == "ephemeral"
            if is_kept:
                commit = self._journal.keep_in_memory(handle, entry, batch, callback, delay)
            else:
                frame_count = count
                if count > 1 or batch.key:
                    frame_count += 1  # a frame that says so comes first
                if delay is not None:  # before the jobs: cut off here, none of them would be early
                    frames = encode_entry(delay, ts) + frames
                    frame_count += 1
                if not durable and last > handle.reserved:
                    self.promise(handle, last, ts)
                commit = self._journal.submit_append(
                    handle, entry, batch, frames, frame_count, durable, callback, gate, delay
                )
        if is_kept:
            commit.resolve()  # without the lock: the callback may use the log
        return commit

    def check(self, handle: Handle, batch: Batch, options: AppendOptions) -> None:
        """Check that this batch can be staged now, or raise. The lock is held."""
        check_open(handle)
        if options.expected_seq is not None:
            _check_head(handle, options.expected_seq)
        if handle.topic.config.discard == "reject":
            self.admit(handle, batch.count, batch.payload_bytes)

    def seen(self, handle: Handle, key: bytes) -> Appended | None:
        """The answer that an append with this key got before. The lock is held."""
        return self._seen(handle, key, self._clock.now_ms())

    def answer(self, commit: PendingCommit, *, created: bool, batch: Batch) -> Appended:
        """The answer for a resolved commit. If another call with the same key queued the commit,
        the answer has the records of that call."""
        handle, entry, queued = commit.subject[:3]
        topic = handle.topic
        last = entry.first_seq + entry.count - 1
        head = topic.head
        return Appended(
            topic.name,
            entry.first_seq,
            last,
            entry.count,
            head if head > last else last,
            topic.id,
            entry.last_ts,
            created,
            queued is not batch,
            commit.write_s * 1000,
            commit.sync_s * 1000,
            commit.throttle_s * 1000,
        )

    def reserve(self, handle: Handle, count: int) -> PendingCommit | None:
        """For `ephemeral`: the reservation to wait for before `count` more records may be numbered,
        or None. Every run makes a new one: it also tells the next opening that this run was not
        closed cleanly."""
        now_ms = self._clock.now_ms()
        with handle.lock:
            check_open(handle)
            last = handle.next_seq + count - 1
            if last <= handle.durable_ceiling:
                return None
            return self.promise(handle, last, now_ms)

    def promise(self, handle: Handle, last: int, ts: int) -> PendingCommit:
        """Reserve seqs far ahead with one synced frame. The lock is held."""
        return self._journal.reserve(handle, last + limits.SEQ_RESERVE, ts)

    def has_key(self, handle: Handle, key: bytes) -> bool:
        """True if a batch with this key is in the topic or is queued. `stage` refuses a batch that
        contradicts the stored one."""
        with handle.lock:
            if idempotency.name_of(key) in handle.keys_under_way:
                return True
            with contextlib.suppress(UsageError):
                return self._seen(handle, key, self._clock.now_ms()) is not None
            return True

    def _seen(self, handle: Handle, key: bytes, now_ms: int) -> Appended | None:
        topic = handle.topic
        numbered = idempotency.split(key)
        if numbered is not None:
            if not topic.producers.has(*numbered):
                return None
            return _again(topic, now_ms)
        topic.forget_keys(now_ms, limits.IDEMPOTENCY_KEYS_MAX)
        hit = topic.keys.get(key)
        if hit is None:
            return None
        first, last, ts = hit
        return Appended(
            topic=topic.name,
            first_seq=first,
            last_seq=last,
            count=last - first + 1,
            head_seq=topic.head,
            epoch=topic.epoch,
            ts=ts,
            deduped=True,
        )

    def admit(self, handle: Handle, count: int, size: int) -> None:
        """Refuse an append to a full `discard: reject` topic before a seq is used or a byte
        written."""
        topic = handle.topic
        config = topic.config
        if (config.cap_records and count > config.cap_records) or (
            config.cap_bytes and size > config.cap_bytes
        ):
            raise RecordTooLarge(
                f"{count} records with {size} bytes can never fit topic {topic.name!r} "
                f"(cap_records={config.cap_records}, cap_bytes={config.cap_bytes})"
            )
        live = topic.live + handle.next_seq - 1 - topic.head
        if (config.cap_records and live + count > config.cap_records) or (
            config.cap_bytes and topic.bytes + handle.staged_bytes + size > config.cap_bytes
        ):
            raise TopicFull(
                topic.name,
                cap_records=config.cap_records,
                cap_bytes=config.cap_bytes,
                head_seq=topic.head,
                earliest_seq=topic.earliest,
            )


def _check_head(handle: Handle, expected_seq: int) -> None:
    head = handle.next_seq - 1
    if validation.seq(expected_seq) != head:
        raise SeqMismatch(handle.topic.name, expected_seq=expected_seq, head_seq=head)


def _again(topic: Topic, now_ms: int) -> Appended:
    """The answer for a sender's batch that is already in the topic. Its seqs are not stored."""
    head = topic.head
    return Appended(topic.name, head + 1, head, 0, head, topic.epoch, now_ms, deduped=True)


def _delay(entry: RecordsAppended, batch: Batch) -> LeasesChanged:
    seqs = tuple(range(entry.first_seq, entry.first_seq + entry.count))
    event = LeaseEvent.SCHEDULED if batch.cron else LeaseEvent.DELAYED
    return LeasesChanged(entry.topic_id, event, seqs, node=batch.cron, until_ms=batch.due_ms)


def _join(commit: PendingCommit, callback: Callable[[PendingCommit], None] | None) -> PendingCommit:
    """Also wait for the commit of another call. The topic's lock is held, so the commit is not
    published yet; only a failure may resolve it at the same time."""
    if callback is None:
        if commit.gate is None:
            commit.gate = closed_gate()
    else:
        first = commit.callback

        def both(done: PendingCommit) -> None:
            if first is not None:
                first(done)
            callback(done)

        commit.callback = both
    if commit.is_done and commit.error is not None:
        raise commit.error
    return commit
