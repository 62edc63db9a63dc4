"""Parts of a topic that can be read elsewhere: by another thread, process or machine that sees the
same files.

A slice says which records it means by topic and seqs, and where they lay when it was cut. Should
they have moved since, whoever reads it looks for them anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.codec.columns import Columns
from penstock.engine.block import Block
from penstock.engine.view import View, look
from penstock.errors import CorruptFrame, TopicNotFound
from penstock.storage.fs import Filesystem, OsFilesystem
from penstock.storage.segments.format import SegmentFacts
from penstock.storage.segments.maps import MapCache
from penstock.storage.segments.reader import Segment
from penstock.topics import reading
from penstock.topics.index import Topic
from penstock.types import Gap, TagMatch

_MAPS_MAX = 16


@dataclass(frozen=True, slots=True)
class Sealed:
    """A segment's files, and which of its records are deleted."""

    directory: str
    log_id: bytes
    facts: SegmentFacts
    dead: bytes | None


@dataclass(frozen=True, slots=True)
class Slice:
    """Live records of one topic with seqs from `first` to `last`."""

    root: str
    topic: str
    topic_id: int
    first: int
    last: int
    records: int
    bytes: int
    sealed: Sealed | None  # None: among the newest, which are in the WAL


@dataclass(frozen=True, slots=True)
class Cut:
    """A topic from one seq to another: what is there, and what readers have to be told."""

    slices: list[Slice]
    gaps: list[Gap]
    last: int  # it goes up to here


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to give of each record, and how much at once."""

    columns: int  # of codec.columns, added up
    match: TagMatch | None = None
    records_max: int = 262_144
    bytes_max: int = 64 << 20


def cut(
    view: View, topic: Topic, *, after: int, last: int, epoch: int | None = None, records_max: int
) -> Cut:
    """Records past `after` up to `last`, in slices of about `records_max` each."""
    slices: list[Slice] = []
    gaps: list[Gap] = []
    last = min(last, topic.head)
    at = after
    while at < last or (epoch is not None and epoch != topic.epoch):
        plan = reading.plan(topic, after=at, epoch=epoch, records_max=1 << 62)
        epoch = None
        if plan.gap is not None:
            gaps.append(plan.gap)
        for stretch in plan.stretches:
            first, stop = stretch.first + stretch.start, stretch.first + stretch.stop
            stop = min(stop, last + 1)
            for start in range(first, stop, records_max):
                end = min(stop, start + records_max)
                part = _slice(view, topic, stretch, start, end)
                if part.records:
                    slices.append(part)
        if plan.last <= at and plan.gap is None:
            break
        at = plan.last
    return Cut(slices, gaps, max(at, after) if slices or gaps else max(after, last))


def _slice(view: View, topic: Topic, stretch: reading.Stretch, start: int, stop: int) -> Slice:
    run, dead = stretch.run, stretch.dead
    records, size = run.measure(start - stretch.first, stop - stretch.first, dead)
    sealed = None
    if isinstance(run, Segment):
        directory = run.stem.rpartition("/")[0]
        bits = None if dead is None else bytes(dead)
        sealed = Sealed(directory, view.layout.log_id, run.facts, bits)
    return Slice(view.layout.root, topic.name, topic.id, start, stop - 1, records, size, sealed)


class SliceReader:
    """Reads slices, one after the other. Files stay mapped from one to the next."""

    def __init__(self, fs: Filesystem | None = None) -> None:
        self._fs = fs or OsFilesystem()
        self._maps = MapCache(_MAPS_MAX)
        self._view: View | None = None

    def read(self, part: Slice, wanted: Wanted) -> Iterator[Columns]:
        """Its records that are still there, in the order of their seqs."""
        sealed = part.sealed
        if sealed is not None:
            segment = Segment(
                self._fs, self._maps, sealed.directory, part.topic_id, sealed.log_id, sealed.facts
            )
            if self._fs.exists(segment.data_path):
                base = sealed.facts.first
                dead = None if sealed.dead is None else bytearray(sealed.dead)
                yield from _columns(
                    segment, base, part.first - base, part.last + 1 - base, dead, wanted
                )
                return
        yield from self._look_again(part, wanted)

    def _look_again(self, part: Slice, wanted: Wanted) -> Iterator[Columns]:
        topic = None if self._view is None else self._view.topic(part.topic)
        if topic is None or topic.id != part.topic_id or topic.head < part.last:
            self._view = look(part.root, fs=self._fs)
            topic = self._view.topic(part.topic)
        if topic is None or topic.id != part.topic_id:
            raise TopicNotFound(part.topic)
        at = part.first - 1
        while at < part.last:
            plan = reading.plan(topic, after=at, epoch=None, records_max=1 << 62)
            for stretch in plan.stretches:
                base = stretch.first
                start = max(stretch.start, part.first - base)
                stop = min(stretch.stop, part.last + 1 - base)
                if start < stop:
                    run = stretch.run
                    if not isinstance(run, (Block, Segment)):
                        raise AssertionError("runs of the engine are blocks and segments")
                    try:
                        yield from _columns(run, base, start, stop, stretch.dead, wanted)
                    except CorruptFrame:
                        self._view = None  # it may have gone in this very moment
                        raise
            if plan.last <= at:
                return
            at = plan.last


def _columns(
    run: Block | Segment,
    base: int,
    start: int,
    stop: int,
    dead: bytearray | None,
    wanted: Wanted,
) -> Iterator[Columns]:
    while start < stop:
        found, start = run.columns(
            start,
            stop,
            dead,
            wanted.records_max,
            wanted.bytes_max,
            wanted.columns,
            base,
            wanted.match,
        )
        if found.count:
            yield found
