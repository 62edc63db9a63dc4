"""Divides a batch of a stream into tasks, by its two offsets alone. Pure.

The sink detects repeated rows by the number of their partition. So the division must be the same
each time a batch runs: it must not depend on checkpoints, retention or the machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.spark.gaps import GapRow
from penstock.spark.offsets import Offsets, StreamOffset
from penstock.spark.ranges import RECREATED

TASKS_MAX: Final = 4096


@dataclass(frozen=True, slots=True)
class SeqRange:
    """Seqs above `after` up to `last` of one epoch of a topic, whether they exist or not."""

    topic: str
    epoch: int
    after: int
    last: int


def with_begun(start: Offsets, end: Offsets) -> Offsets:
    """The end offsets with the `begun` that a rerun of the batch needs. A topic without new records
    keeps its start offset unchanged, because Spark compares offsets as texts."""
    found: Offsets = {}
    for topic, new in end.items():
        old = start.get(topic)
        if old is None:
            found[topic] = StreamOffset(new.epoch, new.seq)
        elif old.is_initial:
            first = old.seq if old.epoch == new.epoch else 0
            found[topic] = StreamOffset(new.epoch, new.seq, first if first < new.seq else None)
        else:
            found[topic] = old if old == new else StreamOffset(new.epoch, new.seq)
    return found


def resolved(start: Offsets, end: Offsets) -> tuple[Offsets, list[GapRow]]:
    """The start of the batch, independent of the present initial offset; and the gaps that follow
    from the offsets alone."""
    found: Offsets = {}
    gaps: list[GapRow] = []
    for topic in sorted({*start, *end}):
        old, new = start.get(topic), end.get(topic)
        if new is None:
            if old is not None and not old.is_initial:  # else the topic is newer than the batch
                found[topic] = old
        elif old is None or old.is_initial:
            unread = new.seq if old is not None else 0
            found[topic] = StreamOffset(new.epoch, unread if new.begun is None else new.begun)
        elif old.epoch == new.epoch and new.seq < old.seq:  # this is another log
            gaps.append(GapRow(topic, old.epoch, new.seq + 1, old.seq, RECREATED))
            found[topic] = StreamOffset(new.epoch, 0)
        else:
            found[topic] = old
    return found, gaps


def divide(start: Offsets, end: Offsets, records_max: int) -> list[list[SeqRange]]:
    """The ranges of each task: all seqs in the order of topics, divided evenly, at most
    `records_max` in a task unless that would make more than TASKS_MAX tasks."""
    ranges = []
    for topic in sorted(end):
        old, new = start.get(topic), end[topic]
        after = old.seq if old is not None and old.epoch == new.epoch else 0
        if after < new.seq:
            ranges.append(SeqRange(topic, new.epoch, after, new.seq))
    total = sum(one.last - one.after for one in ranges)
    count = min(TASKS_MAX, -(-total // records_max))
    tasks: list[list[SeqRange]] = [[] for _ in range(count)]
    before = 0  # seqs of the topics before this one
    for one in ranges:
        at = one.after
        while at < one.last:
            # The task that has seq at + 1: task n ends with total*(n+1)//count.
            number = (count * (before + at - one.after + 1) - 1) // total
            stop = total * (number + 1) // count - before + one.after
            last = min(one.last, stop)
            tasks[number].append(SeqRange(one.topic, one.epoch, at, last))
            at = last
        before += one.last - one.after
    return tasks
