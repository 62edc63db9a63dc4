"""What it takes to fold a topic in several processes, each of which has some of the keys.

The first stage reads the records of a partition, a range of seqs, and knows the key of each. The
second has all records of some keys, in the order of the log. What depends on the events of all keys
is the largest time so far; it is known from the summaries of all partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.codec.columns import Columns
from penstock.errors import InvalidArgument
from penstock.features.event_column import EventColumn, Int64s
from penstock.features.key_index import KeyIndex
from penstock.features.table_plan import TablePlan
from penstock.features.timed_events import NO_TIME, TimedEventReader, TimedEvents


class PartitionSummary(msgspec.Struct, frozen=True):
    """What the second stage must know of a partition. `ahead` are pairs (place, largest time so
    far) of the records that made that time larger than it was, and than a clock. A place is a ts or
    a seq."""

    epoch: int
    first: int  # seq
    last: int
    largest: int
    counts: dict[str, int]
    ahead: list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class KeyedEvents:
    """The events of a batch that a key gets. Immutable."""

    records: Int64s  # their numbers in the batch
    largest: Int64s  # the largest time of the partition so far
    key_offsets: NDArray[np.int32]  # one more than there are events
    keys: NDArray[np.uint8]


class KeyedEventReader:
    """Reads one partition, in order. One thread at a time.

    With `keeps_ahead` the summary tells where the largest time was ahead of the log's clock, by ts;
    with `ahead_of_ms` where it was ahead of that time, by seq.
    """

    def __init__(
        self, plan: TablePlan, *, keeps_ahead: bool = False, ahead_of_ms: int | None = None
    ) -> None:
        self._plan = plan
        self._events = TimedEventReader(plan)
        self._keys = KeyIndex(plan.key_types)
        self._keeps_ahead = keeps_ahead or ahead_of_ms is not None
        self._ahead_of_ms = ahead_of_ms
        self._ahead: list[tuple[int, int]] = []
        self._epoch = self._first = self._last = 0

    def read(self, batch: Columns, epoch: int) -> KeyedEvents:
        """The next records, which all have this epoch."""
        seqs = np.frombuffer(batch.seqs, np.int64)
        if len(seqs):
            self._first = self._first or int(seqs[0])
            if int(seqs[0]) <= self._last or (np.diff(seqs) <= 0).any():
                raise InvalidArgument("the records of a partition are not in the order of seq")
            check_epoch(self._epoch or epoch, epoch)
            self._epoch, self._last = epoch, int(seqs[-1])
        timed = self._events.timed(batch)
        if self._keeps_ahead:
            places = batch.tss if self._ahead_of_ms is None else batch.seqs
            self._keep_ahead(timed, np.frombuffer(places, np.int64)[timed.records])
        events = self._events.stepped(timed)
        has_key = np.ones(len(events), np.bool_)
        for name in self._plan.key:
            has_key &= events.columns[name].is_present
        self._events.counts.ignored += len(events) - int(np.count_nonzero(has_key))
        events = events.only(has_key)
        offsets, keys = key_texts(self._keys, [events.columns[n] for n in self._plan.key], events)
        return KeyedEvents(events.records, events.largest, offsets, keys)

    def _keep_ahead(self, events: TimedEvents, places: Int64s) -> None:
        before = self._ahead[-1][1] if self._ahead else NO_TIME
        clock = places if self._ahead_of_ms is None else self._ahead_of_ms
        is_ahead = events.largest > np.maximum(clock, before)
        is_ahead[1:] &= events.largest[1:] > events.largest[:-1]
        self._ahead += zip(
            places[is_ahead].tolist(), events.largest[is_ahead].tolist(), strict=True
        )

    def summary(self) -> PartitionSummary | None:
        """Of what was read; None if that is nothing."""
        if not self._last:
            return None
        return PartitionSummary(
            self._epoch,
            self._first,
            self._last,
            self._events.largest,
            self._events.counts.to_json(),
            self._ahead,
        )


def key_texts(
    keys: KeyIndex, columns: Sequence[EventColumn], rows: TimedEvents | Sequence[object]
) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """The keys of rows that all have one, as bytes: where each begins, and the bytes."""
    offsets, texts, _ = keys.encoded(columns, len(rows))
    return offsets.astype(np.int32), texts


def check_epoch(known: int, found: int) -> None:
    """Raise InvalidArgument for records of another epoch."""
    if known != found:
        raise InvalidArgument(
            f"the records have epochs {known} and {found}: the topic was created again, "
            "so select those of one epoch"
        )


class LargestTimes:
    """The largest time of all events, at each record. Immutable."""

    def __init__(self, summaries: Iterable[PartitionSummary], before: int = NO_TIME) -> None:
        """`before`: of the events in front of all partitions."""
        ordered = sorted(summaries, key=lambda one: one.first)
        for one, following in pairwise(ordered):
            check_epoch(one.epoch, following.epoch)
            if following.first <= one.last:
                raise InvalidArgument(
                    f"the records {following.first} to {one.last} are in two partitions: "
                    "pass each record once"
                )
        self.summaries = ordered
        self._firsts = np.array([one.first for one in ordered], np.int64)
        own = np.array([before, *(one.largest for one in ordered)], np.int64)
        self._before = np.maximum.accumulate(own)
        self.largest = int(self._before[-1])
        ahead = sorted(pair for one in ordered for pair in one.ahead)
        self._ahead_places = np.array([place for place, _ in ahead], np.int64)
        self._ahead = np.maximum.accumulate(np.array([time for _, time in ahead], np.int64))

    def of(self, seqs: bytes, local: bytes) -> Int64s:
        """For each record, given the largest time of its partition so far."""
        partitions = np.searchsorted(self._firsts, np.frombuffer(seqs, np.int64), "right") - 1
        return np.maximum(self._before[partitions], np.frombuffer(local, np.int64))

    def at(self, place: int, now_ms: int | None = None) -> int:
        """The largest time at a place (a ts or a seq, as the summaries have it) if that is later
        than the clock there; else the clock, which is `now_ms` or, by default, the place."""
        now_ms = place if now_ms is None else now_ms
        count = int(np.searchsorted(self._ahead_places, place, "right"))
        return max(now_ms, int(self._ahead[count - 1])) if count else now_ms
