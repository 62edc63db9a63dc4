"""Runs of events that meet `where`, and of those that do not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.features import fold_kernel
from penstock.features.operators.operator import Fold
from penstock.features.operators.operator_kind import OperatorKind
from penstock.features.operators.row_state import RowArray, RowState, elements


class Streak(RowState):
    """Events that pass since the last one that did not: 8 bytes a row."""

    def __init__(self) -> None:
        super().__init__(runs=RowArray(np.int64))

    def fold(self, fold: Fold) -> None:
        fold_kernel.chosen.fold_runs(fold.rows, fold.passes, self.arrays["runs"])

    def value(self, rows: Sequence[int], now_ms: int) -> int:
        return sum(elements(self.arrays["runs"], rows))


class NegativeStreak(Streak):
    """Events that do not pass since the last one that did: 8 bytes a row."""

    def fold(self, fold: Fold) -> None:
        fold_kernel.chosen.fold_runs(fold.rows, ~fold.passes, self.arrays["runs"])


class MaxStreak(RowState):
    """The longest run of events that pass: 16 bytes a row."""

    def __init__(self) -> None:
        super().__init__(runs=RowArray(np.int64), longest=RowArray(np.int64))

    def fold(self, fold: Fold) -> None:
        runs, longest = self.arrays["runs"], self.arrays["longest"]
        fold_kernel.chosen.fold_longest_runs(fold.rows, fold.passes, runs, longest)

    def value(self, rows: Sequence[int], now_ms: int) -> int:
        return max(elements(self.arrays["longest"], rows), default=0)


def kind(
    name: str, summary: str, operator: type[Streak] | type[MaxStreak], row_bytes: int
) -> OperatorKind:
    return OperatorKind(
        name=name,
        summary=summary,
        fields=(),
        parameters=(),
        window="none",
        output="i64",
        make=lambda arguments: operator(),
        row_bytes=lambda arguments: row_bytes,
    )


KINDS = (
    kind(
        "streak",
        "The number of consecutive events up to now that meet `where`. An event that does not "
        "meet it resets the number to 0.",
        Streak,
        8,
    ),
    kind("max_streak", "The largest value that `streak` has had.", MaxStreak, 16),
    kind(
        "negative_streak",
        "The number of consecutive events up to now that do not meet `where`. An event that meets "
        "it resets the number to 0.",
        NegativeStreak,
        8,
    ),
)
