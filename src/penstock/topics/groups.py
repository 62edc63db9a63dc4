"""Groups of jobs: of those with one tag one is out at a time, the oldest that may go.

A group has an owner from the moment one of its jobs is picked until that one is done; a rest or
an expired lease in between changes nothing. The others wait in the order of their seqs, and a
job whose time comes late has its place among them.

Nothing here is kept over a restart: what is out is known from the leases, and the tags are told
anew.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from typing import Protocol


class Desk(Protocol):
    """What the groups ask of their queue."""

    deliveries: dict[int, int]

    def is_free(self, seq: int) -> bool:
        """Is it neither out nor put off?"""

    def holds(self, seq: int) -> bool:
        """Is it out, or resting between two deliveries?"""


class Groups:
    """Guarded by the topic's lock, as the queue is."""

    __slots__ = (
        "_able",
        "_fresh",
        "_idle",
        "_owners",
        "_pushed",
        "_returned",
        "_waiting",
        "known",
        "tags",
    )

    def __init__(self) -> None:
        self.known = 0  # jobs up to this seq were told
        self.tags: dict[int, str] = {}  # of known jobs that are not done
        self._owners: dict[str, list[int]] = {}  # the first has the turn; more only from before
        self._waiting: dict[str, list[int]] = {}  # heaps; may hold some that are gone
        self._idle: set[int] = set()  # all that are in these heaps and not gone
        self._able: set[str] = set()  # groups of which one may go
        self._returned: list[int] = []  # heap: may go, and were out before
        self._fresh: list[int] = []  # heap: may go, and were not
        self._pushed: dict[str, int] = {}  # which of each group is in one of these

    def tell(self, seqs: Iterable[int], tags: Mapping[int, str], desk: Desk) -> None:
        """Jobs that are there, with the tags of those that have one. Ascending."""
        for seq in seqs:
            tag = tags.get(seq)
            if tag is not None:
                self.tags[seq] = tag
                if desk.holds(seq):
                    self._owners.setdefault(tag, []).append(seq)
                    self._look(tag, desk)
            self.known = max(self.known, seq)
            if desk.is_free(seq):
                self.free(seq, desk)

    def free(self, seq: int, desk: Desk) -> None:
        """A job may go out, again or for the first time, when it is its turn."""
        if seq > self.known:
            return  # it will be told
        was_out = seq in desk.deliveries
        tag = self.tags.get(seq)
        if tag is None:
            heapq.heappush(self._returned if was_out else self._fresh, seq)
            return
        owners = self._owners.get(tag, ())
        if seq in owners:
            if was_out and len(owners) == 1:
                heapq.heappush(self._returned, seq)
                return
            self._disown(tag, seq)  # picked and put back before it went out, or not alone
        if seq not in self._idle:
            self._idle.add(seq)
            heapq.heappush(self._waiting.setdefault(tag, []), seq)
        self._look(tag, desk)

    def release(self, seq: int, desk: Desk) -> None:
        """This one is out of the way for now, and whoever is next may go."""
        tag = self.tags.get(seq)
        if tag is None:
            return
        self._idle.discard(seq)
        self._disown(tag, seq)
        self._look(tag, desk)

    def gone(self, seq: int, desk: Desk) -> None:
        """This one is no more."""
        self.release(seq, desk)
        self.tags.pop(seq, None)

    def pick(self, desk: Desk) -> int | None:
        """The next job to go, which then has its group's turn. Those that were out before come
        first, then the oldest."""
        for heap in (self._returned, self._fresh):
            while heap:
                seq = heapq.heappop(heap)
                if heap is self._returned and seq not in desk.deliveries:
                    heapq.heappush(self._fresh, seq)  # a schedule sent it round since
                    continue
                tag = self.tags.get(seq)
                if tag is not None and self._pushed.get(tag) == seq:
                    del self._pushed[tag]
                if not desk.is_free(seq):
                    continue
                if tag is None:
                    return seq
                if self._owners.get(tag) == [seq]:
                    return seq
                if seq in self._idle and tag not in self._owners and self._first(tag) == seq:
                    self._idle.discard(seq)
                    self._owners[tag] = [seq]
                    self._look(tag, desk)
                    return seq
        return None

    @property
    def blocked(self) -> int:
        """How many wait behind others of their group."""
        return len(self._idle) - len(self._able)

    def _disown(self, tag: str, seq: int) -> None:
        owners = self._owners.get(tag)
        if owners is not None and seq in owners:
            owners.remove(seq)
            if not owners:
                del self._owners[tag]

    def _first(self, tag: str) -> int | None:
        """The oldest that waits in a group."""
        heap = self._waiting.get(tag)
        while heap and heap[0] not in self._idle:
            heapq.heappop(heap)
        if not heap:
            self._waiting.pop(tag, None)
            return None
        return heap[0]

    def _look(self, tag: str, desk: Desk) -> None:
        """Something changed in a group: may one of it go?"""
        first = self._first(tag)
        if first is None or tag in self._owners:
            self._able.discard(tag)
            return
        self._able.add(tag)
        if self._pushed.get(tag) != first:
            self._pushed[tag] = first
            heapq.heappush(self._returned if first in desk.deliveries else self._fresh, first)
