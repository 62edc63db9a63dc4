"""Rows of the gap ledger: what was missing when records were read. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, replace

DROPPED = "topic_deleted"
CORRUPT = "corrupt"  # there, and not readable: left out because the run was told to


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """Seqs `first` to `last` of one epoch of a topic. Without a `last` it is all the rest of the
    epoch, which ended unseen."""

    topic: str
    epoch: int
    first: int
    last: int | None
    reason: str
    noticed: datetime.datetime

    def __str__(self) -> str:
        last = "the end" if self.last is None else str(self.last)
        return f"topic {self.topic}, epoch {self.epoch}: {self.first} to {last} ({self.reason})"

    def overlaps(self, topic: str, epoch: int, first: int, last: int) -> bool:
        """Whether a file with this range may hold some of it."""
        is_here = (topic, epoch) == (self.topic, self.epoch)
        return is_here and last >= self.first and (self.last is None or first <= self.last)


def minus(row: LedgerRow, held: Sequence[tuple[int, int]]) -> list[LedgerRow]:
    """What is left of a gap without these ranges, which ascend: records that were read before
    they were lost are no gap."""
    found = []
    first = row.first
    for low, high in held:
        if low > first:
            found.append(replace(row, first=first, last=low - 1))
        first = max(first, high + 1)
    if row.last is None or first <= row.last:
        found.append(replace(row, first=first))
    return found
