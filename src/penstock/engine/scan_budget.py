"""The bounded search: how many records one read may look at while it searches for rare ones.

A read with a filter skips records. When its budget is spent, the read ends with the records found
so far, and its page has the seq to go on from. A short search needs no thread of its own.
"""

from __future__ import annotations

from typing import Final

from penstock import limits

_QUICK_RECORDS_MAX: Final = 20_000  # looked at without asking for a thread
_STEP_RECORDS: Final = 4096  # planned at a time


class ScanBudget:
    """The records that one read may still look at. Belongs to the read."""

    __slots__ = ("_left", "_wanted")

    def __init__(self, records_wanted: int) -> None:
        self._wanted = records_wanted
        self._left = limits.READ_SCAN_MAX

    def next_step(self) -> int:
        """How many records to plan next."""
        return min(max(self._wanted * 2, _STEP_RECORDS), max(self._left, 1))

    def spend(self, records: int) -> None:
        self._left -= max(0, records)

    @property
    def is_spent(self) -> bool:
        return self._left <= 0


def is_quick_scan(records: int) -> bool:
    """True if a read may look at so many records without a thread of its own."""
    return records <= _QUICK_RECORDS_MAX
