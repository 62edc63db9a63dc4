"""The path of a job: offered, leased, and then acknowledged, given back or put aside for good.

Decisions are `topics.queues`; here they meet the lock, the disk and the other topics. A lease
holds in memory from the moment it is decided, so nobody else gets the job, and is told to its
worker only when its entry has met the class of the queue.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from penstock.codec.entry import encode_entry
from penstock.engine.batch import Batch
from penstock.engine.catalogue import Catalogue
from penstock.engine.handle import Handle
from penstock.engine.jobs import AnyJob, RawJob, raw, read_jobs, tags_of, values
from penstock.engine.opening import Parts
from penstock.engine.terms import (
    SteadyTime,
    check_counts,
    clamped,
    held_of,
    jobs_of,
    meta_of,
    retry_delay_ms,
)
from penstock.engine.timing import Timing
from penstock.errors import (
    NotAQueue,
    Overloaded,
    TopicNotFound,
    UsageError,
)
from penstock.limits import (
    NACK_DELAY_MS,
    QUEUE_JOBS_MAX,
    READ_BYTES_MAX,
)
from penstock.storage.wal.ticket import Ticket, closed_gate
from penstock.topics import reading
from penstock.topics.queues import Queue, deal, drop
from penstock.types import (
    Claimed,
    LeaseEvent,
    LeasesChanged,
    QueueCounts,
    RecordsDeleted,
    Schedule,
    Settled,
)

_TOLD_MAX: Final = 4096  # jobs whose tags are looked up in one go
_LATER_MS: Final = 10_000  # before a job that cannot be read or put aside is tried again
_encode = msgspec.json.Encoder().encode


class Claimer(msgspec.Struct, frozen=True):
    """One who asks for jobs."""

    node: str
    most: int
    lease_ms: int | None = None


class Queues:
    """Safe from several threads."""

    def __init__(
        self, parts: Parts, catalogue: Catalogue, bury: Callable[[str, Batch], object]
    ) -> None:
        self._parts = parts
        self._catalogue = catalogue
        self._registry = parts.registry
        self._bury = bury  # append to a dead-letter topic, once for each key
        self._time = SteadyTime(parts.clock)
        self._telling = threading.Lock()
        self.timing = Timing(parts.clock, self._time)
        for topic in parts.registry.all():
            if topic.config.type == "queue":
                # A job whose append was cut off leaves its delay behind, and the next record of
                # that seq must not get it.
                topic.queue.prune(functools.partial(reading.is_live, topic))
                self._settle(topic.queue, keeps_leases=topic.config.leases_durable)

    def _settle(self, queue: Queue, *, keeps_leases: bool) -> None:
        now_ms = self._time.now_ms()
        queue.settle(now_ms, keeps_leases=keeps_leases)
        # Past any that were given and then lost with the entry that says so: never one twice.
        queue.next_lease_id = max(queue.next_lease_id, now_ms << 12)

    def _roll(self) -> float:
        return int.from_bytes(self._parts.random_bytes(4), "little") / (1 << 32)

    # The verbs.

    def claim(self, handle: Handle, claimers: Sequence[Claimer]) -> list[Claimed]:
        """Lease ready jobs to all who ask at once, dealt out one by one. Their payloads are the
        texts that were sent."""
        return self._claim(handle, claimers, raw)

    def claim_values(self, handle: Handle, claimers: Sequence[Claimer]) -> list[Claimed]:
        """The same with payloads as values, for callers in this process."""
        return self._claim(handle, claimers, values)

    def _claim(
        self,
        handle: Handle,
        claimers: Sequence[Claimer],
        decode: Callable[[bytes], list[AnyJob]],
    ) -> list[Claimed]:
        self._catalogue.check_open()
        self._catalogue.check_writable(handle)
        wants = [max(1, min(one.most, QUEUE_JOBS_MAX)) for one in claimers]
        self._catalogue.refresh(handle)
        self._tell_groups(handle)
        seqs = self._offer(handle, sum(wants))
        try:
            jobs, damage = read_jobs(handle, sorted(seqs), READ_BYTES_MAX * len(claimers), decode)
        except BaseException:
            self._withdraw(handle, seqs)
            raise
        by_seq = {job.seq: job for job in jobs}
        try:
            with handle.lock:
                queue = self._queue(handle)
                self._prune(handle)
                if len(by_seq) < len(seqs):
                    for seq in seqs:
                        if seq not in by_seq:
                            self._pass_over(handle, seq, is_damaged=damage is not None)
                free = seqs
                if len(by_seq) < len(seqs) or not queue.offered.issuperset(seqs):
                    free = [seq for seq in seqs if seq in by_seq and seq in queue.offered]
                hands = deal(free, wants)
                leased = [
                    self._lease(handle, claimer, hand)
                    for claimer, hand in zip(claimers, hands, strict=True)
                ]
                ticket = self._stage(handle, [entry for entry in leased if entry is not None])
                counts = self._counts(handle)
        except BaseException:
            self._withdraw(handle, seqs)
            raise
        if damage is not None:
            self._parts.note_damage(damage)
        self._finish(handle, ticket)
        if len(by_seq) < len(seqs):
            handle.wake()  # what did not fit is for whoever waits
        return [
            Claimed(handle.topic.name, jobs_of(entry, by_seq), counts.ready) for entry in leased
        ]

    def ack(
        self, handle: Handle, node: str, seqs: Sequence[int], lease_ids: Sequence[str] = ()
    ) -> Settled:
        """Done: the jobs are deleted, all with one sync if the queue's class asks for one."""
        settled = self._settled(handle, node, seqs, lease_ids, self._acked)
        if settled.done and handle.topic.queue.groups is not None:
            handle.wake()  # whoever is next in their groups may go
        return settled

    def nack(
        self,
        handle: Handle,
        node: str,
        seqs: Sequence[int],
        lease_ids: Sequence[str] = (),
        *,
        delay_ms: int | None = None,
    ) -> Settled:
        """Not done: somebody may try again, at once or after a while. Without a delay the queue's
        own rule holds."""

        def released(handle: Handle, held: tuple[int, ...]) -> Ticket | None:
            queue, rules = handle.topic.queue, handle.topic.config.rules
            by_delay: dict[int, list[int]] = {}
            for seq in held:
                delay = delay_ms
                if delay is None:
                    delay = retry_delay_ms(rules, queue.deliveries.get(seq, 1), self._roll())
                delay = max(NACK_DELAY_MS[0], min(NACK_DELAY_MS[1], delay))
                by_delay.setdefault(delay, []).append(seq)
            now_ms = self._time.now_ms()
            entries = [
                LeasesChanged(
                    handle.topic.id,
                    LeaseEvent.DELAYED if delay else LeaseEvent.RELEASED,
                    tuple(seqs),
                    until_ms=now_ms + delay if delay else 0,
                    lease_ms=delay,
                )
                for delay, seqs in by_delay.items()
            ]
            return self._stage(handle, entries)

        settled = self._settled(handle, node, seqs, lease_ids, released)
        if settled.done:
            handle.wake()  # whoever waits for a job may have it, now or later
        return settled

    def extend(
        self,
        handle: Handle,
        node: str,
        seqs: Sequence[int],
        lease_ids: Sequence[str] = (),
        *,
        lease_ms: int,
    ) -> Settled:
        """Still working on it: the lease ends `lease_ms` from now."""
        lease_ms = clamped(lease_ms)
        until_ms = self._time.now_ms() + lease_ms
        extended: list[int] = []

        def prolonged(handle: Handle, held: tuple[int, ...]) -> Ticket | None:
            extended.extend(held)
            entry = LeasesChanged(
                handle.topic.id, LeaseEvent.EXTENDED, held, until_ms=until_ms, lease_ms=lease_ms
            )
            return self._stage(handle, [entry])

        settled = self._settled(handle, node, seqs, lease_ids, prolonged)
        if settled.done:
            handle.wake()  # an end may be nearer than whoever waits for it knows
        return msgspec.structs.replace(settled, deadlines=dict.fromkeys(extended, until_ms))

    def counts(self, handle: Handle) -> QueueCounts:
        """May have to log what expired: not on an event loop when the topic has a TTL."""
        self._catalogue.expire(handle)
        with handle.lock:
            self._prune(handle)
            return self._counts(handle)

    def schedules(self, handle: Handle) -> list[Schedule]:
        """The recurring jobs, in the order of their seqs."""
        with handle.lock:
            queue = self._queue(handle)
            self._prune(handle)
            return self.timing.schedules(queue)

    def next_change_ms(self, handle: Handle) -> float | None:
        """How long until something may become ready by itself, at the earliest; None: never."""
        with handle.lock:
            at_ms = handle.topic.queue.next_change_ms()
        return None if at_ms is None else max(0, at_ms + 1 - self._time.now_ms())

    def still_held(self, handle: Handle, node: str, leases: dict[int, str]) -> dict[int, str]:
        """Those of these leases that have neither ended nor gone with their jobs."""
        with handle.lock:
            queue = self._queue(handle)
            self._prune(handle)
            queue.sweep(self._time.now_ms())
            held, _ = held_of(queue, node, list(leases), list(leases.values()))
            return {seq: leases[seq] for seq in held}

    # Inside.

    def _offer(self, handle: Handle, most: int) -> list[int]:
        """Jobs that are ready, kept from others until `_lease` or `_withdraw`: those that were
        out before, then fresh ones. Those that were out too often go to the dead letters."""
        stuck: list[int] = []  # those that the dead letters do not take now
        try:
            while True:
                with handle.lock:
                    queue = self._queue(handle)
                    self._prune(handle)
                    queue.sweep(self._time.now_ms())
                    found, dead = self._pick(handle, queue, most)
                    queue.offered.update(found, dead)
                if not dead:
                    return found
                try:
                    stuck += self._put_aside(handle, dead)
                except BaseException:
                    self._withdraw(handle, [*found, *dead])
                    raise
                if len(found) == most:
                    return found
                self._withdraw(handle, found)  # and look again: there may be more now
        finally:
            self._withdraw(handle, stuck)

    def _pick(self, handle: Handle, queue: Queue, most: int) -> tuple[list[int], list[int]]:
        topic = handle.topic
        config = topic.config
        bound = config.max_deliveries if config.dead_letter is not None else 0
        found: list[int] = []
        dead: list[int] = []
        if queue.groups is not None:
            while len(found) < most and len(dead) < QUEUE_JOBS_MAX:
                job = queue.groups.pick(queue)
                if job is None:
                    break
                if not reading.is_live(topic, job):
                    queue.forget([job])
                elif bound and queue.deliveries.get(job, 0) >= bound:
                    dead.append(job)
                else:
                    found.append(job)
                queue.offered.update(found, dead)
            return found, dead
        for seq in queue.reclaimed():
            if bound and queue.deliveries.get(seq, 0) >= bound:
                dead.append(seq)
            elif reading.is_live(topic, seq):
                found.append(seq)
            else:
                queue.forget([seq])
            if len(found) == most or len(dead) == QUEUE_JOBS_MAX:
                return found, dead
        taken = {*found, *dead}  # a job whose time came has come back, and was never out before
        past = reading.live_past(topic, queue.cursor)
        while some := list(itertools.islice(past, most - len(found))):
            queue.cursor = some[-1]
            fresh = queue.fresh(some)
            found += [seq for seq in fresh if seq not in taken] if taken else fresh
        return found, dead

    def _tell_groups(self, handle: Handle) -> None:
        """Let a queue with groups know the tags of its jobs. Each is looked at once, without the
        lock."""
        is_grouped = handle.topic.config.rules.group_by is not None
        groups = handle.topic.queue.groups
        if groups is None and not is_grouped:
            return
        with self._telling:
            with handle.lock:
                self._queue(handle).use_groups(is_grouped)
            while is_grouped:
                with handle.lock:
                    groups = self._queue(handle).groups
                    if groups is None or groups.known >= handle.topic.head:
                        return
                    past = reading.live_past(handle.topic, groups.known)
                    seqs = list(itertools.islice(past, _TOLD_MAX))
                    places = reading.places(handle.topic, seqs)
                    last = seqs[-1] if len(seqs) == _TOLD_MAX else handle.topic.head
                    removals = handle.topic.removals
                tags = tags_of(places)
                with handle.lock:
                    queue = self._queue(handle)
                    queue.sweep(self._time.now_ms())
                    if handle.topic.removals != removals:
                        seqs = [seq for seq in seqs if reading.is_live(handle.topic, seq)]
                    groups.tell(seqs, tags, queue)
                    groups.known = max(groups.known, last)

    def _withdraw(self, handle: Handle, seqs: Sequence[int]) -> None:
        if not seqs:
            return
        with handle.lock:
            for seq in seqs:
                if seq in handle.topic.queue.offered:
                    handle.topic.queue.offered.discard(seq)
                    handle.topic.queue.put_back(seq)
        handle.wake()

    def _lease(self, handle: Handle, claimer: Claimer, seqs: list[int]) -> LeasesChanged | None:
        if not seqs:
            return None
        queue = handle.topic.queue
        lease_ms = handle.topic.config.lease_ms
        if claimer.lease_ms is not None:
            lease_ms = clamped(claimer.lease_ms)
        entry = LeasesChanged(
            handle.topic.id,
            LeaseEvent.CLAIMED,
            tuple(seqs),
            tuple([queue.deliveries.get(seq, 0) + 1 for seq in seqs]),
            claimer.node,
            queue.next_lease_id,
            self._time.now_ms() + lease_ms,
            lease_ms,
        )
        queue.next_lease_id += len(seqs)
        return entry

    def _settled(
        self,
        handle: Handle,
        node: str,
        seqs: Sequence[int],
        lease_ids: Sequence[str],
        change: Callable[[Handle, tuple[int, ...]], Ticket | None],
    ) -> Settled:
        check_counts(seqs, lease_ids)
        self._catalogue.check_open()
        self._catalogue.check_writable(handle)
        with handle.lock:
            queue = self._queue(handle)
            self._prune(handle)
            queue.sweep(self._time.now_ms())
            held, skipped = held_of(queue, node, seqs, lease_ids)
            ticket = change(handle, held) if held else None
            counts = self._counts(handle)
        self._finish(handle, ticket)
        return Settled(
            handle.topic.name,
            len(held),
            skipped,
            counts.ready,
            counts.in_flight,
            fsync_ms=0.0 if ticket is None else ticket.sync_s * 1000,
        )

    def _acked(self, handle: Handle, held: tuple[int, ...]) -> Ticket | None:
        return self._stage_removal(handle, held, [])

    def _put_aside(self, handle: Handle, seqs: list[int]) -> list[int]:
        """To the dead letters, and out of the queue. Keyed, so that a crash between the two
        makes no second copy. Those that could not be moved."""
        jobs, damage = read_jobs(handle, sorted(seqs), READ_BYTES_MAX, raw)
        if damage is not None:
            self._parts.note_damage(damage)
        moved = tuple([job.seq for job in jobs if self._copy_aside(handle, job)])
        with handle.lock:
            queue = self._queue(handle)
            count = queue.dead_lettered + len(moved)
            entry = LeasesChanged(handle.topic.id, LeaseEvent.DEAD, moved, lease_id=count)
            ticket = self._stage_removal(handle, moved, [entry]) if moved else None
            queue.dead_lettered = count  # at once: the next to be put aside count on from here
            unread = set(seqs) - {job.seq for job in jobs}
            for seq in unread:
                self._pass_over(handle, seq, is_damaged=damage is not None)
        self._finish(handle, ticket)
        return [seq for seq in seqs if seq not in unread and seq not in moved]

    def _copy_aside(self, handle: Handle, job: RawJob) -> bool:
        """Append to the dead letters; false when they do not take it now."""
        topic = handle.topic
        if topic.config.dead_letter is None:
            return False
        meta = _encode(
            meta_of(job)
            | {
                "$dead_letter_from": topic.name,
                "$dead_letter_deliveries": str(topic.config.max_deliveries),
                "$dead_letter_src_seq": str(job.seq),
            }
        )
        data = bytes(job.data)
        key = f"dead:{topic.id}:{job.seq}"
        if job.seq in topic.queue.crons:  # it may come here again
            key += f":{topic.queue.dead_lettered}"
        # Made here and not checked: what was taken once must not be refused for its new marks.
        batch = Batch(
            [data],
            len(data) + len(meta),
            [meta],
            [job.tag.encode()] if job.tag else None,
            [job.node.encode()] if job.node else None,
            key=key.encode(),
        )
        try:
            self._bury(topic.config.dead_letter, batch)
        except (UsageError, Overloaded):
            return False
        return True

    def _pass_over(self, handle: Handle, seq: int, *, is_damaged: bool) -> None:
        """A job that cannot be handed out now. The lock is held."""
        queue = handle.topic.queue
        queue.offered.discard(seq)
        if is_damaged and reading.is_live(handle.topic, seq):
            queue.put_off(seq, self._time.now_ms() + _LATER_MS)
            if queue.groups is not None:
                queue.groups.release(seq, queue)
        else:
            queue.put_back(seq)

    def _queue(self, handle: Handle) -> Queue:
        """The lock is held."""
        if handle.is_dropped:
            raise TopicNotFound(handle.topic.name)
        if handle.topic.config.type != "queue":
            raise NotAQueue(handle.topic.name)
        return handle.topic.queue

    def _prune(self, handle: Handle) -> None:
        topic = handle.topic
        if handle.pruned != topic.removals:
            handle.pruned = topic.removals
            topic.queue.prune(functools.partial(reading.is_live, topic))

    def _counts(self, handle: Handle) -> QueueCounts:
        queue = self._queue(handle)
        queue.sweep(self._time.now_ms())
        return queue.counts(handle.topic.live)

    def _stage(self, handle: Handle, entries: list[LeasesChanged]) -> Ticket | None:
        """Log the entries, then let them hold. The lock is held."""
        config = handle.topic.config
        queue = handle.topic.queue
        if not entries:
            return None
        ticket: Ticket | None = None
        # What no restart would keep is not written either.
        kept = [one for one in entries if config.leases_durable or one.event in _KEPT]
        if kept and config.durability != "ephemeral":
            ticket = self._submit(handle, kept, config.leases_durable, None)
        for entry in entries:
            queue.apply(entry)
            if entry.event == LeaseEvent.CLAIMED:
                queue.offered.difference_update(entry.seqs)
        return ticket

    def _stage_removal(
        self, handle: Handle, seqs: tuple[int, ...], entries: list[LeasesChanged]
    ) -> Ticket | None:
        """Delete jobs, or send them round again. Until that is done they are nobody's. The lock
        is held."""
        topic = handle.topic
        crons = topic.queue.crons
        steps: list[LeasesChanged | RecordsDeleted] = [*entries]
        removed = seqs
        if crons:
            removed = tuple([seq for seq in seqs if seq not in crons])
            steps += self.timing.again(handle.topic, [seq for seq in seqs if seq in crons])
        if removed:
            steps.append(RecordsDeleted(topic.id, None, None, removed, handle.next_seq - 1))
        if topic.config.durability == "ephemeral":
            self._apply(handle, steps, removed)
            return None
        ticket = self._submit(handle, steps, topic.config.durability == "fsync", removed)
        drop(topic.queue.leases, seqs)
        topic.queue.offered.update(seqs)
        return ticket

    def _submit(
        self,
        handle: Handle,
        entries: Sequence[LeasesChanged | RecordsDeleted],
        is_durable: bool,
        removed: tuple[int, ...] | None,
    ) -> Ticket:
        def publish(tickets: list[Ticket]) -> None:
            with handle.lock:
                if removed is not None:
                    self._apply(handle, entries, removed)
                handle.topic.position = tickets[-1].start

        now_ms = self._parts.clock.now_ms()
        frames = b"".join([encode_entry(entry, now_ms) for entry in entries])
        ticket = Ticket(frames, publish, is_durable, handle.topic.id, gate=closed_gate())
        handle.shard.submit(ticket)
        return ticket

    def _apply(
        self, handle: Handle, entries: Sequence[LeasesChanged | RecordsDeleted], seqs: Sequence[int]
    ) -> None:
        was_pruned = handle.pruned == handle.topic.removals
        for entry in entries:
            self._registry.apply(entry)
        handle.topic.queue.forget(seqs)
        if was_pruned:  # nothing went but these
            handle.pruned = handle.topic.removals

    def _finish(self, handle: Handle, ticket: Ticket | None) -> None:
        if ticket is not None:
            self._catalogue.finish(handle, ticket)


_KEPT = (  # whatever the queue's setting
    LeaseEvent.CLAIMED,
    LeaseEvent.DELAYED,
    LeaseEvent.DEAD,
    LeaseEvent.SCHEDULED,
)
