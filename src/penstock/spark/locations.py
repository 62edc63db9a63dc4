"""The protocol of locations that records are read from (a directory, a server, or both), and the
division of their records into tasks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from penstock.directory.slices import Slice
from penstock.spark.bounds import Bounds
from penstock.spark.gaps import GapRow
from penstock.spark.offsets import Offsets, StreamOffset
from penstock.spark.options import SourceOptions
from penstock.spark.partitioning import SeqRange
from penstock.spark.shape import Shape
from penstock.spark.tasks import RemoteRange, TaskInput, TaskOptions, Work

T = TypeVar("T", Slice, RemoteRange)

_CORES = os.cpu_count() or 2  # of the driver; those of the executors are unknown
_WORTH_BYTES = 8 << 20  # less is not worth a second task
_MOST_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class ReadableRange:
    """The readable seqs of a topic, above `after` up to `last`. `work` gives the work for any part
    of them, in order."""

    after: int
    last: int
    work: Callable[[int, int], list[Work]]


@dataclass(slots=True)
class Plan:
    """The ranges to read, and the gaps to report."""

    ranges: dict[str, ReadableRange] = field(default_factory=dict)
    gaps: list[GapRow] = field(default_factory=list)

    @property
    def work(self) -> list[Work]:
        """The work for all ranges."""
        return [
            one for known in self.ranges.values() for one in known.work(known.after, known.last)
        ]

    def of(self, pieces: Iterable[SeqRange]) -> list[Work]:
        """The work for the readable parts of these ranges, in their order."""
        found: list[Work] = []
        for piece in pieces:
            known = self.ranges.get(piece.topic)
            if known is not None:
                after, last = max(piece.after, known.after), min(piece.last, known.last)
                found += known.work(after, last) if after < last else []
        return found


class Location(Protocol):
    """Used by the driver only."""

    def beginning(self) -> Offsets:
        """The starting offsets of all chosen topics by the options. TopicNotFound for a named topic
        that does not exist."""

    def heads(self) -> Offsets:
        """The heads of all chosen topics."""

    def within(self, begun: Offsets, heads: Offsets, records_max: int, bytes_max: int) -> Offsets:
        """The offsets that these limits allow, up to the heads; at least one record further. 0
        means no limit."""

    def between(self, begun: Offsets, end: Offsets, bounds: Bounds) -> Plan:
        """The plan for the records above `begun` up to `end`."""

    def whole(self, bounds: Bounds) -> Plan:
        """The plan from the start to the end of the options, from one state of the log. Without a
        start option, records that were lost before the first live one are not a gap."""

    def record_progress(self, end: Offsets) -> None:
        """Record that everything up to these offsets has been processed."""

    def close(self) -> None:
        """Close connections and files. The location can be used again."""


def ends(heads: Offsets, options: SourceOptions) -> Offsets:
    """The ending offsets of a batch by the options."""
    found = {
        topic: StreamOffset(head.epoch, min(head.seq, options.ending_seq))
        for topic, head in heads.items()
    }
    given = {
        topic: offset for topic, offset in options.ending_offsets.items() if options.matches(topic)
    }
    return found | given


def shared(waiting: dict[str, int], budget: int) -> dict[str, int]:
    """Divide a budget among topics in proportion to what each has waiting; at least 1 each."""
    total = sum(waiting.values())
    if not budget or total <= budget:
        return dict(waiting)
    return {topic: max(1, budget * amount // total) for topic, amount in waiting.items()}


def parts(
    work: Iterable[Work], source: SourceOptions, bounds: Bounds, shape: Shape
) -> list[TaskInput]:
    """The tasks of a batch query, of about equal size. One task reads the newest records of a
    directory, which are in its WAL."""
    options = task_options(source, bounds)
    sealed: list[Slice] = []
    newest: list[Work] = []
    remote: list[RemoteRange] = []
    for one in work:
        if isinstance(one, RemoteRange):
            remote.append(one)
        elif one.sealed is None:
            newest.append(one)
        else:
            sealed.append(one)
    groups: list[Sequence[Work]] = [*_grouped(sealed)]
    groups += [newest] if newest else []
    groups += _grouped(remote)
    return [TaskInput(list(group), options, shape) for group in groups]


def task_options(options: SourceOptions, bounds: Bounds) -> TaskOptions:
    return TaskOptions(
        options.url,
        options.token,
        options.on_gap,
        options.gap_ledger,
        options.skip_corrupt,
        bounds.match,
    )


def _grouped(things: Sequence[T]) -> list[list[T]]:
    """Consecutive items in groups of about equal size."""
    total = sum(one.bytes for one in things)
    count = max(-(-total // _MOST_BYTES), min(_CORES, -(-total // _WORTH_BYTES)), 1)
    groups: list[list[T]] = [[] for _ in range(count)]
    before = 0
    for one in things:
        middle = before + one.bytes // 2
        groups[min(count - 1, middle * count // max(1, total))].append(one)
        before += one.bytes
    return [group for group in groups if group]
