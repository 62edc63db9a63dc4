"""The path of a job: offered, leased, then acknowledged, returned to the queue or dead-lettered.

`topics.leases` decides; this module adds the lock, the disk and the other topics. A lease is valid
in memory as soon as it is decided, so no other worker gets the job. Its worker gets the answer only
when the entry has met the class of the queue.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from penstock.atomic_steps import Step, perform
from penstock.engine.batch import Batch
from penstock.engine.catalogue import Catalogue
from penstock.engine.dead_letters import QueueDeadLetters
from penstock.engine.handle import Handle
from penstock.engine.job_offers import JobOffers, prune, queue_of
from penstock.engine.job_reading import (
    AnyJob,
    are_in_memory,
    places_of,
    raw,
    read_jobs,
    read_places,
    values,
)
from penstock.engine.job_timing import JobTiming, retry_delay_ms
from penstock.engine.journal import Applied
from penstock.engine.lease_answer import LeaseAnswer
from penstock.engine.lease_clock import LeaseClock
from penstock.engine.lease_options import (
    check_counts,
    clamped,
    held_of,
    jobs_of,
)
from penstock.engine.opening import LogContext
from penstock.entries import LeaseEvent, LeasesChanged, RecordsDeleted
from penstock.errors import CorruptFrame
from penstock.limits import (
    NACK_DELAY_MS,
    QUEUE_JOBS_MAX,
    READ_BYTES_MAX,
)
from penstock.storage.wal.pending_commit import PendingCommit
from penstock.topics.leases import deal, dropped
from penstock.types import (
    Claimed,
    QueueCounts,
    Schedule,
    Settled,
)

T = TypeVar("T")
Done = Callable[[T | Exception], None]
"""Called with the answer of a verb, or with the error."""
Picked = tuple[list[int], list[int]]
"""Jobs to deliver, and jobs that were delivered too often."""


class _Staged(NamedTuple):
    """The result of a change of held jobs. `wakes`: other workers may get a job now, or earlier
    than expected."""

    commit: PendingCommit | None
    wakes: bool
    until_ms: int = 0  # when their leases end, if they go on


_Change = Callable[[Handle, tuple[int, ...], Applied | None], _Staged]


class Claimer(msgspec.Struct, frozen=True):
    """One claim."""

    node: str
    most: int
    lease_ms: int | None = None


def _wants(claimers: Sequence[Claimer]) -> list[int]:
    return [max(1, min(one.most, QUEUE_JOBS_MAX)) for one in claimers]


class Queues:
    """Safe from several threads. Each verb has two forms: one that waits for the commit class, and
    one that is answered by callback and may be called on an event loop. The callback is called on a
    thread of the log, or at once when there is nothing to commit; errors that are known at once are
    raised."""

    def __init__(
        self, parts: LogContext, catalogue: Catalogue, append_dead: Callable[[str, Batch], object]
    ) -> None:
        self._parts = parts
        self._catalogue = catalogue
        self._journal = parts.journal
        self._dead_letters = QueueDeadLetters(append_dead)
        self._lease_clock = LeaseClock(parts.clock)
        self._offers = JobOffers(self._lease_clock)
        self.timing = JobTiming(parts.clock, self._lease_clock)

    def _roll(self) -> float:
        return int.from_bytes(self._parts.random_bytes(4), "little") / (1 << 32)

    # Claims.

    def claim(self, handle: Handle, claimers: Sequence[Claimer]) -> list[Claimed]:
        """Lease ready jobs to several claims in turn, one job each time. Payloads are the texts
        that were sent."""
        return self._claim(handle, claimers, raw, None, set()).wait(self._journal)

    def claim_values(self, handle: Handle, claimers: Sequence[Claimer]) -> list[Claimed]:
        """The same with decoded payloads, for callers in this process."""
        return self._claim(handle, claimers, values, None, set()).wait(self._journal)

    def submit_claim(
        self,
        handle: Handle,
        claimers: Sequence[Claimer],
        done: Done[list[Claimed]],
        *,
        defer: Callable[[Callable[[], None]], None],
        push: Callable[[Handle], None] = Handle.push,
    ) -> None:
        """`claim` by callback. `defer` is called with the rest of a claim that has to read files or
        to wait, and runs it on a thread."""
        self._check(handle)
        offer: set[int] = set()
        rest = functools.partial(self._claim_on_thread, handle, claimers, done, offer)
        if handle.feeds or handle.topic.config.ttl_ms or self._offers.is_untold(handle):
            defer(rest)
            return
        try:
            picked = self._offers.pick(handle, sum(_wants(claimers)), offer)
            places = places_of(handle, sorted(picked[0]))
            if picked[1] or not are_in_memory(places):
                defer(functools.partial(rest, picked))
                return
            read = read_places(places, READ_BYTES_MAX * len(claimers), raw)
            answer = self._lease_jobs(handle, claimers, picked[0], read, done, offer)
        except BaseException:
            self._offers.withdraw(handle, offer, offer)
            raise
        answer.push(push)

    def _claim_on_thread(
        self,
        handle: Handle,
        claimers: Sequence[Claimer],
        done: Done[list[Claimed]],
        offer: set[int],
        picked: Picked | None = None,
    ) -> None:
        try:
            answer = self._claim(handle, claimers, raw, done, offer, picked)
        except Exception as error:  # noqa: BLE001 - it is the caller's
            done(error)
        else:
            answer.push(Handle.push)

    def _claim(
        self,
        handle: Handle,
        claimers: Sequence[Claimer],
        decode: Callable[[bytes], list[AnyJob]],
        done: Done[list[Claimed]] | None,
        offer: set[int],
        picked: Picked | None = None,
    ) -> LeaseAnswer[list[Claimed]]:
        """Select jobs, read them, lease them. `picked` are jobs that were selected before."""
        most = sum(_wants(claimers))
        try:
            if picked is None:
                self._check(handle)
                self._catalogue.refresh(handle)
                self._offers.tell_groups(handle)
                picked = self._offers.pick(handle, most, offer)
            seqs = self._without_dead(handle, most, offer, picked)
            read = read_jobs(handle, sorted(seqs), READ_BYTES_MAX * len(claimers), decode)
            return self._lease_jobs(handle, claimers, seqs, read, done, offer)
        except BaseException:
            self._offers.withdraw(handle, offer, offer)
            raise

    def _lease_jobs(
        self,
        handle: Handle,
        claimers: Sequence[Claimer],
        seqs: list[int],
        read: tuple[list[AnyJob], CorruptFrame | None],
        done: Done[list[Claimed]] | None,
        offer: set[int],
    ) -> LeaseAnswer[list[Claimed]]:
        """Distribute the jobs that were read among the claims, and stage their leases."""
        jobs, damage = read
        by_seq = {job.seq: job for job in jobs}
        are_all_read = len(by_seq) == len(seqs)
        answer: LeaseAnswer[list[Claimed]] = LeaseAnswer(handle, done)
        with handle.lock:
            queue = queue_of(handle)
            prune(handle)
            if not are_all_read:
                unread = [seq for seq in seqs if seq not in by_seq]
                self._offers.pass_over(handle, unread, offer, is_damaged=damage is not None)
            free = seqs
            if not are_all_read or not queue.offered.issuperset(seqs):
                free = [seq for seq in seqs if seq in by_seq and seq in queue.offered]
            hands = deal(free, _wants(claimers))
            leased = [
                self._lease(handle, claimer, hand)
                for claimer, hand in zip(claimers, hands, strict=True)
            ]
            entries = [entry for entry in leased if entry is not None]
            answer.commit = self._stage(handle, entries, answer.callback, ((offer.clear,),))
            counts = self._counts(handle)

            def make() -> list[Claimed]:
                if not are_all_read:
                    handle.wake()  # another claim may take the jobs that did not fit
                name = handle.topic.name
                return [Claimed(name, jobs_of(entry, by_seq), counts.ready) for entry in leased]

            answer.make = make
        if damage is not None:
            self._parts.failure.note_damage(damage)
        return answer

    # What ends a lease, or makes it longer.

    def ack(
        self, handle: Handle, node: str, seqs: Sequence[int], lease_ids: Sequence[str] = ()
    ) -> Settled:
        """Delete jobs that are done, all with one sync if the queue's class needs one."""
        return self._settled(handle, node, seqs, lease_ids, self._acked).wait(self._journal)

    def submit_ack(
        self,
        handle: Handle,
        node: str,
        seqs: Sequence[int],
        lease_ids: Sequence[str],
        done: Done[Settled],
        *,
        push: Callable[[Handle], None] = Handle.push,
    ) -> None:
        """`ack` by callback."""
        self._settled(handle, node, seqs, lease_ids, self._acked, done).push(push)

    def nack(
        self,
        handle: Handle,
        node: str,
        seqs: Sequence[int],
        lease_ids: Sequence[str] = (),
        *,
        delay_ms: int | None = None,
    ) -> Settled:
        """Return jobs to the queue, at once or after a delay. Without a delay the queue's retry
        rule applies."""
        change = functools.partial(self._nacked, delay_ms)
        return self._settled(handle, node, seqs, lease_ids, change).wait(self._journal)

    def submit_nack(
        self,
        handle: Handle,
        node: str,
        seqs: Sequence[int],
        lease_ids: Sequence[str],
        done: Done[Settled],
        *,
        delay_ms: int | None = None,
        push: Callable[[Handle], None] = Handle.push,
    ) -> None:
        """`nack` by callback."""
        change = functools.partial(self._nacked, delay_ms)
        self._settled(handle, node, seqs, lease_ids, change, done).push(push)

    def extend(
        self,
        handle: Handle,
        node: str,
        seqs: Sequence[int],
        lease_ids: Sequence[str] = (),
        *,
        lease_ms: int,
    ) -> Settled:
        """Extend leases: they end `lease_ms` from now."""
        change = functools.partial(self._extended, clamped(lease_ms))
        return self._settled(handle, node, seqs, lease_ids, change).wait(self._journal)

    def submit_extend(
        self,
        handle: Handle,
        node: str,
        seqs: Sequence[int],
        lease_ids: Sequence[str],
        done: Done[Settled],
        *,
        lease_ms: int,
        push: Callable[[Handle], None] = Handle.push,
    ) -> None:
        """`extend` by callback."""
        change = functools.partial(self._extended, clamped(lease_ms))
        self._settled(handle, node, seqs, lease_ids, change, done).push(push)

    # Queries.

    def counts(self, handle: Handle) -> QueueCounts:
        """May have to log expired records: not for an event loop when the topic has a TTL."""
        self._catalogue.expire(handle)
        with handle.lock:
            prune(handle)
            return self._counts(handle)

    def schedules(self, handle: Handle) -> list[Schedule]:
        """The recurring jobs, in the order of their seqs."""
        with handle.lock:
            queue = queue_of(handle)
            prune(handle)
            return self.timing.schedules(queue)

    def next_change_ms(self, handle: Handle) -> float | None:
        """The time until a job may become ready without a call, at the earliest; None: never."""
        with handle.lock:
            at_ms = handle.topic.queue.next_change_ms()
        return None if at_ms is None else max(0, at_ms + 1 - self._lease_clock.now_ms())

    def still_held(self, handle: Handle, node: str, leases: dict[int, str]) -> dict[int, str]:
        """The leases among these that have not ended and whose jobs still exist."""
        with handle.lock:
            queue = queue_of(handle)
            prune(handle)
            queue.sweep(self._lease_clock.now_ms())
            held, _ = held_of(queue, node, list(leases), list(leases.values()))
            return {seq: leases[seq] for seq in held}

    # Inside.

    def _check(self, handle: Handle) -> None:
        self._catalogue.check_open()
        self._catalogue.check_writable(handle)

    def _without_dead(
        self, handle: Handle, most: int, offer: set[int], picked: Picked
    ) -> list[int]:
        """The selected jobs without those that were delivered too often. These move to the dead
        letters, and other jobs are selected in their place."""
        found, dead = picked
        stuck: list[int] = []  # jobs that the dead-letter topic does not accept now
        while dead:
            stuck += self._move_to_dead_letters(handle, dead, offer)
            if len(found) == most:
                break
            self._offers.withdraw(handle, found, offer)  # and look again: there may be more now
            found, dead = self._offers.pick(handle, most, offer)
        self._offers.withdraw(handle, stuck, offer)
        return found

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
            queue.next_deliveries(seqs),
            claimer.node,
            handle.next_lease_id,
            self._lease_clock.now_ms() + lease_ms,
            lease_ms,
        )
        handle.next_lease_id += len(seqs)
        return entry

    def _settled(
        self,
        handle: Handle,
        node: str,
        seqs: Sequence[int],
        lease_ids: Sequence[str],
        change: _Change,
        done: Done[Settled] | None = None,
    ) -> LeaseAnswer[Settled]:
        """Stage a change of the given jobs that `node` holds."""
        check_counts(seqs, lease_ids)
        self._check(handle)
        answer: LeaseAnswer[Settled] = LeaseAnswer(handle, done)
        with handle.lock:
            queue = queue_of(handle)
            prune(handle)
            queue.sweep(self._lease_clock.now_ms())
            held, skipped = held_of(queue, node, seqs, lease_ids)
            staged = change(handle, held, answer.callback) if held else _Staged(None, wakes=False)
            commit, wakes, until_ms = staged
            counts = self._counts(handle)

            def make() -> Settled:
                if wakes:
                    handle.wake()
                return Settled(
                    handle.topic.name,
                    len(held),
                    skipped,
                    counts.ready,
                    counts.in_flight,
                    dict.fromkeys(held, until_ms) if until_ms else {},
                    0.0 if commit is None else commit.sync_s * 1000,
                )

            answer.commit, answer.make = commit, make
        return answer

    def _acked(self, handle: Handle, held: tuple[int, ...], callback: Applied | None) -> _Staged:
        commit = self._stage_removal(handle, held, [], callback)
        # The next jobs of their groups may be delivered.
        return _Staged(commit, wakes=handle.topic.queue.groups is not None)

    def _nacked(
        self,
        delay_ms: int | None,
        handle: Handle,
        held: tuple[int, ...],
        callback: Applied | None,
    ) -> _Staged:
        queue, rules = handle.topic.queue, handle.topic.config.rules
        by_delay: dict[int, list[int]] = {}
        for seq in held:
            delay = delay_ms
            if delay is None:
                delay = retry_delay_ms(rules, queue.deliveries.get(seq, 1), self._roll())
            delay = max(NACK_DELAY_MS[0], min(NACK_DELAY_MS[1], delay))
            by_delay.setdefault(delay, []).append(seq)
        now_ms = self._lease_clock.now_ms()
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
        return _Staged(self._stage(handle, entries, callback), wakes=True)

    def _extended(
        self, lease_ms: int, handle: Handle, held: tuple[int, ...], callback: Applied | None
    ) -> _Staged:
        until_ms = self._lease_clock.now_ms() + lease_ms
        entry = LeasesChanged(
            handle.topic.id, LeaseEvent.EXTENDED, held, until_ms=until_ms, lease_ms=lease_ms
        )
        # The next deadline may be earlier than a waiting claim expects.
        return _Staged(self._stage(handle, [entry], callback), True, until_ms)

    def _move_to_dead_letters(self, handle: Handle, seqs: list[int], offer: set[int]) -> list[int]:
        """Copy jobs to the dead letters and delete them from the queue. Returns those that could
        not be moved. The copies are keyed: a crash between the two makes no second copy."""
        jobs, damage = read_jobs(handle, sorted(seqs), READ_BYTES_MAX, raw)
        if damage is not None:
            self._parts.failure.note_damage(damage)
        moved = tuple([job.seq for job in jobs if self._dead_letters.copy(handle, job)])
        with handle.lock:
            queue_of(handle)
            count = handle.dead_lettered + len(moved)
            entry = LeasesChanged(handle.topic.id, LeaseEvent.DEAD, moved, lease_id=count)
            commit = None
            if moved:
                steps = (
                    (setattr, handle, "dead_lettered", count),
                    (offer.difference_update, moved),
                )
                commit = self._stage_removal(handle, moved, [entry], None, steps)
            unread = set(seqs) - {job.seq for job in jobs}
            self._offers.pass_over(handle, unread, offer, is_damaged=damage is not None)
        self._finish(handle, commit)
        return [seq for seq in seqs if seq not in unread and seq not in moved]

    def _counts(self, handle: Handle) -> QueueCounts:
        queue = queue_of(handle)
        queue.sweep(self._lease_clock.now_ms())
        return queue.counts(handle.topic.live)

    def _stage(
        self,
        handle: Handle,
        entries: list[LeasesChanged],
        callback: Applied | None,
        steps: Iterable[Step] = (),
    ) -> PendingCommit | None:
        """Log and apply the entries, atomically with `steps`. The lock is held."""
        config = handle.topic.config
        logged: list[LeasesChanged] = []
        if config.durability != "ephemeral":  # what no restart would keep is not written either
            logged = [one for one in entries if config.leases_durable or one.event in _KEPT]
        return self._journal.hold_leases(
            handle,
            entries,
            logged,
            durable=config.leases_durable,
            callback=callback,
            steps=steps,
        )

    def _stage_removal(
        self,
        handle: Handle,
        seqs: tuple[int, ...],
        entries: list[LeasesChanged],
        callback: Applied | None,
        steps: Iterable[Step] = (),
    ) -> PendingCommit | None:
        """Delete jobs, or schedule recurring ones again, atomically with `steps`. The lock is
        held."""
        topic = handle.topic
        crons = topic.queue.crons
        changes: list[LeasesChanged | RecordsDeleted] = [*entries]
        removed = seqs
        if crons:
            removed = tuple([seq for seq in seqs if seq not in crons])
            changes += self.timing.again(handle.topic, [seq for seq in seqs if seq in crons])
        if removed:
            changes.append(RecordsDeleted(topic.id, None, None, removed, handle.next_seq - 1))
        if topic.config.durability == "ephemeral":
            self._journal.apply_unlogged(handle, changes)
            perform(steps)
            return None
        return self._journal.submit(
            handle,
            changes,
            durable=topic.config.durability == "fsync",
            callback=callback,
            steps=(
                dropped(topic.queue.leases, seqs),
                (topic.queue.offered.update, seqs),  # until they are gone
                *steps,
            ),
        )

    def _finish(self, handle: Handle, commit: PendingCommit | None) -> None:
        if commit is not None:
            self._journal.wait(handle, commit)


_KEPT = (  # whatever the queue's setting
    LeaseEvent.CLAIMED,
    LeaseEvent.DELAYED,
    LeaseEvent.DEAD,
    LeaseEvent.SCHEDULED,
)
