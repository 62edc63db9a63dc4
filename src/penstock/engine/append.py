"""The path of a write: number, encode, queue, wait for the class, publish."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from penstock import limits
from penstock.clock import Clock
from penstock.codec import kernel
from penstock.codec.entry import encode_entry
from penstock.engine.batch import Batch
from penstock.engine.handle import Handle
from penstock.errors import (
    Closed,
    NotAQueue,
    RecordTooLarge,
    SeqMismatch,
    TopicFull,
    TopicNotFound,
    UsageError,
)
from penstock.storage.wal.ticket import Ticket, closed_gate
from penstock.topics import producers
from penstock.topics.index import Topic
from penstock.topics.registry import Registry
from penstock.types import (
    Appended,
    BatchStarted,
    LeaseEvent,
    LeasesChanged,
    Place,
    RecordsAppended,
    SeqsReserved,
)


class Held(Exception):
    """A batch over several topics is under way in this one: come back when it is over."""


class Appender:
    """Numbers records under the topic's lock, so that seqs, disk order and visibility agree."""

    def __init__(
        self, registry: Registry, clock: Clock, place_of: Callable[[Handle, Ticket], Place]
    ) -> None:
        self._registry = registry
        self.place_of = place_of
        self._clock = clock
        # One object each, so that tickets can be told to share it.
        self._publisher = self._publish
        self._later_publisher = self._publish_later

    def stage(
        self,
        handle: Handle,
        batch: Batch,
        callback: Callable[[Ticket], None] | None = None,
        expected_seq: int | None = None,
        holder: object = None,
    ) -> Ticket | Appended:
        """Queue a batch; the ticket is not driven yet. When the idempotency key was seen
        before, nothing is queued and the first answer comes back instead. A topic that is held
        takes appends of its holder alone."""
        now_ms = self._clock.now_ms()
        count = batch.count
        gate = closed_gate() if callback is None else None
        with handle.lock:
            topic = handle.topic
            config = topic.config
            check_open(handle)
            if handle.holder is not holder and handle.holder is not None:
                raise Held
            if batch.key:
                under_way = handle.keys_under_way.get(producers.name_of(batch.key))
                if under_way is not None:
                    return _join(under_way, callback)
                seen = self._seen(handle, batch.key, now_ms)
                if seen is not None:
                    return seen
            first = handle.next_seq
            if expected_seq is not None and expected_seq != first - 1:
                raise SeqMismatch(topic.name, expected_seq=expected_seq, head_seq=first - 1)
            if config.discard == "reject":
                self.admit(handle, count, batch.payload_bytes)
            if batch.due_ms and config.type != "queue":
                raise NotAQueue(topic.name)
            last = first + count - 1
            ts = now_ms if now_ms > handle.last_ts else handle.last_ts
            durable = config.durability == "fsync"
            frames, offsets, payload = batch.encode(topic.id, first, ts, 4 if durable else 0)
            entry = RecordsAppended(
                topic.id, first, count, ts, ts, payload, frames, offsets, batch.key
            )
            is_kept = config.durability == "ephemeral"
            if is_kept:
                ticket = self._keep_in_memory(handle, entry, batch, callback)
            else:
                frame_count = count
                if count > 1 or batch.key:
                    started = BatchStarted(topic.id, first, count, batch.key, ts)
                    frames = encode_entry(started, ts) + frames
                    frame_count += 1
                publish = self._publisher
                if batch.due_ms:  # before the jobs: cut off here, none of them would be early
                    frames = encode_entry(_put_off(entry, batch), ts) + frames
                    frame_count += 1
                    publish = self._later_publisher
                if not durable and last > handle.reserved:
                    self.promise(handle, last, ts)
                subject = (handle, entry, batch)
                ticket = Ticket(
                    frames,
                    publish,
                    durable,
                    topic.id,
                    subject,
                    callback,
                    gate,
                    count=frame_count,
                )
                handle.shard.submit(ticket)
                handle.next_seq = last + 1
                handle.last_ts = ts
                handle.staged_bytes += payload
                if batch.key:
                    handle.keys_under_way[producers.name_of(batch.key)] = ticket
        if is_kept:
            ticket.resolve()  # without the lock: the callback may use the log
        return ticket

    def check(self, handle: Handle, batch: Batch, expected_seq: int | None) -> None:
        """Could this batch be staged now? Raises why not. The lock is held."""
        check_open(handle)
        head = handle.next_seq - 1
        if expected_seq is not None and expected_seq != head:
            raise SeqMismatch(handle.topic.name, expected_seq=expected_seq, head_seq=head)
        if handle.topic.config.discard == "reject":
            self.admit(handle, batch.count, batch.payload_bytes)

    def seen(self, handle: Handle, key: bytes) -> Appended | None:
        """The answer that an append with this key got before. The lock is held."""
        return self._seen(handle, key, self._clock.now_ms())

    def answer(self, ticket: Ticket, *, created: bool, batch: Batch) -> Appended:
        """What the caller gets for a resolved ticket. One that another call with the same key
        had queued carries that call's records."""
        handle, entry, queued = ticket.subject
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
            ticket.write_s * 1000,
            ticket.sync_s * 1000,
            ticket.throttle_s * 1000,
        )

    def _publish(self, tickets: list[Ticket]) -> None:
        """The commit class is met: apply, make visible, wake followers. All tickets are of one
        topic and follow each other."""
        handle: Handle = tickets[0].subject[0]
        with handle.lock:
            self._apply(handle, tickets)
        if handle.listeners:
            handle.wake()

    def _publish_later(self, tickets: list[Ticket]) -> None:
        """The same for jobs whose time has not come: put off first, so that nobody gets one."""
        handle: Handle = tickets[0].subject[0]
        with handle.lock:
            for ticket in tickets:
                _, entry, batch = ticket.subject
                if not handle.is_dropped:
                    self._registry.apply(_put_off(entry, batch))
            self._apply(handle, tickets)
        if handle.listeners:
            handle.wake()

    def _apply(self, handle: Handle, tickets: list[Ticket]) -> None:
        """The lock is held."""
        for entry in merged([ticket.subject[1] for ticket in tickets]):
            if entry.key:
                handle.keys_under_way.pop(producers.name_of(entry.key), None)
            if not handle.is_dropped:
                self._registry.apply(entry)
            # Last: whoever adds the two up without the lock may see bytes twice, never not.
            handle.staged_bytes -= entry.payload_bytes
        if not handle.is_dropped:
            handle.topic.position = tickets[-1].start
        if handle.trail is not None:
            for ticket in tickets:
                entry = ticket.subject[1]
                last = entry.first_seq + entry.count - 1
                handle.trail.note(entry.first_seq, last, self.place_of(handle, ticket))

    def _keep_in_memory(
        self,
        handle: Handle,
        entry: RecordsAppended,
        batch: Batch,
        callback: Callable[[Ticket], None] | None,
    ) -> Ticket:
        """`ephemeral`: visible at once, never written. The lock is held."""
        if batch.due_ms:
            self._registry.apply(_put_off(entry, batch))
        self._registry.apply(entry)
        handle.next_seq = entry.first_seq + entry.count
        handle.last_ts = entry.last_ts
        ticket = Ticket(b"", None, False, entry.topic_id, (handle, entry, batch), callback)
        return ticket

    def reserve(self, handle: Handle, count: int) -> Ticket | None:
        """For `ephemeral`, whose records wait for nothing: the reservation to wait for before
        `count` more records may be numbered, or None. Made anew in every run: it also shows
        the next opening that this run was not closed in order."""
        now_ms = self._clock.now_ms()
        with handle.lock:
            check_open(handle)
            last = handle.next_seq + count - 1
            if last <= handle.durable_ceiling:
                return None
            return self.promise(handle, last, now_ms)

    def promise(self, handle: Handle, last: int, ts: int) -> Ticket:
        """Promise seqs far ahead with one synced frame. It goes into the topic's own lane, so
        what follows it is acknowledged only after it is durable."""
        ceiling = last + limits.SEQ_RESERVE
        entry = SeqsReserved(handle.topic.id, ceiling)

        def publish(tickets: list[Ticket]) -> None:
            with handle.lock:
                if not handle.is_dropped:
                    self._registry.apply(entry)
                    handle.topic.position = tickets[-1].start
                    handle.durable_ceiling = ceiling

        ticket = Ticket(
            encode_entry(entry, ts), publish, durable=True, lane=handle.topic.id, gate=closed_gate()
        )
        handle.shard.submit(ticket)
        handle.reserved = ceiling
        return ticket

    def has_key(self, handle: Handle, key: bytes) -> bool:
        """Is a batch with this key in the topic, or on its way? One that contradicts what is there
        is for `stage` to refuse."""
        with handle.lock:
            if producers.name_of(key) in handle.keys_under_way:
                return True
            with contextlib.suppress(UsageError):
                return self._seen(handle, key, self._clock.now_ms()) is not None
            return True

    def _seen(self, handle: Handle, key: bytes, now_ms: int) -> Appended | None:
        topic = handle.topic
        numbered = producers.split(key)
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
        """A full `discard: reject` topic says so before a seq is used or a byte written."""
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


