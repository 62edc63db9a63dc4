"""Which seqs of a topic a query reads, and what it has to be told before it does. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.spark.gaps import GapRow
from penstock.spark.offsets import Offset

RECREATED = "recreated"
DELETED = "topic_deleted"


@dataclass(frozen=True, slots=True)
class Facts:
    """A topic as it is now."""

    name: str
    epoch: int
    head: int
    lost_floor: int  # highest seq of the prefix that was evicted or has expired


@dataclass(frozen=True, slots=True)
class Range:
    """Seqs past `after` up to `last` of the epoch that the topic has now."""

    after: int
    last: int
    gaps: list[GapRow]


def between(facts: Facts, start: Offset | None, end: Offset | None) -> Range:
    """From one offset to another. Without a start it is from the earliest record that is left;
    without an end up to the head."""
    if end is not None and end.epoch != facts.epoch:
        return Range(0, 0, _unreachable(facts.name, start, end))
    last = facts.head if end is None else min(facts.head, end.seq)
    if start is None:
        return Range(min(facts.lost_floor, last), last, [])
    if start.epoch != facts.epoch:
        gap = GapRow(facts.name, start.epoch, start.seq + 1, None, RECREATED)
        return Range(0, last, [gap])
    if start.seq > facts.head:  # it has come further than the topic: this is another log
        gap = GapRow(facts.name, start.epoch, facts.head + 1, start.seq, RECREATED)
        return Range(0, last, [gap])
    return Range(start.seq, max(start.seq, last), [])


def vanished(topic: str, start: Offset, end: Offset | None) -> list[GapRow]:
    """What a reader misses of a topic that is no more."""
    until = end.seq if end is not None and end.epoch == start.epoch else None
    if until is not None and until <= start.seq:
        return []
    return [GapRow(topic, start.epoch, start.seq + 1, until, DELETED)]


def _unreachable(topic: str, start: Offset | None, end: Offset) -> list[GapRow]:
    """The end lies in an epoch that is no more: so do all records up to it."""
    gaps = []
    first = 1
    if start is not None and start.epoch == end.epoch:
        first = start.seq + 1
    elif start is not None:
        gaps.append(GapRow(topic, start.epoch, start.seq + 1, None, RECREATED))
    if first <= end.seq:
        gaps.append(GapRow(topic, end.epoch, first, end.seq, RECREATED))
    return gaps
