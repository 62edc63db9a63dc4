"""Moves delayed records to their topic when their time has come, each exactly once.

A round leases the due batches, which is synced: the lease has a number that only rises. Then it
appends the batches of each topic in the order of these numbers, with the number as the key of the
append, syncs the topics, and deletes the batches from the queue of delayed ones. After a crash the
leases are still there, and a topic has the number of the last batch that it got, exactly as durably
as the batch: what it has is deleted, the rest is appended.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from penstock.codec.kernel import xxh3_64
from penstock.engine import delayed_batch
from penstock.engine.batch import Batch
from penstock.engine.catalogue import Catalogue
from penstock.engine.delayed_batch import StoredBatch
from penstock.engine.handle import Handle
from penstock.engine.internal_topics import DELAYED
from penstock.engine.job_reading import places_of, raw, read_jobs, tags_of
from penstock.engine.job_timing import JobTiming
from penstock.entries import LeaseEvent, LeasesChanged, RecordsDeleted
from penstock.errors import (
    Closed,
    LogFailed,
    Overloaded,
    TopicFull,
    TopicNotFound,
    UsageError,
)
from penstock.limits import BATCH_BYTES_MAX, BATCH_RECORDS_MAX, DELAY_MS_MAX, READ_BYTES_MAX
from penstock.topics import idempotency
from penstock.topics.leases import dropped
from penstock.types import Appended

if TYPE_CHECKING:
    from penstock.engine.opening import LogContext

_log = logging.getLogger("penstock")
_NODE: Final = "delivery"
_ROUND_MAX: Final = 4096  # batches that become due in one round
_RETRY_MS: Final = 1000  # for a topic that is full, or a log that cannot keep up

Due = tuple[int, int]
"""(the number of the lease, the seq of the delayed batch)"""


class DelayedDelivery:
    """One thread delivers, and only as long as something is delayed. Without threads `deliver_due`
    is called from outside."""

    def __init__(
        self,
        parts: LogContext,
        catalogue: Catalogue,
        timing: JobTiming,
        append: Callable[[Handle, Batch], Appended],
    ) -> None:
        self._parts = parts
        self._catalogue = catalogue
        self._timing = timing
        self._append = append
        self._producer = _producer(parts.layout.log_id)
        self._is_threaded = parts.settings.background
        # Guarded by `_round_lock`: the leased batches of each topic, in order, and when a topic
        # that could not take them is tried again.
        self._round_lock = threading.Lock()
        self._lines: dict[str, deque[Due]] = {}
        self._retries: dict[str, int] = {}
        self.stuck: set[int] = set()  # batches that their topic can never take
        self._is_loaded = False
        self._rests_until_ms = 0  # after an error
        self._wake_lock = threading.RLock()
        self._wake = threading.Condition(self._wake_lock)
        self._until_ms: int | None = 0  # when the thread looks again; None: when it is woken
        self._is_stopping = False
        self._thread: threading.Thread | None = None
        self._store: Handle | None = None
        store = parts.handles.get(DELAYED.name)
        if store is not None and store.topic.live and not parts.failure.is_troubled:
            self.watch(store)

    def watch(self, store: Handle) -> None:
        """There is something that is delayed."""
        if self._store is not None:
            return
        with self._wake_lock:
            if self._store is not None or self._is_stopping:
                return
            if self._is_threaded:
                store.listen(self._nudge)
                thread = threading.Thread(target=self._run, name="penstock-delayed", daemon=True)
                thread.start()
                self._thread = thread
            self._store = store

    def stop(self) -> None:
        with self._wake_lock:
            self._is_stopping = True
            self._wake.notify_all()
        thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def deliver_due(self) -> None:
        """Without a thread: deliver everything that is due now."""
        store = self._store
        while not self._is_threaded and store is not None and self._pause_ms(store) == 0:
            self._round(store)

    def tags(self, store: Handle, seqs: list[int]) -> dict[int, str]:
        """The topics of delayed batches, as they are tagged: the ids of the topics."""
        return tags_of(places_of(store, seqs))

    # The thread.

    def _nudge(self) -> None:
        """Something was delayed."""
        store = self._store
        if store is None:
            return
        with store.lock:
            due_ms = store.topic.queue.next_due_ms()
        with self._wake_lock:
            if due_ms is not None and (self._until_ms is None or due_ms < self._until_ms):
                self._until_ms = due_ms
                self._wake.notify_all()

    def _run(self) -> None:
        while True:
            with self._wake:
                store = self._store  # set before the lock is released that this thread needs
                pause_ms = None if store is None else self._pause_ms(store)
                while pause_ms != 0 and not self._is_stopping:
                    now_ms = self._timing.now_ms()
                    self._until_ms = None if pause_ms is None else now_ms + pause_ms
                    pause_s = None if pause_ms is None else pause_ms / 1000
                    self._parts.clock.wait(self._wake, pause_s)
                    store = self._store
                    pause_ms = None if store is None else self._pause_ms(store)
                self._until_ms = 0
                if self._is_stopping or store is None:
                    return
            try:
                self._round(store)
            except (LogFailed, Closed):
                return  # the log is closed for writing; the next opening goes on here
            except Exception:  # noqa: BLE001 - a silent death would keep all of them back
                _log.exception("delayed records could not be delivered, and are tried again")

    def _pause_ms(self, store: Handle) -> int | None:
        """Until there is something to do; None: it must be announced. The lock of the topic is
        taken."""
        now_ms = self._timing.now_ms()
        with store.lock:
            due_ms = store.topic.queue.next_due_ms()
        times = [self._retries.get(topic, 0) for topic in self._lines.copy()]
        if due_ms is not None:
            times.append(due_ms)
        if not self._is_loaded:
            times = [0]
        return max(0, max(min(times), self._rests_until_ms) - now_ms) if times else None

    # A round.

    def _round(self, store: Handle) -> None:
        with self._round_lock:
            try:
                self._deliver_lines(store, self._timing.now_ms())
            except BaseException:  # look again at what is leased, after a while
                self._lines.clear()
                self._is_loaded = False
                self._rests_until_ms = self._timing.now_ms() + _RETRY_MS
                raise

    def _deliver_lines(self, store: Handle, now_ms: int) -> None:
        if not self._is_loaded:
            self._load(store)
        self._lease_due(store, now_ms)
        done: list[int] = []
        given: list[Handle] = []
        for topic in list(self._lines):
            if self._retries.get(topic, 0) <= now_ms:
                self._retries.pop(topic, None)
                handle = self._handle_of(int(topic))
                done += self._deliver(store, topic, handle)
                if handle is not None:
                    given.append(handle)
        self._sync(given)
        self._forget(store, done)

    def _handle_of(self, topic_id: int) -> Handle | None:
        topic = self._parts.registry.by_id(topic_id)
        handle = None if topic is None else self._parts.handles.get(topic.name)
        return handle if handle is not None and handle.id == topic_id else None

    def _load(self, store: Handle) -> None:
        """The batches that are leased, by the process before or before an error."""
        store.shard.sync_all()
        with store.lock:
            leases = store.topic.queue.leases
            due = sorted((lease.id, seq) for seq, lease in leases.items())
        self._queue_up(store, due)
        self._is_loaded = True

    def _lease_due(self, store: Handle, now_ms: int) -> None:
        """Give the due batches their numbers. Durable on return."""
        with store.lock:
            queue = store.topic.queue
            seqs = tuple(queue.take_due(now_ms, _ROUND_MAX))
            if not seqs:
                return
            number = store.next_lease_id
            due = [(queue.delayed[seq], seq) for seq in seqs]
            entry = LeasesChanged(
                store.id,
                LeaseEvent.CLAIMED,
                seqs,
                queue.next_deliveries(seqs),
                _NODE,
                number,
                now_ms + DELAY_MS_MAX,
                DELAY_MS_MAX,
            )
            try:
                commit = self._catalogue.journal.hold_leases(
                    store, [entry], [entry], durable=True, callback=None
                )
            except BaseException:
                for due_ms, seq in due:
                    queue.put_off(seq, due_ms)
                raise
            store.next_lease_id = number + len(seqs)
        if commit is not None:
            self._catalogue.journal.wait(store, commit)
        self._queue_up(store, list(enumerate(seqs, number)))

    def _queue_up(self, store: Handle, due: list[Due]) -> None:
        topics = self.tags(store, sorted(seq for _, seq in due))
        for number, seq in due:
            topic = topics.get(seq)
            if topic is None:
                _log.error("the delayed batch %d cannot be read: see `penstock fsck`", seq)
            else:
                self._lines.setdefault(topic, deque()).append((number, seq))

    def _deliver(self, store: Handle, topic: str, handle: Handle | None) -> list[int]:
        """Append what is in the line of a topic; the batches that are done."""
        line = self._lines[topic]
        batches: dict[int, StoredBatch] = {}
        done: list[int] = []
        while line and handle is not None:
            if line[0][1] not in batches:
                batches = self._read(store, line)
            group = _group(line, batches, is_alone=handle.config.discard == "reject")
            if not group:
                _log.error("the delayed batch %d cannot be read: see `penstock fsck`", line[0][1])
                line.popleft()
                continue
            try:
                self._append_new(handle, group, batches)
            except TopicNotFound:
                handle = None
            except (TopicFull, Overloaded):
                self._retries[topic] = self._timing.now_ms() + _RETRY_MS
                return done
            except UsageError as error:  # the topic can never take it
                _log.error("a delayed batch of %r stays delayed: %s", handle.name, error)
                self.stuck.add(line.popleft()[1])
            else:
                done += [seq for _, seq in group]
                for _ in group:
                    line.popleft()
        done += [seq for _, seq in line]  # the topic is gone, and what was delayed for it with it
        del self._lines[topic]
        return done

    def _read(self, store: Handle, line: deque[Due]) -> dict[int, StoredBatch]:
        """Some of the batches at the front of a line."""
        front = [line[n][1] for n in range(min(len(line), _ROUND_MAX))]
        jobs, _ = read_jobs(store, sorted(front), READ_BYTES_MAX, raw)
        if all(job.seq != front[0] for job in jobs):  # those of lower seqs have filled the page
            jobs, damage = read_jobs(store, front[:1], READ_BYTES_MAX, raw)
            if damage is not None:
                self._parts.failure.note_damage(damage)
        return {job.seq: delayed_batch.decode(bytes(job.data)) for job in jobs}

    def _append_new(
        self, handle: Handle, group: list[Due], batches: dict[int, StoredBatch]
    ) -> None:
        """Append the batches of a group that the topic has not got yet."""
        with handle.lock:
            has = handle.topic.producers.has
            new = [(number, seq) for number, seq in group if not has(self._producer, number)]
        if new:
            key = idempotency.key_of(self._producer, new[-1][0])
            self._append(handle, delayed_batch.joined([batches[seq] for _, seq in new], key))

    def _sync(self, handles: list[Handle]) -> None:
        """Before the batches are deleted: what a topic got must not be lost with a power cut."""
        for shard in {one.shard for one in handles if one.config.durability in ("memory", "disk")}:
            shard.sync_all()

    def _forget(self, store: Handle, seqs: list[int]) -> None:
        """Not synced: a batch that replay finds again adds nothing."""
        if not seqs:
            return
        with store.lock:
            queue = store.topic.queue
            commit = self._catalogue.journal.submit(
                store,
                (RecordsDeleted(store.id, None, None, tuple(seqs), store.next_seq - 1),),
                durable=False,
                steps=(dropped(queue.leases, seqs), (queue.offered.update, seqs)),
            )
        self._catalogue.journal.wait(store, commit)


def _group(line: deque[Due], batches: dict[int, StoredBatch], *, is_alone: bool) -> list[Due]:
    """The batches at the front of a line that make one append. A topic that may refuse a batch for
    its size gets each alone."""
    group: list[Due] = []
    count = size = 0
    for number, seq in line:
        batch = batches.get(seq)
        if batch is None:
            break
        count += len(batch.datas)
        size += batch.payload_bytes
        if group and (is_alone or count > BATCH_RECORDS_MAX or size > BATCH_BYTES_MAX):
            break
        group.append((number, seq))
    return group


def _producer(log_id: bytes | str) -> bytes:
    """The name of this log as the producer of delayed records."""
    text = log_id if isinstance(log_id, bytes) else log_id.encode()
    halves = (xxh3_64(b"delayed:%d:%b" % (half, text)) for half in range(2))
    return b"".join(half.to_bytes(8, "big") for half in halves)