def _again(topic: Topic, now_ms: int) -> Appended:
    """A sender's batch that is there already; which seqs it got is not remembered."""
    head = topic.head
    return Appended(topic.name, head + 1, head, 0, head, topic.epoch, now_ms, deduped=True)


def _put_off(entry: RecordsAppended, batch: Batch) -> LeasesChanged:
    seqs = tuple(range(entry.first_seq, entry.first_seq + entry.count))
    event = LeaseEvent.SCHEDULED if batch.cron else LeaseEvent.DELAYED
    return LeasesChanged(entry.topic_id, event, seqs, node=batch.cron, until_ms=batch.due_ms)


def merged(entries: list[RecordsAppended]) -> list[RecordsAppended]:
    """The same records in fewer entries: one for each row of neighbours without a key. What a
    group commit brings is mostly single records, and applying them one by one would cost more
    than writing them."""
    if len(entries) == 1:
        return entries
    result: list[RecordsAppended] = []
    row: list[RecordsAppended] = []
    for entry in entries:
        if entry.key:
            _flush(row, result)
            result.append(entry)
        else:
            row.append(entry)
    _flush(row, result)
    return result


def _flush(row: list[RecordsAppended], result: list[RecordsAppended]) -> None:
    if len(row) < 2:
        result += row
        row.clear()
        return
    offsets = bytearray()
    at = 0
    for entry in row:
        if entry.count == 1:
            offsets += at.to_bytes(4, "little")
        else:
            offsets += kernel.shift_offsets(entry.offsets, at)
        at += len(entry.frames)
    result.append(
        RecordsAppended(
            row[0].topic_id,
            row[0].first_seq,
            sum([entry.count for entry in row]),
            row[0].first_ts,
            row[-1].last_ts,
            sum([entry.payload_bytes for entry in row]),
            b"".join([entry.frames for entry in row]),
            bytes(offsets),
        )
    )
    row.clear()


def check_open(handle: Handle) -> None:
    """May the topic still be written to? Its lock is held."""
    if handle.is_closed:
        raise Closed("the log is closed")
    if handle.is_dropped:
        raise TopicNotFound(handle.topic.name)


def _join(ticket: Ticket, callback: Callable[[Ticket], None] | None) -> Ticket:
    """Wait for another call's ticket too. The topic's lock is held, so it is not published yet;
    only a failure may resolve it at the same time."""
    if callback is None:
        if ticket.gate is None:
            ticket.gate = closed_gate()
    else:
        first = ticket.callback

        def both(done: Ticket) -> None:
            if first is not None:
                first(done)
            callback(done)

        ticket.callback = both
    if ticket.is_done and ticket.error is not None:
        raise ticket.error
    return ticket
