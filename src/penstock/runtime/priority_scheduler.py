"""Selects the next topic to serve: topics with work, in five bands by effective priority.

The bands share the workers by deficit weighted round robin. A round grants each band its weight in
credit, a service costs one, and the round ends when no band that has topics has credit left. So the
highest band is favoured and the lowest still moves in every round. Waiting raises a topic's
priority: within ten seconds even the lowest has left band 0, the only one that can be paused.
`effective_priority` gives the base priority of a topic, `governor` decides when to defer.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Hashable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final, Generic, TypeAlias, TypeVar

from penstock.runtime.effective_priority import (
    AGE_CAP_MS,
    AGE_MS_PER_POINT,
    PRIORITY_MAX,
    age_boost,
)

BAND_CEILINGS: Final = (0, 250, 500, 750, math.inf)  # a band ends below its ceiling
BAND_WEIGHTS: Final = (1, 1, 2, 4, 8)
TICK_MS: Final = 50
STALE_ENTRIES_MAX: Final = 16  # of an empty band; a full one may have as many as live ones besides

Topic = TypeVar("Topic", bound=Hashable)
_Entry: TypeAlias = "tuple[float, int, _Unit[Topic]]"


def band_of(priority: float) -> int:
    return bisect_right(BAND_CEILINGS, priority)


@dataclass(slots=True, eq=False)
class _Unit(Generic[Topic]):
    """The work of one topic. `entry` is its place in its band, None outside of all bands."""

    topic: Topic
    enqueued_ms: float
    arrival: int  # among those of the same millisecond
    priority: int = 0
    is_router: bool = False
    band: int = 0
    rises_ms: float = math.inf  # when its age may next change its band
    waited_ms: float = 0.0
    entry: _Entry[Topic] | None = None


@dataclass(slots=True, eq=False)
class _Band(Generic[Topic]):
    """First in, first out by the time of enqueueing, which is not the time of entering the band.

    A unit that leaves from the middle leaves a stale entry behind, known by its unit pointing
    elsewhere. At most half of a long heap is stale.
    """

    weight: int
    credit: int = 0
    live: int = 0
    heap: list[_Entry[Topic]] = field(default_factory=list)

    def push(self, unit: _Unit[Topic]) -> None:
        unit.entry = (unit.enqueued_ms, unit.arrival, unit)
        heappush(self.heap, unit.entry)
        self.live += 1

    def pop(self) -> _Unit[Topic]:
        while True:
            entry = heappop(self.heap)
            unit = entry[2]
            if unit.entry is entry:
                unit.entry = None
                self.live -= 1
                return unit

    def remove(self, unit: _Unit[Topic]) -> None:
        unit.entry = None
        self.live -= 1
        if len(self.heap) > 2 * self.live + STALE_ENTRIES_MAX:
            self.heap = [entry for entry in self.heap if entry[2].entry is entry]
            heapify(self.heap)


class ReadySet(Generic[Topic]):
    """Topics with work to do. A topic is queued at most once, and not while it is being served.

    Times are monotonic milliseconds. Not locked: one owner, or a lock around each call.
    """

    def __init__(self) -> None:
        self._bands: list[_Band[Topic]] = [_Band(weight) for weight in BAND_WEIGHTS]
        self._queued: dict[Topic, _Unit[Topic]] = {}
        self._serving: dict[Topic, _Unit[Topic] | None] = {}  # None: forgotten meanwhile
        self._again: dict[Topic, _Unit[Topic]] = {}  # marked while being served
        self._arrivals = count()
        self._beat: float = -1
        self._is_deferring = False
        self._grant()

    def __len__(self) -> int:
        """Topics queued, paused ones included."""
        return len(self._queued)

    @property
    def depth(self) -> int:
        """Topics queued that a worker may take now. The paused ones are left out: were they
        counted as pressure, deferring would keep itself up."""
        return len(self._queued) - self.paused

    @property
    def paused(self) -> int:
        return self._bands[0].live if self._is_deferring else 0

    def depths(self) -> tuple[int, ...]:
        """Topics queued in each band, from band 0 up."""
        return tuple(band.live for band in self._bands)

    def mark(self, topic: Topic, priority: int, now_ms: float, *, is_router: bool = False) -> None:
        """Mark a topic with work. A queued topic keeps its queue time and gets the new priority; a
        topic being served is queued again afterwards."""
        if not -PRIORITY_MAX <= priority <= PRIORITY_MAX:
            raise AssertionError(f"priority {priority}: waiting could not make up for it")
        unit = self._queued.get(topic) or self._again.get(topic)
        if unit is None:
            unit = _Unit(topic, now_ms, next(self._arrivals))
            (self._again if topic in self._serving else self._queued)[topic] = unit
        unit.priority, unit.is_router = priority, is_router
        if topic in self._queued:
            self._place(unit, now_ms)

    def take(self, now_ms: float) -> Topic | None:
        """The topic to serve now, which is then out of the set until `done`. None when
        there is none or all are paused."""
        self.tick(now_ms)
        band = self._richest()
        if band is None:
            self._grant()
            band = self._richest()
        if band is None:
            return None
        band.credit -= 1
        unit = band.pop()
        unit.waited_ms = max(0.0, now_ms - unit.enqueued_ms)
        self._serving[unit.topic] = self._queued.pop(unit.topic)
        return unit.topic

    def waited_ms(self, topic: Topic) -> float:
        """How long a topic that is being served had waited."""
        unit = self._serving[topic]
        return 0.0 if unit is None else unit.waited_ms

    def done(self, topic: Topic, now_ms: float) -> None:
        """The topic was served. If it was marked meanwhile, it has waited since that mark."""
        if topic not in self._serving:
            raise AssertionError(f"{topic!r} is not being served")
        del self._serving[topic]
        unit = self._again.pop(topic, None)
        if unit is not None:
            self._queued[topic] = unit
            self._place(unit, now_ms)

    def forget(self, topic: Topic) -> None:
        """Remove a topic. A service in progress still ends with `done`."""
        self._again.pop(topic, None)
        unit = self._queued.pop(topic, None)
        if unit is not None:
            self._bands[unit.band].remove(unit)
        if topic in self._serving:
            self._serving[topic] = None

    def tick(self, now_ms: float) -> None:
        """Promote what has aged across a boundary. Does its work once every 50 ms, however often
        it is called; `take` calls it as well."""
        beat = now_ms // TICK_MS
        if beat == self._beat:
            return
        self._beat = beat
        for unit in self._queued.values():
            if unit.rises_ms <= now_ms:
                self._place(unit, now_ms)

    def defer(self, is_deferring: bool, now_ms: float) -> None:
        """Start or stop deferring low priorities: band 0 gets no credit, and routers are one band
        lower."""
        if is_deferring == self._is_deferring:
            return
        self._is_deferring = is_deferring
        if is_deferring:
            self._bands[0].credit = 0
        for unit in self._queued.values():
            self._place(unit, now_ms)

    def _place(self, unit: _Unit[Topic], now_ms: float) -> None:
        """Put a queued unit into the band where its priority and age belong."""
        waited_ms = now_ms - unit.enqueued_ms
        band = band_of(unit.priority + age_boost(waited_ms))
        climb_ms = (BAND_CEILINGS[band] - unit.priority) * AGE_MS_PER_POINT
        is_grown = waited_ms >= AGE_CAP_MS
        unit.rises_ms = math.inf if is_grown else unit.enqueued_ms + min(climb_ms, AGE_CAP_MS)
        # A router that has waited its ten seconds is lowered no more: in band 0 it would starve.
        if self._is_deferring and unit.is_router and not is_grown:
            band = max(0, band - 1)
        if unit.entry is not None:
            if unit.band == band:
                return
            self._bands[unit.band].remove(unit)
        unit.band = band
        self._bands[band].push(unit)

    def _richest(self) -> _Band[Topic] | None:
        """The band with topics that has most credit left, of equals the higher one."""
        able = [band for band in reversed(self._bands) if band.live and band.credit]
        return max(able, key=lambda band: band.credit, default=None)

    def _grant(self) -> None:
        """Begin a round. All services cost the same, so no deficit is carried over: a band with
        topics has spent its credit, and a band without topics loses the rest."""
        for band in self._bands:
            band.credit = band.weight
        if self._is_deferring:
            self._bands[0].credit = 0
