"""Records of a data directory, read beside whoever writes it: planned here, read by the tasks."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from penstock.engine.slices import Cut, Slice, SliceReader, Wanted, cut
from penstock.engine.view import View, look
from penstock.errors import CorruptFrame, TopicNotFound
from penstock.spark import gaps, schema
from penstock.spark.bounds import SEQ_MAX, Bounds
from penstock.spark.gaps import GapFound, GapRow
from penstock.spark.options import OnGap, ReadOptions
from penstock.spark.ranges import Facts, between, vanished
from penstock.topics import reading
from penstock.topics.index import Topic
from penstock.types import TagMatch

_PARTITIONS_MIN = 2  # two cores are better than one, if there is enough to do
_WORTH_BYTES = 8 << 20
DAMAGED = "corrupt"

logger = logging.getLogger("penstock.spark")


@dataclass(frozen=True, slots=True)
class Part:
    """What one task reads."""

    slices: list[Slice]
    schema: Any  # Arrow's
    match: TagMatch | None
    skips_corrupt: bool
    on_gap: OnGap


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be read, and what its readers have to be told."""

    slices: list[Slice]
    gaps: list[GapRow]


def topics_of(view: View, options: ReadOptions, bounds: Bounds) -> list[Topic]:
    """Those that are meant and inside the bounds, or TopicNotFound."""
    found = []
    for name in options.chosen([topic.name for topic in view.topics()]):
        topic = view.topic(name)
        if topic is None:
            raise TopicNotFound(name)
        if bounds.topics is None or name in bounds.topics:
            found.append(topic)
    return found


def plan(options: ReadOptions, bounds: Bounds) -> Plan:
    """The whole of what a batch query reads."""
    view = look(options.path)
    slices: list[Slice] = []
    missed: list[GapRow] = []
    topics = topics_of(view, options, bounds)
    for topic in topics:
        found, told = _cut(view, topic, options, bounds)
        slices += found.slices
        missed += told
        missed += [
            GapRow(topic.name, topic.epoch, gap.first, gap.last, gap.reason) for gap in found.gaps
        ]
    for name in sorted(set(options.starting_offsets) - {topic.name for topic in topics}):
        if options.matches(name) and view.topic(name) is None:
            start, end = options.starting_offsets[name], options.ending_offsets.get(name)
            missed += vanished(name, start, end)
    return Plan(slices, missed)


def facts_of(topic: Topic) -> Facts:
    return Facts(topic.name, topic.epoch, topic.head, min(topic.lost_floor, topic.head))


def _cut(
    view: View, topic: Topic, options: ReadOptions, bounds: Bounds
) -> tuple[Cut, list[GapRow]]:
    start = options.starting_offsets.get(topic.name)
    asked = between(facts_of(topic), start, options.ending_offsets.get(topic.name))
    after, last = asked.after, min(asked.last, bounds.seq_max, options.ending_seq)
    if start is None:
        since = options.starting_ts
        if since:
            after = reading.seek(topic, since)
        elif options.starting_seq:
            after = options.starting_seq - 1
        elif options.rows == "gaps":
            after = 0  # whoever asks what is missing means the whole topic
    after = max(after, bounds.seq_min - 1)
    if bounds.ts_min:
        after = max(after, reading.seek(topic, bounds.ts_min))
    if bounds.ts_max < SEQ_MAX:
        last = min(last, reading.seek(topic, bounds.ts_max + 1))
    return cut(
        view, topic, after=after, last=last, records_max=options.partition_records
    ), asked.gaps


def parts(slices: list[Slice], options: ReadOptions, bounds: Bounds, asked: Any) -> list[Part]:
    """Slices of about the same weight each. The newest records, which are looked for in the WAL,
    are for one task."""
    sealed = [one for one in slices if one.sealed is not None]
    newest = [one for one in slices if one.sealed is None]
    total = sum(one.bytes for one in sealed)
    most = max(_WORTH_BYTES, min(64 << 20, total // _PARTITIONS_MIN + 1))
    groups: list[list[Slice]] = []
    size = most
    for one in sealed:
        if size + one.bytes > most:
            groups.append([])
            size = 0
        groups[-1].append(one)
        size += one.bytes
    if newest:
        groups.append(newest)
    return [
        Part(group, asked, bounds.match, options.skip_corrupt, options.on_gap) for group in groups
    ]


def read(part: Part) -> Iterator[Any]:
    """The record batches of a part."""
    told: list[GapRow] = []
    reader = _reader(part, told)
    wanted = Wanted(schema.wanted(part.schema.names), part.match)
    for one in part.slices:
        for found in reader.read(one, wanted):
            yield schema.batch_of(part.schema, one.topic, one.topic_id, found)


def missed(part: Part, noticed_ms: int) -> Iterator[Any]:
    """What of a part cannot be read, as rows."""
    told: list[GapRow] = []
    reader = _reader(part, told)
    for one in part.slices:
        for _ in reader.read(one, Wanted(0)):
            pass
    if told:
        yield gaps.batch_of(part.schema, told, noticed_ms)


def _reader(part: Part, told: list[GapRow]) -> SliceReader:
    """A reader that notes what it leaves out, if it may leave out anything."""

    def damaged(one: Slice, first: int, last: int, error: CorruptFrame) -> None:
        logger.warning("skipped records %d to %d of topic %s: %s", first, last, one.topic, error)
        told.append(GapRow(one.topic, one.topic_id, first, last, DAMAGED))

    def lost(one: Slice, first: int, last: int, reason: str) -> None:
        row = GapRow(one.topic, one.topic_id, first, last, reason)
        if part.on_gap == "fail":
            raise GapFound(one.root, [row])
        if part.on_gap == "report":
            logger.warning("%s are gone (%s)", row, reason)
        told.append(row)

    return SliceReader(on_damage=damaged if part.skips_corrupt else None, on_loss=lost)
