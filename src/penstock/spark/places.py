"""Where records are: a directory, a server, or both. What every place can tell of itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from penstock.engine.slices import Slice
from penstock.spark.bounds import Bounds
from penstock.spark.cuts import Piece
from penstock.spark.gaps import GapRow
from penstock.spark.offsets import Offset, Offsets
from penstock.spark.options import ReadOptions
from penstock.spark.shape import Shape
from penstock.spark.tasks import Manner, Part, Stretch, Work

T = TypeVar("T", Slice, Stretch)

_CORES = os.cpu_count() or 2  # the driver's, for want of knowing the executors'
_WORTH_BYTES = 8 << 20  # so little is not worth a second task
_MOST_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Reach:
    """Seqs past `after` up to `last` of a topic, which can be read; and how to come by those
    between any two of them, in their order."""

    after: int
    last: int
    work: Callable[[int, int], list[Work]]


@dataclass(slots=True)
class Plan:
    """What is to be read, and what its readers have to be told."""

    reaches: dict[str, Reach] = field(default_factory=dict)
    gaps: list[GapRow] = field(default_factory=list)

    @property
    def work(self) -> list[Work]:
        """All of it."""
        return [
            one for reach in self.reaches.values() for one in reach.work(reach.after, reach.last)
        ]

    def of(self, pieces: Iterable[Piece]) -> list[Work]:
        """As much of these as can be read, in their order."""
        found: list[Work] = []
        for piece in pieces:
            reach = self.reaches.get(piece.topic)
            if reach is not None:
                after, last = max(piece.after, reach.after), min(piece.last, reach.last)
                found += reach.work(after, last) if after < last else []
        return found


class Place(Protocol):
    """Asked by the driver alone."""

    def beginning(self) -> Offsets:
        """Where the options say that reading begins, for every topic that is meant.
        TopicNotFound for one that is named and not there."""

    def heads(self) -> Offsets:
        """The newest record of every topic that is meant."""

    def within(self, begun: Offsets, heads: Offsets, records_max: int, bytes_max: int) -> Offsets:
        """As far towards the heads as these bounds allow, 0 being none, and always a step."""

    def between(self, begun: Offsets, end: Offsets, bounds: Bounds) -> Plan:
        """The records past the one offsets up to the others."""

    def whole(self, bounds: Bounds) -> Plan:
        """From the beginning to the end that the options say, by one look at what there is: what
        is lost before a beginning that nobody asked for is no gap."""

    def note(self, end: Offsets) -> None:
        """Everything up to here has been dealt with."""

    def close(self) -> None:
        """Let go of whatever is open. It may be asked again."""


def ends(heads: Offsets, options: ReadOptions) -> Offsets:
    """Where the options say that a batch ends."""
    found = {
        topic: Offset(head.epoch, min(head.seq, options.ending_seq))
        for topic, head in heads.items()
    }
    told = {
        topic: offset for topic, offset in options.ending_offsets.items() if options.matches(topic)
    }
    return found | told


def shared(waiting: dict[str, int], budget: int) -> dict[str, int]:
    """A budget among topics, as much as each has waiting; at least 1."""
    total = sum(waiting.values())
    if not budget or total <= budget:
        return dict(waiting)
    return {topic: max(1, budget * amount // total) for topic, amount in waiting.items()}


def parts(work: Iterable[Work], options: ReadOptions, bounds: Bounds, shape: Shape) -> list[Part]:
    """Tasks of a batch query, of about the same weight. The newest records of a directory, which
    are looked for in its WAL, are for one of them."""
    manner = manner_of(options, bounds)
    sealed: list[Slice] = []
    newest: list[Work] = []
    stretches: list[Stretch] = []
    for one in work:
        if isinstance(one, Stretch):
            stretches.append(one)
        elif one.sealed is None:
            newest.append(one)
        else:
            sealed.append(one)
    groups: list[Sequence[Work]] = [*_grouped(sealed)]
    groups += [newest] if newest else []
    groups += _grouped(stretches)
    return [Part(list(group), manner, shape) for group in groups]


def manner_of(options: ReadOptions, bounds: Bounds) -> Manner:
    return Manner(
        options.url,
        options.token,
        options.on_gap,
        options.gap_ledger,
        options.skip_corrupt,
        bounds.match,
    )


def _grouped(things: Sequence[T]) -> list[list[T]]:
    """Neighbours together, in groups of about the same weight."""
    total = sum(one.bytes for one in things)
    count = max(-(-total // _MOST_BYTES), min(_CORES, -(-total // _WORTH_BYTES)), 1)
    groups: list[list[T]] = [[] for _ in range(count)]
    before = 0
    for one in things:
        middle = before + one.bytes // 2
        groups[min(count - 1, middle * count // max(1, total))].append(one)
        before += one.bytes
    return [group for group in groups if group]
