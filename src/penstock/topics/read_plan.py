"""The plan of a read: where it starts and which spans it reads; `gaps` has the gap it must report.

Also facts about a topic that the spans give without reading records.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter

from penstock.topics import gaps
from penstock.topics.bitmap import indices_of
from penstock.topics.spans import Run
from penstock.topics.topic import Topic
from penstock.types import Gap, TagMatch

_LAST = attrgetter("last")


@dataclass(frozen=True, slots=True)
class IndexRange:
    """Indices start..stop-1 of a run, whose index 0 is seq `first`."""

    run: Run
    first: int
    start: int
    stop: int
    dead: bytearray | None


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """An immutable snapshot of one topic, enough to read without its lock."""

    stretches: tuple[IndexRange, ...]
    gap: Gap | None
    after: int  # where the walk starts, past the gap
    last: int  # the walk ends here at the latest
    head: int
    earliest: int
    epoch: int
    is_cut: bool  # there is more to walk before `last` than the stretches cover


def plan(topic: Topic, *, after: int, epoch: int | None, records_max: int) -> ReadPlan:
    """Plan a read of `topic` past seq `after`. Call with the topic's lock held."""
    gap, start, last = gaps.first_gap(topic, after, epoch)
    found, is_cut = _stretches(topic, start, last, records_max)
    return ReadPlan(found, gap, start, last, topic.head, topic.earliest, topic.epoch, is_cut)


def unread(topic: Topic, seqs: Iterable[int]) -> Iterator[tuple[int, int]]:
    """For each seq: the number of live records past it, and the commit time of the oldest of them
    (0 without any). Computed from the spans. Call with the topic's lock held."""
    spans = topic.spans
    before = [0, *itertools.accumulate(span.live for span in spans)]
    for seq in seqs:
        at = bisect_left(spans, seq + 1, key=_LAST)
        records = before[-1] - before[at]
        if records:
            records -= spans[at].live - spans[at].live_from(seq + 1 - spans[at].first)
        yield records, _oldest_ts(topic, at, seq + 1) if records else 0


def live_past(topic: Topic, seq: int) -> Iterator[int]:
    """Live seqs past `seq`, ascending. Call with the topic's lock held, and take only as many as
    needed."""
    return itertools.chain.from_iterable(_live_ranges_past(topic, seq))


def _live_ranges_past(topic: Topic, seq: int) -> Iterator[range]:
    spans = topic.spans
    at = bisect_left(spans, seq + 1, key=_LAST)
    for span in itertools.islice(spans, at, None):
        index = span.first_live(seq + 1 - span.first)
        while index < span.count:
            stop = span.live_to(index)
            yield range(span.first + index, span.first + stop)
            index = span.first_live(stop)


def is_live(topic: Topic, seq: int) -> bool:
    """Call with the topic's lock held."""
    spans = topic.spans
    at = bisect_left(spans, seq, key=_LAST)
    if at == len(spans) or seq < spans[at].first:
        return False
    index = seq - spans[at].first
    return spans[at].first_live(index) == index


def tagged(topic: Topic, after: int, match: TagMatch) -> set[int]:
    """Live seqs past `after` with a tag that matches, by the index. The lock is held."""
    found: set[int] = set()
    for span in topic.spans:
        if span.last > after:
            start = max(span.start, after + 1 - span.first)
            packed = span.run.find_tags(
                start, span.count, span.bits, match.value, is_prefix=match.is_prefix
            )
            found.update(span.first + index for index in indices_of(packed))
    return found


def places(topic: Topic, seqs: Sequence[int]) -> list[IndexRange]:
    """The places of these records, neighbours together; removed ones are left out, or marked dead.
    `seqs` ascend. Call with the topic's lock held."""
    spans = topic.spans
    found: list[IndexRange] = []
    at = 0
    while at < len(seqs):
        number = bisect_left(spans, seqs[at], key=_LAST)
        if number == len(spans) or seqs[at] < spans[number].earliest:
            at += 1
            continue
        span = spans[number]
        start, last = at, span.last
        most = min(len(seqs), at + last - seqs[at] + 1)
        if seqs[most - 1] - seqs[at] == most - 1 - at:  # as a rule they are all neighbours
            at = most
        else:
            while at < most and seqs[at] == seqs[start] + at - start:
                at += 1
        low = seqs[start] - span.first
        found.append(IndexRange(span.run, span.first, low, low + at - start, span.bits))
    return found


def _oldest_ts(topic: Topic, at: int, seq: int) -> int:
    """The commit time of the first live record from `seq` on, which is in span `at` or a later
    one."""
    for span in itertools.islice(topic.spans, at, None):
        index = span.first_live(seq - span.first)
        if index < span.count:
            return span.run.ts_of(index) or span.run.last_ts
    raise AssertionError((topic.name, "live records that no span has", seq))


def _stretches(
    topic: Topic, after: int, last: int, records_max: int
) -> tuple[tuple[IndexRange, ...], bool]:
    """At most `records_max` records' worth of indices, oldest first; and whether that is all."""
    spans = topic.spans
    low, high = 0, len(spans)
    while low < high:  # the first span that ends past `after`
        middle = (low + high) // 2
        if spans[middle].last <= after:
            low = middle + 1
        else:
            high = middle
    found: list[IndexRange] = []
    for span in spans[low:]:
        start = max(span.start, after + 1 - span.first)
        end = min(span.count, last - span.first + 1)
        if start >= end:
            continue
        if records_max <= 0:
            return tuple(found), True
        stop = min(end, start + records_max)
        found.append(IndexRange(span.run, span.first, start, stop, span.bits))
        records_max -= stop - start
        if stop < end:
            return tuple(found), True
    return tuple(found), False
