"""The seqs of a topic that a query reads, and the gaps that it has to report. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.spark.gaps import GapRow
from penstock.spark.offsets import StreamOffset

RECREATED = "recreated"
DELETED = "topic_deleted"
ABSENT = "not_written"  # above the head of the topic


@dataclass(frozen=True, slots=True)
class Facts:
    """A topic now."""

    name: str
    epoch: int
    head: int


@dataclass(frozen=True, slots=True)
class Range:
    """Seqs above `after` up to `last` of the present epoch of the topic."""

    after: int
    last: int
    gaps: list[GapRow]


def between(facts: Facts, start: StreamOffset, end: StreamOffset) -> Range:
    """The part of a range of offsets that can still be read, and its gaps."""
    name = facts.name
    if end.epoch != facts.epoch:
        return Range(0, 0, _unreachable(name, start, end))
    gaps = []
    after, last = start.seq, min(facts.head, end.seq)
    if start.epoch != facts.epoch:
        gaps.append(GapRow(name, start.epoch, start.seq + 1, None, RECREATED))
        after = 0
    elif start.seq > facts.head:  # the start is above the head: this is another log
        gaps.append(GapRow(name, start.epoch, facts.head + 1, start.seq, RECREATED))
        after = 0
    absent = max(facts.head, start.seq if start.epoch == end.epoch else 0) + 1
    if absent <= end.seq:
        gaps.append(GapRow(name, end.epoch, absent, end.seq, ABSENT))
    return Range(after, max(after, last), gaps)


def vanished(topic: str, start: StreamOffset, end: StreamOffset | None) -> list[GapRow]:
    """The gaps of a topic that was dropped."""
    until = end.seq if end is not None and end.epoch == start.epoch else None
    if until is not None and until <= start.seq:
        return []
    return [GapRow(topic, start.epoch, start.seq + 1, until, DELETED)]


def _unreachable(topic: str, start: StreamOffset, end: StreamOffset) -> list[GapRow]:
    """The gaps if the end is in an earlier epoch: all records up to it are gone."""
    gaps = []
    first = start.seq + 1
    if start.epoch != end.epoch:
        gaps.append(GapRow(topic, start.epoch, first, None, RECREATED))
        first = 1
    if first <= end.seq:
        gaps.append(GapRow(topic, end.epoch, first, end.seq, RECREATED))
    return gaps
