"""Rows of the gap ledger: seqs that were missing when the log was read. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, replace

DROPPED = "topic_deleted"
CORRUPT = "corrupt"  # damaged, and left out because of --skip-corrupt


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """Seqs `first` to `last` of one epoch of a topic. Without `last`: all seqs from `first` to the
    end of the epoch, whose head is unknown."""

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
        """Whether a file with this range may hold seqs of the gap."""
        is_here = (topic, epoch) == (self.topic, self.epoch)
        return is_here and last >= self.first and (self.last is None or first <= self.last)


def minus(row: LedgerRow, held: Sequence[tuple[int, int]]) -> list[LedgerRow]:
    """The gap without these ascending ranges of seqs. Records that were read before they were lost
    are not missing."""
    found = []
    first = row.first
    for low, high in held:
        if low > first:
            found.append(replace(row, first=first, last=low - 1))
        first = max(first, high + 1)
    if row.last is None or first <= row.last:
        found.append(replace(row, first=first))
    return found
