"""What a batch of a stream reads, and how it is cut into tasks, by its two offsets alone. Pure.

The sink knows rows that come again by the number of their partition. So the cuts must be the same
whenever a batch is run: nothing that a checkpoint, a retention or another machine would change may
enter into them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.spark.gaps import GapRow
from penstock.spark.offsets import Offset, Offsets
from penstock.spark.ranges import RECREATED

TASKS_MAX: Final = 4096


@dataclass(frozen=True, slots=True)
class Piece:
    """Seqs past `after` up to `last` of one epoch of a topic, be they there or not."""

    topic: str
    epoch: int
    after: int
    last: int


def carried(start: Offsets, end: Offsets) -> Offsets:
    """The end with what has to be known when its batch is run again. Where nothing has come it
    is the start itself: Spark compares texts."""
    found: Offsets = {}
    for topic, new in end.items():
        old = start.get(topic)
        if old is None:
            found[topic] = Offset(new.epoch, new.seq)
        elif old.is_initial:
            first = old.seq if old.epoch == new.epoch else 0
            found[topic] = Offset(new.epoch, new.seq, first if first < new.seq else None)
        else:
            found[topic] = old if old == new else Offset(new.epoch, new.seq)
    return found


def settled(start: Offsets, end: Offsets) -> tuple[Offsets, list[GapRow]]:
    """Where the batch begins, whatever the initial offset would be now; and gaps that the
    offsets themselves tell of."""
    found: Offsets = {}
    gaps: list[GapRow] = []
    for topic in sorted({*start, *end}):
        old, new = start.get(topic), end.get(topic)
        if new is None:
            if old is not None and not old.is_initial:  # else it came after the batch
                found[topic] = old
        elif old is None or old.is_initial:
            unread = new.seq if old is not None else 0
            found[topic] = Offset(new.epoch, unread if new.begun is None else new.begun)
        elif old.epoch == new.epoch and new.seq < old.seq:  # this is another log
            gaps.append(GapRow(topic, old.epoch, new.seq + 1, old.seq, RECREATED))
            found[topic] = Offset(new.epoch, 0)
        else:
            found[topic] = old
    return found, gaps


def cut(start: Offsets, end: Offsets, records_max: int) -> list[list[Piece]]:
    """The pieces of each task: seqs in the order of topics, cut evenly, at most `records_max` a
    task unless there would be too many."""
    ranges = []
    for topic in sorted(end):
        old, new = start.get(topic), end[topic]
        after = old.seq if old is not None and old.epoch == new.epoch else 0
        if after < new.seq:
            ranges.append(Piece(topic, new.epoch, after, new.seq))
    total = sum(one.last - one.after for one in ranges)
    count = min(TASKS_MAX, -(-total // records_max))
    tasks: list[list[Piece]] = [[] for _ in range(count)]
    before = 0  # seqs of the topics that are done with
    for one in ranges:
        at = one.after
        while at < one.last:
            # The task whose range holds the seq behind `at`: task n ends with total*(n+1)//count.
            number = (count * (before + at - one.after + 1) - 1) // total
            stop = total * (number + 1) // count - before + one.after
            last = min(one.last, stop)
            tasks[number].append(Piece(one.topic, one.epoch, at, last))
            at = last
        before += one.last - one.after
    return tasks
