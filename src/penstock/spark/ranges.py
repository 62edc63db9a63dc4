"""Which seqs of a topic a query reads, and what it has to be told before it does. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.spark.gaps import GapRow
from penstock.spark.offsets import Offset

RECREATED = "recreated"
DELETED = "topic_deleted"
ABSENT = "not_written"  # the log does not go that far, or not any more


@dataclass(frozen=True, slots=True)
class Facts:
    """A topic as it is now."""

    name: str
    epoch: int
    head: int


@dataclass(frozen=True, slots=True)
class Range:
    """Seqs past `after` up to `last` of the epoch that the topic has now."""

    after: int
    last: int
    gaps: list[GapRow]


def between(facts: Facts, start: Offset, end: Offset) -> Range:
    """From one offset to another, as far as that is still possible."""
    name = facts.name
    if end.epoch != facts.epoch:
        return Range(0, 0, _unreachable(name, start, end))
    gaps = []
    after, last = start.seq, min(facts.head, end.seq)
    if start.epoch != facts.epoch:
        gaps.append(GapRow(name, start.epoch, start.seq + 1, None, RECREATED))
        after = 0
    elif start.seq > facts.head:  # it has come further than the topic: this is another log
        gaps.append(GapRow(name, start.epoch, facts.head + 1, start.seq, RECREATED))
        after = 0
    absent = max(facts.head, start.seq if start.epoch == end.epoch else 0) + 1
    if absent <= end.seq:
        gaps.append(GapRow(name, end.epoch, absent, end.seq, ABSENT))
    return Range(after, max(after, last), gaps)


def vanished(topic: str, start: Offset, end: Offset | None) -> list[GapRow]:
    """What a reader misses of a topic that is no more."""
    until = end.seq if end is not None and end.epoch == start.epoch else None
    if until is not None and until <= start.seq:
        return []
    return [GapRow(topic, start.epoch, start.seq + 1, until, DELETED)]


def _unreachable(topic: str, start: Offset, end: Offset) -> list[GapRow]:
    """The end lies in an epoch that is no more: so do all records up to it."""
    gaps = []
    first = start.seq + 1
    if start.epoch != end.epoch:
        gaps.append(GapRow(topic, start.epoch, first, None, RECREATED))
        first = 1
    if first <= end.seq:
        gaps.append(GapRow(topic, end.epoch, first, end.seq, RECREATED))
    return gaps
