"""When events were seen: the earliest and the latest time, and how long ago."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.features import fold_kernel
from penstock.features.operators.operator import Fold
from penstock.features.operators.operator_kind import Arguments, OperatorKind
from penstock.features.operators.row_state import RowArray, RowState, elements

NEVER = -(1 << 63)


class SeenTime(RowState):
    """The earliest, or the latest, time of an event that passes: 8 bytes a row.

    By time, not by place in the log: with event time an event may come late.
    """

    is_first: bool

    def __init__(self) -> None:
        super().__init__(times=RowArray(np.int64, NEVER))

    def fold(self, fold: Fold) -> None:
        fold_kernel.chosen.fold_times(
            fold.rows, fold.passes, fold.ts, self.is_first, self.arrays["times"]
        )

    def time(self, rows: Sequence[int]) -> int | None:
        """None: no event passed."""
        times = [time for time in elements(self.arrays["times"], rows) if time != NEVER]
        return (min if self.is_first else max)(times, default=None)

    def value(self, rows: Sequence[int], now_ms: int) -> int | None:
        return self.time(rows)


class FirstSeen(SeenTime):
    is_first = True


class LastSeen(SeenTime):
    is_first = False


class Age(FirstSeen):
    def value(self, rows: Sequence[int], now_ms: int) -> int | None:
        time = self.time(rows)
        return None if time is None else now_ms - time


class TimeSince(LastSeen):
    def value(self, rows: Sequence[int], now_ms: int) -> int | None:
        time = self.time(rows)
        return None if time is None else now_ms - time


class HasSeen(RowState):
    """Whether an event ever passed: 1 byte a row."""

    def __init__(self) -> None:
        super().__init__(is_seen=RowArray(np.bool_))

    def fold(self, fold: Fold) -> None:
        self.arrays["is_seen"][fold.rows[fold.passes]] = True

    def value(self, rows: Sequence[int], now_ms: int) -> bool:
        return any(elements(self.arrays["is_seen"], rows))


class SeenInWindow(LastSeen):
    """Whether the latest event that passes is younger than the window, to the millisecond."""

    def __init__(self, arguments: Arguments) -> None:
        super().__init__()
        self._window_ms = arguments.window_ms or 0

    def value(self, rows: Sequence[int], now_ms: int) -> bool:
        time = self.time(rows)
        return time is not None and now_ms - time < self._window_ms


def kind(name: str, summary: str, operator: type[SeenTime]) -> OperatorKind:
    return OperatorKind(
        name=name,
        summary=summary,
        fields=(),
        parameters=(),
        window="none",
        output="i64",
        make=lambda arguments: operator(),
        row_bytes=lambda arguments: 8,
    )


KINDS = (
    kind(
        "first_seen",
        "The earliest time of an event, in ms since 1970; null without events.",
        FirstSeen,
    ),
    kind(
        "last_seen", "The latest time of an event, in ms since 1970; null without events.", LastSeen
    ),
    kind("age", "The time of the read minus `first_seen`, in ms; null without events.", Age),
    OperatorKind(
        name="has_seen",
        summary="Whether there was an event.",
        fields=(),
        parameters=(),
        window="none",
        output="bool",
        make=lambda arguments: HasSeen(),
        row_bytes=lambda arguments: 1,
    ),
    kind(
        "time_since",
        "The time of the read minus `last_seen`, in ms; null without events.",
        TimeSince,
    ),
    OperatorKind(
        name="first_seen_in_window",
        summary="Whether the latest event is younger than the window, to the millisecond.",
        fields=(),
        parameters=(),
        window="required",
        output="bool",
        make=SeenInWindow,
        row_bytes=lambda arguments: 8,
        is_self_windowed=True,
    ),
)
