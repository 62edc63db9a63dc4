"""The next range of offsets to read, from the offsets of a table to the heads of the log. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penstock.lake.manifest import ReadPosition
from penstock.types import Offset


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """A range of each topic: the start is excluded, the end is included."""

    starts: dict[str, Offset]
    ends: dict[str, Offset]
    is_last: bool  # it reaches all heads

    @property
    def topics(self) -> list[str]:
        return sorted(self.ends)

    @property
    def read(self) -> dict[str, ReadPosition]:
        """The positions once the range has been read."""
        return {topic: ReadPosition(end.epoch, end.seq) for topic, end in self.ends.items()}


def next_step(
    read: Mapping[str, ReadPosition], heads: Mapping[str, Offset], seqs_max: int
) -> OffsetRange | None:
    """The next range, of at most `seqs_max` seqs in all; None if nothing is left to read.

    A new topic starts at seq 0, so that records it has lost already are reported as a gap. A
    recreated topic is read even if it is empty, because the read reports the end of its old epoch.
    """
    starts: dict[str, Offset] = {}
    ends: dict[str, Offset] = {}
    left = seqs_max
    is_last = True
    for topic in sorted(heads):
        head = heads[topic]
        position = read.get(topic, ReadPosition(head.epoch, 0))
        start = Offset(position.epoch, position.seq)
        if position.is_ended:  # the ledger has that row
            start = Offset(head.epoch, start.seq if start.epoch == head.epoch else 0)
        if start == head or (topic not in read and head.seq == 0):
            continue
        if left <= 0:
            is_last = False
            continue
        after = start.seq if start.epoch == head.epoch and start.seq <= head.seq else 0
        end = min(head.seq, after + left)
        left -= end - after
        is_last = is_last and end == head.seq
        starts[topic], ends[topic] = start, Offset(head.epoch, end)
    return OffsetRange(starts, ends, is_last) if ends else None


def ended(
    read: Mapping[str, ReadPosition],
    heads: Mapping[str, Offset],
    is_meant: Callable[[str], bool],
) -> dict[str, ReadPosition]:
    """Topics that were read and then dropped, and have no row in the ledger for that yet."""
    return {
        topic: ReadPosition(position.epoch, position.seq, is_ended=True)
        for topic, position in read.items()
        if topic not in heads and not position.is_ended and is_meant(topic)
    }


def past(read: Mapping[str, Offset], topic: str, epoch: int, last: int) -> bool:
    """Whether a file of this epoch and last seq has rows behind the read position."""
    position = read.get(topic)
    return position is None or (epoch, last) > (position.epoch, position.seq)
