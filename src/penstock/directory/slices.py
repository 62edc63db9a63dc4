"""Parts of a topic that can be read elsewhere: by another thread, process or machine that sees the
same files. Here they are planned.

A slice names its records by topic and seqs, and has their files at the time it was made. It is read
by `slice_reader`. If the files were moved since, `moved_segments` finds the records again.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from penstock.directory.directory_view import DirectoryView
from penstock.storage.segments.format import SegmentFacts
from penstock.storage.segments.reader import Segment
from penstock.topics import read_plan
from penstock.topics.topic import Topic
from penstock.types import Gap


@dataclass(frozen=True, slots=True)
class Sealed:
    """A segment's files, and which of its records are deleted."""

    directory: str
    log_id: bytes
    facts: SegmentFacts
    dead: bytes | None
    cold: str = ""  # where its data is once it has left this directory


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
    """A range of a topic: its slices, and the gaps to report."""

    slices: list[Slice]
    gaps: list[Gap]


def cut(view: DirectoryView, topic: Topic, *, after: int, last: int, records_max: int) -> Cut:
    """Records past `after` up to `last`, in slices of about `records_max` each."""
    slices: list[Slice] = []
    gaps: list[Gap] = []
    last = min(last, topic.head)
    at = after
    while at < last:
        plan = read_plan.plan(topic, after=at, epoch=None, records_max=1 << 62)
        if plan.gap is not None:
            gaps.append(msgspec.structs.replace(plan.gap, last=min(plan.gap.last, last)))
        for stretch in plan.stretches:
            first, stop = stretch.first + stretch.start, stretch.first + stretch.stop
            stop = min(stop, last + 1)
            for start in range(first, stop, records_max):
                end = min(stop, start + records_max)
                part = _slice(view, topic, stretch, start, end)
                if part.records:
                    slices.append(part)
        at = plan.last
    return Cut(slices, gaps)


def reach(topic: Topic, *, after: int, last: int, records_max: int, bytes_max: int) -> int:
    """The last seq such that the range past `after` has at most this many live records and bytes.
    At least one seq further. Lost and deleted records do not count."""
    at = after
    while at < last:
        plan = read_plan.plan(topic, after=at, epoch=None, records_max=1 << 62)
        for stretch in plan.stretches:
            stop = min(stretch.stop, last + 1 - stretch.first)
            if stretch.start >= stop:
                continue
            records, size = stretch.run.measure(stretch.start, stop, stretch.dead)
            if records > records_max or size > bytes_max:
                index = _index_within(stretch, stop, records_max, bytes_max)
                return max(after + 1, stretch.first + index - 1)
            records_max -= records
            bytes_max -= size
        at = plan.last
    return max(after, last)


def weigh(topic: Topic, *, after: int, last: int) -> int:
    """The bytes of live records past `after` up to `last`."""
    total = 0
    at = after
    while at < last:
        plan = read_plan.plan(topic, after=at, epoch=None, records_max=1 << 62)
        for stretch in plan.stretches:
            stop = min(stretch.stop, last + 1 - stretch.first)
            if stretch.start < stop:
                total += stretch.run.measure(stretch.start, stop, stretch.dead)[1]
        at = plan.last
    return total


def _index_within(
    stretch: read_plan.IndexRange, stop: int, records_max: int, bytes_max: int
) -> int:
    """The index before which the stretch has at most this many records and bytes."""
    low, high = stretch.start, stop
    while low < high:
        middle = (low + high + 1) // 2
        records, size = stretch.run.measure(stretch.start, middle, stretch.dead)
        if records > records_max or size > bytes_max:
            high = middle - 1
        else:
            low = middle
    return low


def _slice(
    view: DirectoryView, topic: Topic, stretch: read_plan.IndexRange, start: int, stop: int
) -> Slice:
    run, dead = stretch.run, stretch.dead
    records, size = run.measure(start - stretch.first, stop - stretch.first, dead)
    sealed = None
    if isinstance(run, Segment):
        directory = run.stem.rpartition("/")[0]
        bits = None if dead is None else bytes(dead)
        sealed = Sealed(directory, view.layout.log_id, run.facts, bits, view.cold)
    return Slice(view.layout.root, topic.name, topic.id, start, stop - 1, records, size, sealed)
