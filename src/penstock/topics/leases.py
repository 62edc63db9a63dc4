"""Leases: which worker has which job of a topic, until when, and which job is next.

A job is a live record. It is ready, leased, or delayed until a time; an acknowledged job is
deleted. Nothing here runs by itself: callers ask for expired leases and pass the time, and every
change is an entry that replays to the same state.

Entries contain the new state (this delivery is the third), never a difference, so an entry that a
snapshot already contains may be applied again.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from operator import attrgetter
from typing import Any

import msgspec

from penstock.atomic_steps import Step, perform
from penstock.entries import LeaseEvent, LeasesChanged
from penstock.topics.queue_groups import QueueGroups
from penstock.types import QueueCounts

_SLACK = 1024  # entries of a heap that may be out of date before it is made anew


class Lease(msgspec.Struct, frozen=True, gc=False):
    """One leased job."""

    node: str
    id: int
    until_ms: int
    lease_ms: int


_consume: Callable[[Iterable[Any]], None] = deque[Any](maxlen=0).extend
_NODE = attrgetter("node")
_ID = attrgetter("id")


class Queue:
    """The leases of one topic, guarded by the topic's lock. The caller passes times, which must
    never go back."""

    __slots__ = (
        "_delays",
        "_expiries",
        "_expiring",
        "_reclaimed",
        "crons",
        "cursor",
        "dead_lettered",
        "delayed",
        "deliveries",
        "groups",
        "leases",
        "next_lease_id",
        "offered",
        "pruned",
        "rests",
    )

    def __init__(self) -> None:
        self.leases: dict[int, Lease] = {}
        self.delayed: dict[int, int] = {}  # seq -> when it may be handed out
        self.rests: dict[int, int] = {}  # seq -> how long it was put off for, if it was out before
        self.deliveries: dict[int, int] = {}  # of live jobs that were handed out before
        self.crons: dict[int, str] = {}  # seq -> the schedule by which it comes again
        self.offered: set[int] = set()  # being handed out, moved or deleted right now
        self.pruned = 0  # the removals of the topic that are followed here
        self.cursor = 0  # fresh jobs lie past it
        self.dead_lettered = 0
        self.next_lease_id = 1
        # Heaps, which may hold some that are no longer so:
        self._reclaimed: list[int] = []  # seqs
        self._expiries: list[tuple[int, tuple[int, ...]]] = []  # (until, seqs)
        self._expiring = 0  # seqs in it
        self._delays: list[tuple[int, int]] = []  # (until, seq)
        self.groups: QueueGroups | None = None  # of a queue that has them; not kept over a restart

    # How it changes: live and on replay.

    def apply(self, entry: LeasesChanged) -> None:
        perform(self.steps((entry,)))
        self.follow((entry,))

    def steps(self, entries: Sequence[LeasesChanged]) -> list[Step]:
        """The steps of these entries, each of which changes other jobs. Perform them at once, so
        that no job is between two states, and then call `follow`."""
        steps: list[Step] = []
        past, expiring = self.next_lease_id, self._expiring
        for entry in entries:
            seqs, until_ms = entry.seqs, entry.until_ms
            match entry.event:
                case LeaseEvent.CLAIMED:
                    steps += self._claim(entry)
                    past = max(past, entry.lease_id + len(seqs))
                    expiring += len(seqs)
                case LeaseEvent.EXTENDED:
                    steps += self._extend(entry)
                    expiring += len(seqs)
                case LeaseEvent.RELEASED:
                    steps += self._free(self.leases, seqs)
                case LeaseEvent.DELAYED:
                    steps += (
                        dropped(self.leases, seqs),
                        *self._rest(seqs, until_ms, entry.lease_ms),
                    )
                case LeaseEvent.DEAD:
                    steps.append((setattr, self, "dead_lettered", entry.lease_id))
                case LeaseEvent.SCHEDULED:
                    steps += self._schedule(seqs, entry.node, until_ms)
        steps += (
            (setattr, self, "next_lease_id", past),
            (setattr, self, "_expiring", expiring),
        )
        return steps

    def follow(self, entries: Sequence[LeasesChanged]) -> None:
        """Update the data derived from the state: groups, and the size of the heaps."""
        if self.groups is not None:
            for entry in entries:
                if entry.event == LeaseEvent.RELEASED:
                    self._tell_groups(entry.seqs)
                elif entry.event == LeaseEvent.SCHEDULED:
                    for seq in entry.seqs:
                        self.groups.release(seq, self)
        self._compact()

    def _claim(self, entry: LeasesChanged) -> list[Step]:
        seqs, until_ms = entry.seqs, entry.until_ms
        ids = range(entry.lease_id, entry.lease_id + len(seqs))
        leases = map(Lease, repeat(entry.node), ids, repeat(until_ms), repeat(entry.lease_ms))
        return [
            (self.leases.update, zip(seqs, leases, strict=True)),
            (self.deliveries.update, zip(seqs, entry.deliveries, strict=True)),
            *([dropped(self.delayed, seqs)] if self.delayed else ()),
            (self.offered.difference_update, seqs),
            self._expire_at(until_ms, seqs),
        ]

    def _extend(self, entry: LeasesChanged) -> list[Step]:
        held = [(seq, self.leases[seq]) for seq in entry.seqs if seq in self.leases]
        leases = {seq: Lease(one.node, one.id, entry.until_ms, entry.lease_ms) for seq, one in held}
        return [(self.leases.update, leases), self._expire_at(entry.until_ms, entry.seqs)]

    def _expire_at(self, until_ms: int, seqs: tuple[int, ...]) -> Step:
        """Add the deadline of these leases to the heap, as one item for all of them."""
        return heapq.heappush, self._expiries, (until_ms, seqs)

    def _free(self, known: dict[int, Any], seqs: Sequence[int]) -> list[Step]:
        """Move jobs from the leased or delayed ones to the ready ones. In a queue with groups,
        report them to the groups next."""
        if self.groups is not None:
            return [dropped(known, seqs)]
        return [dropped(known, seqs), _pushed(self._reclaimed, seqs)]

    def _rest(self, seqs: Sequence[int], until_ms: int, rest_ms: int = 0) -> list[Step]:
        rests: Step = dropped(self.rests, seqs)
        if rest_ms:
            rests = self.rests.update, dict.fromkeys(seqs, rest_ms)
        return [
            (self.delayed.update, dict.fromkeys(seqs, until_ms)),
            rests,
            _pushed(self._delays, [(until_ms, seq) for seq in seqs]),
        ]

    def _schedule(self, seqs: Sequence[int], cron: str, until_ms: int) -> list[Step]:
        """Delay recurring jobs until their next time; they count as never delivered."""
        return [
            dropped(self.leases, seqs),
            dropped(self.deliveries, seqs),
            (self.offered.difference_update, seqs),
            (self.crons.update, dict.fromkeys(seqs, cron)),
            *self._rest(seqs, until_ms),
        ]

    def _compact(self) -> None:
        """Rebuild heaps that have too many stale items."""
        if self._expiring > 2 * len(self.leases) + _SLACK:
            self._find_expiries()
        if len(self._delays) > 2 * len(self.delayed) + _SLACK:
            delays = [(until_ms, seq) for seq, until_ms in self.delayed.items()]
            heapq.heapify(delays)
            self._delays = delays

    def _find_expiries(self) -> None:
        by_end: dict[int, list[int]] = {}
        for seq, one in self.leases.items():
            by_end.setdefault(one.until_ms, []).append(seq)
        expiries = [(until_ms, tuple(seqs)) for until_ms, seqs in by_end.items()]
        heapq.heapify(expiries)
        perform(
            (
                (setattr, self, "_expiries", expiries),
                (setattr, self, "_expiring", len(self.leases)),
            )
        )

    def put_back(self, seq: int) -> None:
        """Make jobs ready again, before the new ones."""
        if self.groups is None:
            heapq.heappush(self._reclaimed, seq)
        else:
            self.groups.free(seq, self)

    def put_off(self, seq: int, until_ms: int, rest_ms: int = 0) -> None:
        """Delay jobs until this time. `rest_ms` is the delay at the time of the call; 0 for a
        wall-clock time, which may be far away."""
        perform(self._rest((seq,), until_ms, rest_ms))
        self._compact()

    def forget(self, seqs: Sequence[int]) -> None:
        """Remove these jobs."""
        if self.groups is None:
            perform(self.forgetting(seqs))
            return
        known = self._by_seq()
        for seq in seqs:  # the next of a group asks whether this one still is anything
            for each in known:
                each.pop(seq, None)
            self.offered.discard(seq)
            self.groups.gone(seq, self)

    def forgetting(self, seqs: Sequence[int]) -> list[Step]:
        """The steps that remove these jobs of a queue without groups."""
        return [
            *[dropped(known, seqs) for known in self._by_seq() if known],
            (self.offered.difference_update, seqs),
        ]

    def _by_seq(self) -> tuple[dict[int, Any], ...]:
        return self.leases, self.delayed, self.deliveries, self.rests, self.crons

    def use_groups(self, is_wanted: bool) -> None:
        """Start or stop the ordering of jobs by tag (groups)."""
        if is_wanted and self.groups is None:
            self.groups = QueueGroups()
        elif not is_wanted and self.groups is not None:
            self.groups = None
            self.cursor = 0  # which of the others are fresh is looked up anew
            self._reclaimed = [seq for seq in self.deliveries if self.is_free(seq)]
            heapq.heapify(self._reclaimed)

    def prune(self, is_live: Callable[[int], bool]) -> None:
        """Records were removed by a cap, a TTL or a delete: remove their leases, too."""
        known = self.leases.keys() | self.delayed.keys() | self.deliveries.keys() | self.offered
        if self.groups is not None:
            known |= self.groups.tags.keys()
        known |= self.crons.keys()
        self.forget([seq for seq in known if not is_live(seq)])

    def sweep(self, now_ms: int) -> None:
        """Make jobs with an expired lease or delay ready again."""
        while self._expiries and self._expiries[0][0] < now_ms:
            until_ms, seqs = self._expiries[0]
            leases = [(seq, self.leases.get(seq)) for seq in seqs]
            over = [seq for seq, one in leases if one is not None and one.until_ms == until_ms]
            expiring: Step = (setattr, self, "_expiring", self._expiring - len(seqs))
            perform(((heapq.heappop, self._expiries), expiring, *self._free(self.leases, over)))
            self._tell_groups(over)
        while self._delays and self._delays[0][0] <= now_ms:
            until_ms, seq = self._delays[0]
            over = [seq] if self.delayed.get(seq) == until_ms else []
            perform(((heapq.heappop, self._delays), *self._free(self.delayed, over)))
            self._tell_groups(over)

    def _tell_groups(self, freed: Sequence[int]) -> None:
        if self.groups is not None:
            for seq in freed:
                self.groups.free(seq, self)

    def restart(self, now_ms: int, *, keeps_leases: bool) -> None:
        """After replay: end leases that are not durable, and limit each other lease to its original
        duration from now, because the wall clock may have been set back."""
        for seq, lease in list(self.leases.items()):
            if keeps_leases:
                until_ms = min(lease.until_ms, now_ms + lease.lease_ms)
                self.leases[seq] = msgspec.structs.replace(lease, until_ms=until_ms)
            else:
                del self.leases[seq]
        self._find_expiries()
        for seq in self.deliveries:
            if not keeps_leases:  # nor does a pause between two deliveries outlast it
                self.delayed.pop(seq, None)
            if seq not in self.leases and seq not in self.delayed:
                self.put_back(seq)
        for seq, until_ms in list(self.delayed.items()):
            rest_ms = self.rests.get(seq, 0)
            if rest_ms:
                until_ms = min(until_ms, now_ms + rest_ms)
            self.put_off(seq, until_ms, rest_ms)

    # Queries. Call `sweep` first.

    def is_free(self, seq: int) -> bool:
        return seq not in self.leases and seq not in self.delayed and seq not in self.offered

    def holds(self, seq: int) -> bool:
        """True if the job is leased, on offer, about to be deleted, or waits between two
        deliveries."""
        if seq in self.leases or seq in self.offered:
            return True
        return seq in self.delayed and seq in self.deliveries

    def reclaimed(self) -> Iterator[int]:
        """Jobs that were delivered before and are ready again, ascending. Each leaves the heap when
        the next one is requested: by then it is on offer, or the iteration was interrupted."""
        heap = self._reclaimed
        last = 0
        while heap:
            seq = heap[0]
            if seq != last and self.is_free(seq):  # one that came back twice is one job
                last = seq
                yield seq
            if heap and heap[0] == seq:
                heapq.heappop(heap)

    def fresh(self, seqs: Sequence[int]) -> list[int]:
        """Jobs that were never delivered nor delayed."""
        given, delayed, offered = self.deliveries, self.delayed, self.offered
        if (
            given.keys().isdisjoint(seqs)
            and delayed.keys().isdisjoint(seqs)
            and offered.isdisjoint(seqs)
        ):
            return list(seqs)
        return [seq for seq in seqs if not (seq in given or seq in delayed or seq in offered)]

    def next_deliveries(self, seqs: Sequence[int]) -> tuple[int, ...]:
        """The number of the next delivery of each of these jobs."""
        given = self.deliveries
        if given.keys().isdisjoint(seqs):
            return (1,) * len(seqs)
        return tuple([given.get(seq, 0) + 1 for seq in seqs])

    def holds_all(self, node: str, seqs: Sequence[int], names: Sequence[str]) -> bool:
        """True if this node holds each of these leases, compared by their ids. This is the usual
        case, and the ids need not be parsed."""
        leases = list(map(self.leases.get, seqs))
        return (
            all(leases)
            and set(map(_NODE, leases)) == {node}
            and lease_names(tuple(map(_ID, leases))) == list(names)
            and len(set(seqs)) == len(seqs)
        )

    def held(
        self, node: str, seqs: Sequence[int], lease_ids: Sequence[int]
    ) -> tuple[tuple[int, ...], list[int]]:
        """The jobs that this node has leased, under the given id unless that is 0, each once; and
        the others."""
        found: dict[int, None] = {}
        others: list[int] = []
        for seq, lease_id in zip(seqs, lease_ids, strict=True):
            lease = self.leases.get(seq)
            is_held = lease is not None and lease.node == node and lease_id in (0, lease.id)
            if is_held and seq not in found:
                found[seq] = None
            else:
                others.append(seq)
        return tuple(found), others

    def counts(self, live: int) -> QueueCounts:
        busy = len(self.leases) + len(self.delayed) + len(self.offered)
        if self.groups is not None:
            busy += self.groups.blocked
        return QueueCounts(
            max(0, live - busy), len(self.leases), len(self.delayed), self.dead_lettered
        )

    def next_due_ms(self) -> int | None:
        """When the next delay ends; None when there is none."""
        delays = self._delays
        while delays and self.delayed.get(delays[0][1]) != delays[0][0]:
            heapq.heappop(delays)
        return delays[0][0] if delays else None

    def take_due(self, now_ms: int, most: int) -> list[int]:
        """The delayed jobs whose time has come, earliest first, those of one time in the order of
        their seqs. The caller leases them, or puts them off again."""
        found: dict[int, None] = {}
        while len(found) < most:
            due_ms = self.next_due_ms()
            if due_ms is None or due_ms > now_ms:
                break
            found[heapq.heappop(self._delays)[1]] = None
        return list(found)

    def next_change_ms(self) -> int | None:
        """The earliest time at which a sweep makes a job ready; None when there is none."""
        times = [heap[0][0] for heap in (self._expiries, self._delays) if heap]
        return min(times) if times else None


def lease_names(ids: tuple[int, ...]) -> list[str]:
    """The names of leases by their numbers. To format them together costs half as much."""
    return ("lease_%x " * len(ids) % ids).split()


def dropped(known: dict[int, Any], seqs: Iterable[int]) -> Step:
    """The step that removes the given seqs."""
    return _consume, map(known.pop, seqs, repeat(None))


def _pushed(heap: list[Any], items: Iterable[Any]) -> Step:
    return _consume, map(heapq.heappush, repeat(heap), items)


def deal(seqs: Sequence[int], wants: Sequence[int]) -> list[list[int]]:
    """Distribute jobs in turn, one each, among the claims that want more."""
    if len(wants) == 1:
        return [list(seqs[: max(0, wants[0])])]
    hands: list[list[int]] = [[] for _ in wants]
    open_hands = [number for number, want in enumerate(wants) if want > 0]
    at = 0
    while at < len(seqs) and open_hands:
        for number in open_hands:
            if at == len(seqs):
                break
            hands[number].append(seqs[at])
            at += 1
        open_hands = [number for number in open_hands if len(hands[number]) < wants[number]]
    return hands
