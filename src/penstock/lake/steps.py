"""What the next step reads: from the offsets of a table to the heads of the log. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penstock.lake.manifest import Place


@dataclass(frozen=True, slots=True)
class Step:
    """A range of each topic: past the start, up to and including the end."""

    starts: dict[str, Place]
    ends: dict[str, Place]
    is_last: bool  # the heads are reached with it

    @property
    def topics(self) -> list[str]:
        return sorted(self.ends)


def next_step(read: Mapping[str, Place], heads: Mapping[str, Place], seqs_max: int) -> Step | None:
    """At most `seqs_max` seqs in all; None when there is nothing to read.

    A topic that is new begins before its first record, so that what it had lost by then is told as
    a gap. One that was recreated has something to tell even when it is empty.
    """
    starts: dict[str, Place] = {}
    ends: dict[str, Place] = {}
    left = seqs_max
    is_last = True
    for topic in sorted(heads):
        head = heads[topic]
        start = read.get(topic, Place(head.epoch, 0))
        if start.is_ended:  # which has been told
            start = Place(head.epoch, start.seq if start.epoch == head.epoch else 0)
        if start == head or (topic not in read and head.seq == 0):
            continue
        if left <= 0:
            is_last = False
            continue
        after = start.seq if start.epoch == head.epoch and start.seq <= head.seq else 0
        end = min(head.seq, after + left)
        left -= end - after
        is_last = is_last and end == head.seq
        starts[topic], ends[topic] = start, Place(head.epoch, end)
    return Step(starts, ends, is_last) if ends else None


def ended(
    read: Mapping[str, Place], heads: Mapping[str, Place], is_meant: Callable[[str], bool]
) -> dict[str, Place]:
    """Topics that have been read and are no more, which nobody was told yet."""
    return {
        topic: Place(place.epoch, place.seq, is_ended=True)
        for topic, place in read.items()
        if topic not in heads and not place.is_ended and is_meant(topic)
    }


def past(read: Mapping[str, Place], topic: str, epoch: int, last: int) -> bool:
    """Whether a file of this epoch that ends here has anything past what has been read."""
    place = read.get(topic)
    return place is None or (epoch, last) > (place.epoch, place.seq)
