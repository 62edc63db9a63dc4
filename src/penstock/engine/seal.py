"""Turns tails into segments.

The bytes are copied without the topic's lock; deletes and evictions in the meantime are applied to
the new segment when it replaces the old spans. Maintenance thread only. `segment_rewrite` handles
segments whose records are mostly dead.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.directory.block import Block
from penstock.directory.segments import SegmentShelf, draft_of
from penstock.engine.handle import Handle
from penstock.storage.segments.reader import Segment
from penstock.topics import sealing
from penstock.topics.bitmap import Bitmap
from penstock.topics.sealing import SealLimits, TailFacts
from penstock.topics.spans import Span
from penstock.topics.topic import Topic


def tail_facts(topic: Topic) -> TailFacts:
    """Call with the topic's lock held."""
    spans = sealing.tail_spans(topic)
    if topic.config.durability == "ephemeral" or not spans:
        return TailFacts(0, 0, None)
    run = spans[0].run
    return TailFacts(
        sum(span.count - span.start for span in spans),
        sum(span.bytes for span in spans),
        run.first_ts if isinstance(run, Block) else None,
    )


@dataclass(frozen=True, slots=True)
class Frozen:
    """The spans to seal, grouped by segment: the spans of the topic, and copies of them from the
    moment they were chosen."""

    groups: list[list[Span]]
    copies: list[list[Span]]


def freeze(topic: Topic, bounds: SealLimits, *, everything: bool) -> Frozen:
    """Choose the spans to seal: all of the tail, or only whole segments of it unless `everything`.
    Call with the topic's lock held."""
    if topic.config.durability == "ephemeral":
        return Frozen([], [])  # RAM is all it has
    groups = sealing.stretches(sealing.tail_spans(topic), bounds)
    if not everything and groups and not sealing.is_full(groups[-1], bounds):
        groups.pop()
    _close_blocks(groups)
    _adopt_pieces(topic, groups)
    return Frozen(groups, [[span.copy() for span in group] for group in groups])


def seal(handle: Handle, shelf: SegmentShelf, frozen: Frozen) -> list[Span]:
    """Write the segments. Returns those with live records, as spans of the moment when they were
    chosen."""
    topic = handle.topic
    made: list[Span] = []
    for group, copies in zip(frozen.groups, frozen.copies, strict=True):
        segment = shelf.write(topic.id, draft_of(topic, copies))
        new = _sealed(segment, copies, copies)
        if new.live:  # else the topic does without it
            made.append(new)
        with handle.lock:
            swap(topic, group, segment)
    return made


def _close_blocks(groups: list[list[Span]]) -> None:
    for group in groups:
        for span in group:
            if isinstance(span.run, Block):
                span.run.close()


def _adopt_pieces(topic: Topic, groups: list[list[Span]]) -> None:
    """Replace a span by the parts into which it was split for sealing."""
    pieces = [span for group in groups for span in group]
    whole_ones = set(topic.spans)
    for piece in pieces:
        if piece in whole_ones or piece in topic.spans:
            continue
        whole = next((s for s in topic.spans if s.run is piece.run and s not in pieces), None)
        if whole is None:
            continue
        at = topic.spans.index(whole)
        parts = [p for p in pieces if p.run is piece.run]
        end = parts[-1]
        if end.count < whole.count:  # the rest stays in the tail
            _, rest = sealing.split(whole, end.count)
            parts.append(rest)
        topic.spans[at : at + 1] = parts


def swap(topic: Topic, old: list[Span], segment: Segment) -> None:
    """Replace the rest of the old spans by the segment. Call with the topic's lock held."""
    present = set(topic.spans)  # the lock is held: a search for each would keep appends waiting
    left = [span for span in old if span in present]
    if left:  # else all were evicted or deleted meanwhile
        topic.replace_spans(left, _sealed(segment, left, old))


def _sealed(segment: Segment, left: list[Span], old: list[Span]) -> Span:
    """The segment as a span, with the live records of its source spans."""
    facts = segment.facts
    new = Span(
        segment,
        first=facts.first,
        count=facts.count,
        live=sum(span.live for span in left),
        payload_bytes=sum(span.bytes for span in left),
        start=left[0].first + left[0].start - facts.first,
    )
    bits = 0
    for span in old:  # evicted ones lie below the new start, deleted ones are in their bitmap
        if span.dead is not None:
            gone = int.from_bytes(span.dead.bits, "little") & ((1 << span.count) - 1)
            shift = span.first - facts.first
            bits |= gone << shift if shift >= 0 else gone >> -shift
    if bits:
        new.dead = Bitmap(bits.to_bytes((bits.bit_length() + 7) // 8, "little"))
    return new
