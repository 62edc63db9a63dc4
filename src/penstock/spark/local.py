"""Records of a data directory, read beside whoever writes it: planned here, read by the tasks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from penstock.engine.slices import Cut, Slice, SliceReader, Wanted, cut
from penstock.engine.view import View, look
from penstock.errors import CorruptFrame, TopicNotFound
from penstock.spark import schema
from penstock.spark.bounds import Bounds
from penstock.spark.options import ReadOptions
from penstock.topics import reading
from penstock.topics.index import Topic
from penstock.types import Gap, TagMatch

_PARTITIONS_MIN = 2  # two cores are better than one, if there is enough to do
_WORTH_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Part:
    """What one task reads."""

    slices: list[Slice]
    schema: Any  # Arrow's
    match: TagMatch | None
    skips_corrupt: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be read, and what readers have to be told of it, by topic."""

    parts: list[Part]
    gaps: list[tuple[str, int, Gap]]


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


def plan(options: ReadOptions, bounds: Bounds, asked: Any) -> Plan:
    """The whole of what a batch query reads."""
    view = look(options.path)
    slices: list[Slice] = []
    gaps: list[tuple[str, int, Gap]] = []
    for topic in topics_of(view, options, bounds):
        found = _cut(view, topic, options, bounds)
        slices += found.slices
        gaps += [(topic.name, topic.id, gap) for gap in found.gaps]
    return Plan(parts(slices, options, bounds, asked), gaps)


def _cut(view: View, topic: Topic, options: ReadOptions, bounds: Bounds) -> Cut:
    first = max(1, bounds.seq_min, options.starting_seq)
    last = min(bounds.seq_max, options.ending_seq, topic.head)
    since = max(bounds.ts_min, options.starting_ts)
    if since:
        first = max(first, reading.seek(topic, since) + 1)
    if bounds.ts_max < (1 << 62):
        last = min(last, reading.seek(topic, bounds.ts_max + 1))
    if first == 1 and not since:  # from the earliest there is: what went before is no news
        first = max(first, topic.lost_floor + 1)
    return cut(view, topic, after=first - 1, last=last, records_max=options.partition_records)


def parts(
    slices: list[Slice], options: ReadOptions, bounds: Bounds, asked: Any
) -> list[Part]:
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
    return [Part(group, asked, bounds.match, options.skip_corrupt) for group in groups]


def read(part: Part) -> Iterator[Any]:
    """The record batches of a part."""
    reader = SliceReader()
    wanted = Wanted(schema.wanted(part.schema.names), part.match)
    for one in part.slices:
        try:
            for found in reader.read(one, wanted):
                yield schema.batch_of(part.schema, one.topic, one.topic_id, found)
        except CorruptFrame:
            if not part.skips_corrupt:
                raise
