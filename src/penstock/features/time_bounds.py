"""Which times events may have: at most so far ahead of the commit of their record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from penstock.features.definition_nodes import EventTime
from penstock.features.durations import duration_text
from penstock.features.event_column import Bools, Int64s

TIME_END: Final = 1 << 53  # ms; times at or beyond it are no times


@dataclass(frozen=True, slots=True)
class TimeBounds:
    """Of the times of one event type. Immutable.

    The largest time so far decides which events are late. One wrong time far in the future would
    make all later events late, for good: such an event is bad. The clock it is compared with is
    the one in the log, so a replay decides the same.
    """

    field: str
    ahead_ms: int

    @classmethod
    def of(cls, time: EventTime) -> TimeBounds:
        return cls(time.field, time.ahead_ms)

    def hold(self, times: Int64s, tss: Int64s | int) -> Bools:
        """Which times are within the bounds, for records that were committed at these."""
        last = np.minimum(np.asarray(tss, np.int64), TIME_END) + self.ahead_ms
        within: Bools = (times > -TIME_END) & (times < TIME_END) & (times <= last)
        return within

    def complaint(self, time: int | None, ts: int) -> str:
        """Why an event with this time, committed at `ts`, is bad. Empty: it is not."""
        if time is None:
            return f"field {self.field!r} is missing, which is the time of the event"
        if self.hold(np.array([time]), ts)[0]:
            return ""
        if time < ts:
            return f"field {self.field!r} is {time}, expected a time in ms since 1970"
        return (
            f"field {self.field!r} is {time}, expected a time in ms since 1970, at most "
            f"{duration_text(self.ahead_ms)} ahead of the commit of its event ({ts})"
        )
