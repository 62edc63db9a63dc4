"""Groups of jobs: of the jobs with one tag one is delivered at a time, the oldest that is ready.

A group has an owner from the moment one of its jobs is selected until that job is done; a retry
delay or an expired lease in between changes nothing. The other jobs wait in the order of their
seqs, delayed jobs among them.

Nothing here survives a restart: the leases tell which jobs are in flight, and the tags are read
again.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from typing import Protocol


class QueueView(Protocol):
    """The interface of the queue that groups use."""

    deliveries: dict[int, int]

    def is_free(self, seq: int) -> bool:
        """True if it is neither in flight nor delayed."""

    def holds(self, seq: int) -> bool:
        """True if it is in flight, or waits between two deliveries."""


class QueueGroups:
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

    def tell(self, seqs: Iterable[int], tags: Mapping[int, str], view: QueueView) -> None:
        """Add existing jobs, ascending, with the tags of those that have one."""
        for seq in seqs:
            tag = tags.get(seq)
            if tag is not None:
                self.tags[seq] = tag
                if view.holds(seq):
                    self._owners.setdefault(tag, []).append(seq)
                    self._look(tag, view)
            self.known = max(self.known, seq)
            if view.is_free(seq):
                self.free(seq, view)

    def free(self, seq: int, view: QueueView) -> None:
        """A job is ready, again or for the first time, and may be delivered in its turn."""
        if seq > self.known:
            return  # it will be told
        was_out = seq in view.deliveries
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
        self._look(tag, view)

    def release(self, seq: int, view: QueueView) -> None:
        """This job is delayed; the next job of its group may be delivered."""
        tag = self.tags.get(seq)
        if tag is None:
            return
        self._idle.discard(seq)
        self._disown(tag, seq)
        self._look(tag, view)

    def gone(self, seq: int, view: QueueView) -> None:
        """This job was removed."""
        self.release(seq, view)
        self.tags.pop(seq, None)

    def pick(self, view: QueueView) -> int | None:
        """The next job to deliver, which becomes the owner of its group. Jobs that were delivered
        before come first, then the oldest."""
        for heap in (self._returned, self._fresh):
            while heap:
                seq = heapq.heappop(heap)
                if heap is self._returned and seq not in view.deliveries:
                    heapq.heappush(self._fresh, seq)  # a schedule sent it round since
                    continue
                tag = self.tags.get(seq)
                if tag is not None and self._pushed.get(tag) == seq:
                    del self._pushed[tag]
                if not view.is_free(seq):
                    continue
                if tag is None:
                    return seq
                if self._owners.get(tag) == [seq]:
                    return seq
                if seq in self._idle and tag not in self._owners and self._first(tag) == seq:
                    self._idle.discard(seq)
                    self._owners[tag] = [seq]
                    self._look(tag, view)
                    return seq
        return None

    @property
    def blocked(self) -> int:
        """The number of jobs that wait for others of their group."""
        return len(self._idle) - len(self._able)

    def _disown(self, tag: str, seq: int) -> None:
        owners = self._owners.get(tag)
        if owners is not None and seq in owners:
            owners.remove(seq)
            if not owners:
                del self._owners[tag]

    def _first(self, tag: str) -> int | None:
        """The oldest waiting job of a group."""
        heap = self._waiting.get(tag)
        while heap and heap[0] not in self._idle:
            heapq.heappop(heap)
        if not heap:
            self._waiting.pop(tag, None)
            return None
        return heap[0]

    def _look(self, tag: str, view: QueueView) -> None:
        """A group changed: check whether one of its jobs may be delivered."""
        first = self._first(tag)
        if first is None or tag in self._owners:
            self._able.discard(tag)
            return
        self._able.add(tag)
        if self._pushed.get(tag) != first:
            self._pushed[tag] = first
            heapq.heappush(self._returned if first in view.deliveries else self._fresh, first)
