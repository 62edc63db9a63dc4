"""Selects the part of a tail that becomes segments now. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from penstock.topics.spans import Span
from penstock.topics.topic import Topic

NOW_MS = -math.inf


@dataclass(frozen=True, slots=True)
class SealLimits:
    records_max: int
    bytes_max: int
    age_ms_max: int  # 0: never by age


@dataclass(frozen=True, slots=True)
class TailFacts:
    """The unsealed end of a topic. Bytes are payload bytes."""

    records: int
    bytes: int
    oldest_ts: int | None


def tail_spans(topic: Topic) -> list[Span]:
    """The unsealed spans: always the last ones."""
    at = len(topic.spans)
    while at and not topic.spans[at - 1].run.is_sealed:
        at -= 1
    return topic.spans[at:]


def due_ms(tail: TailFacts, bounds: SealLimits) -> float:
    """The time from which a tail is to be sealed, by three triggers: NOW_MS when it is large enough
    by count or by bytes; else by age, also for a topic without new writes; or never."""
    if tail.records == 0:
        return math.inf
    if tail.records >= bounds.records_max or tail.bytes >= bounds.bytes_max:
        return NOW_MS
    if not bounds.age_ms_max or tail.oldest_ts is None:
        return math.inf
    return tail.oldest_ts + bounds.age_ms_max


def is_full(group: list[Span], bounds: SealLimits) -> bool:
    """True if this group makes a whole segment."""
    return (
        sum(span.count - span.start for span in group) >= bounds.records_max
        or sum(span.bytes for span in group) >= bounds.bytes_max
    )


def stretches(spans: list[Span], bounds: SealLimits) -> list[list[Span]]:
    """Neighbouring spans grouped into segments of at most the limits, split where needed.

    A seq gap between two spans (records lost, or all deleted) ends a segment. Returned spans
    are pieces: a large one may have been cut in two, sharing its run.
    """
    groups: list[list[Span]] = []
    group: list[Span] = []
    records = size = 0
    for piece in _pieces(spans, bounds.records_max):
        count = piece.count - piece.start
        joins = not group or group[-1].last + 1 == piece.first + piece.start
        if group and (
            not joins
            or records + count > bounds.records_max
            or size + piece.bytes > bounds.bytes_max
        ):
            groups.append(group)
            group, records, size = [], 0, 0
        group.append(piece)
        records += count
        size += piece.bytes
    if group:
        groups.append(group)
    return groups


def _pieces(spans: list[Span], records_max: int) -> list[Span]:
    found: list[Span] = []
    for span in spans:
        rest = span
        while rest.count - rest.start > records_max:
            front, rest = split(rest, rest.start + records_max)
            found.append(front)
        found.append(rest)
    return found


def split(span: Span, index: int) -> tuple[Span, Span]:
    """Two spans over the same run: indices below `index` and the rest. Each has its own bitmap,
    which ends where its span ends: the snapshot keeps them one by one."""
    live, size = span.run.measure(span.start, index, span.bits)
    front = Span(
        span.run,
        first=span.first,
        count=index,
        live=live,
        payload_bytes=size,
        start=span.start,
    )
    back = Span(
        span.run,
        first=span.first,
        count=span.count,
        live=span.live - live,
        payload_bytes=span.bytes - size,
        start=index,
    )
    if span.dead is not None:
        front.dead = span.dead.below(index)
        back.dead = span.dead.below(span.count)
    return front, back
