"""Leases: who works on which job of a topic, until when, and whose turn is next.

A job is a live record. It is ready, leased, or put off until a time; an acknowledged one is
deleted. Nothing here runs by itself: expiry is a question that is asked with the time of the
day, and every change is an entry that replays to the same state.

Entries name what is true afterwards (this delivery is the third), never a difference, so an
entry that a snapshot already holds may be applied once more.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from operator import attrgetter
from typing import Any

import msgspec

from penstock.topics.groups import Groups
from penstock.types import LeaseEvent, LeasesChanged, QueueCounts

LEASE_NAME = "lease_%x"  # of a lease by its number
_SLACK = 1024  # entries of a heap that may be out of date before it is made anew


class Lease(msgspec.Struct, frozen=True, gc=False):
    """One job in somebody's hands."""

    node: str
    id: int
    until_ms: int
    lease_ms: int


_NODE = attrgetter("node")
_ID = attrgetter("id")


class Queue:
    """The lease layer of one topic; its lock is the topic's. Times are the caller's business, as
    long as they never run backwards."""

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
        "rests",
    )

    def __init__(self) -> None:
        self.leases: dict[int, Lease] = {}
        self.delayed: dict[int, int] = {}  # seq -> when it may be handed out
        self.rests: dict[int, int] = {}  # seq -> how long it was put off for, if it was out before
        self.deliveries: dict[int, int] = {}  # of live jobs that were handed out before
        self.crons: dict[int, str] = {}  # seq -> the schedule by which it comes again
        self.offered: set[int] = set()  # being handed out, moved or deleted right now
        self.cursor = 0  # fresh jobs lie past it
        self.dead_lettered = 0
        self.next_lease_id = 1
        # Heaps, which may hold some that are no longer so:
        self._reclaimed: list[int] = []  # seqs
        self._expiries: list[tuple[int, tuple[int, ...]]] = []  # (until, seqs)
        self._expiring = 0  # seqs in it
        self._delays: list[tuple[int, int]] = []  # (until, seq)
        self.groups: Groups | None = None  # of a queue that has them; not kept over a restart

    # How it changes: live and on replay.

    def apply(self, entry: LeasesChanged) -> None:
        match entry.event:
            case LeaseEvent.CLAIMED:
                self._claim(entry)
            case LeaseEvent.EXTENDED:
                for seq in entry.seqs:
                    held = self.leases.get(seq)
                    if held is not None:
                        lease = Lease(held.node, held.id, entry.until_ms, entry.lease_ms)
                        self.leases[seq] = lease
                self._expire_at(entry.until_ms, entry.seqs)
            case LeaseEvent.RELEASED:
                for seq in entry.seqs:
                    self.leases.pop(seq, None)
                    self.put_back(seq)
            case LeaseEvent.DELAYED:
                for seq in entry.seqs:
                    self.leases.pop(seq, None)
                    self.put_off(seq, entry.until_ms, entry.lease_ms)
            case LeaseEvent.DEAD:
                self.dead_lettered = entry.lease_id
            case LeaseEvent.SCHEDULED:
                for seq in entry.seqs:
                    self._schedule(seq, entry.node, entry.until_ms)

    def _claim(self, entry: LeasesChanged) -> None:
        node, until_ms, lease_ms = entry.node, entry.until_ms, entry.lease_ms
        past = entry.lease_id + len(entry.seqs)
        ids = range(entry.lease_id, past)
        leases = map(Lease, repeat(node), ids, repeat(until_ms), repeat(lease_ms))
        self.leases.update(zip(entry.seqs, leases, strict=True))
        self.deliveries.update(zip(entry.seqs, entry.deliveries, strict=True))
        if self.delayed:
            drop(self.delayed, entry.seqs)
        self._expire_at(until_ms, entry.seqs)
        self.next_lease_id = max(self.next_lease_id, past)

    def _expire_at(self, until_ms: int, seqs: tuple[int, ...]) -> None:
        """These leases end then: one entry for all of them."""
        heapq.heappush(self._expiries, (until_ms, seqs))
        self._expiring += len(seqs)
        if self._expiring > 2 * len(self.leases) + _SLACK:
            by_end: dict[int, list[int]] = {}
            for seq, one in self.leases.items():
                by_end.setdefault(one.until_ms, []).append(seq)
            self._expiries = [(until_ms, tuple(seqs)) for until_ms, seqs in by_end.items()]
            heapq.heapify(self._expiries)
            self._expiring = len(self.leases)

    def _schedule(self, seq: int, cron: str, until_ms: int) -> None:
        """Until then it is as if it had never been out."""
        self.leases.pop(seq, None)
        self.deliveries.pop(seq, None)
        self.offered.discard(seq)
        self.crons[seq] = cron
        self.put_off(seq, until_ms)
        if self.groups is not None:
            self.groups.release(seq, self)

    def put_back(self, seq: int) -> None:
        """Ready again, before the fresh ones."""
        if self.groups is None:
            heapq.heappush(self._reclaimed, seq)
        else:
            self.groups.free(seq, self)

    def put_off(self, seq: int, until_ms: int, rest_ms: int = 0) -> None:
        """Neither ready nor in flight until then. `rest_ms` is how long that was when it was said;
        0 for a time of the day, which may be far away."""
        self.delayed[seq] = until_ms
        if rest_ms:
            self.rests[seq] = rest_ms
        else:
            self.rests.pop(seq, None)
        heapq.heappush(self._delays, (until_ms, seq))
        if len(self._delays) > 2 * len(self.delayed) + _SLACK:
            self._delays = [(until_ms, seq) for seq, until_ms in self.delayed.items()]
            heapq.heapify(self._delays)

    def forget(self, seqs: Sequence[int]) -> None:
        """These jobs are no more."""
        known = (self.leases, self.delayed, self.deliveries, self.rests, self.crons)
        if self.groups is None:
            for each in known:
                if each:
                    drop(each, seqs)
            self.offered.difference_update(seqs)
            return
        for seq in seqs:  # the next of a group asks whether this one still is anything
            for each in known:
                each.pop(seq, None)
            self.offered.discard(seq)
            self.groups.gone(seq, self)

    def use_groups(self, is_wanted: bool) -> None:
        """Begin or end to keep jobs of one tag in their order."""
        if is_wanted and self.groups is None:
            self.groups = Groups()
        elif not is_wanted and self.groups is not None:
            self.groups = None
            self.cursor = 0  # which of the others are fresh is looked up anew
            self._reclaimed = [seq for seq in self.deliveries if self.is_free(seq)]
            heapq.heapify(self._reclaimed)

    def prune(self, is_live: Callable[[int], bool]) -> None:
        """Records went by a cap, an age or somebody's delete: so do their leases."""
        known = self.leases.keys() | self.delayed.keys() | self.deliveries.keys() | self.offered
        if self.groups is not None:
            known |= self.groups.tags.keys()
        known |= self.crons.keys()
        self.forget([seq for seq in known if not is_live(seq)])

    def sweep(self, now_ms: int) -> None:
        """What is past its time is ready again."""
        while self._expiries and self._expiries[0][0] < now_ms:
            until_ms, seqs = heapq.heappop(self._expiries)
            self._expiring -= len(seqs)
            for seq in seqs:
                lease = self.leases.get(seq)
                if lease is not None and lease.until_ms == until_ms:
                    del self.leases[seq]
                    self.put_back(seq)
        while self._delays and self._delays[0][0] <= now_ms:
            until_ms, seq = heapq.heappop(self._delays)
            if self.delayed.get(seq) == until_ms:
                del self.delayed[seq]
                self.put_back(seq)

    def settle(self, now_ms: int, *, keeps_leases: bool) -> None:
        """After replay. Leases that are not durable end with the process that gave them, and none
        may last longer from now than it was given for: clocks are set back at times."""
        for seq, lease in list(self.leases.items()):
            if keeps_leases:
                until_ms = min(lease.until_ms, now_ms + lease.lease_ms)
                self.leases[seq] = msgspec.structs.replace(lease, until_ms=until_ms)
                self._expire_at(until_ms, (seq,))
            else:
                del self.leases[seq]
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

    # What it is asked. Sweep first.

    def is_free(self, seq: int) -> bool:
        return seq not in self.leases and seq not in self.delayed and seq not in self.offered

    def holds(self, seq: int) -> bool:
        """Is it out, about to go out or to be gone, or resting between two deliveries?"""
        if seq in self.leases or seq in self.offered:
            return True
        return seq in self.delayed and seq in self.deliveries

    def reclaimed(self) -> Iterator[int]:
        """Jobs that were handed out before and are ready again, ascending. Taken by looking."""
        heap = self._reclaimed
        last = 0
        while heap:
            seq = heapq.heappop(heap)
            if seq != last and self.is_free(seq):  # one that came back twice is one job
                last = seq
                yield seq

    def fresh(self, seqs: Sequence[int]) -> list[int]:
        """Those that were never handed out nor put off."""
        given, delayed, offered = self.deliveries, self.delayed, self.offered
        return [seq for seq in seqs if not (seq in given or seq in delayed or seq in offered)]

    def holds_all(self, node: str, seqs: Sequence[int], names: Sequence[str]) -> bool:
        """Whether this node has each of these leases, by their names: so it is as a rule, and it
        is told without a look at what the names say."""
        leases = list(map(self.leases.get, seqs))
        return (
            all(leases)
            and set(map(_NODE, leases)) == {node}
            and list(map(LEASE_NAME.__mod__, map(_ID, leases))) == list(names)
            and len(set(seqs)) == len(seqs)
        )

    def held(
        self, node: str, seqs: Sequence[int], lease_ids: Sequence[int]
    ) -> tuple[tuple[int, ...], list[int]]:
        """Those whose lease this node has, and that very one unless the id is 0, each once; and
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

    def next_change_ms(self) -> int | None:
        """When a sweep will make something ready, at the earliest; None when nothing will."""
        times = [heap[0][0] for heap in (self._expiries, self._delays) if heap]
        return min(times) if times else None


def drop(known: dict[int, Any], seqs: Iterable[int]) -> None:
    """Take out what is there of these."""
    deque(map(known.pop, seqs, repeat(None)), maxlen=0)


def deal(seqs: Sequence[int], wants: Sequence[int]) -> list[list[int]]:
    """Hand out in turn, one each, to those who still want more."""
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
