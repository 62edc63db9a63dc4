"""How many events: all, and the share of those that match."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.features import fold_kernel
from penstock.features.operators.operator import Fold
from penstock.features.operators.operator_kind import OperatorKind
from penstock.features.operators.row_state import RowArray, RowState, elements


class Count(RowState):
    """Events that pass."""

    def __init__(self) -> None:
        super().__init__(counts=RowArray(np.int64))

    def fold(self, fold: Fold) -> None:
        fold_kernel.chosen.fold_counts(fold.rows, fold.passes, self.arrays["counts"])

    def value(self, rows: Sequence[int], now_ms: int) -> int:
        return sum(elements(self.arrays["counts"], rows))


class Ratio(RowState):
    """Events that pass, of all events."""

    def __init__(self) -> None:
        super().__init__(matches=RowArray(np.int64), events=RowArray(np.int64))

    def fold(self, fold: Fold) -> None:
        matches, events = self.arrays["matches"], self.arrays["events"]
        fold_kernel.chosen.fold_matches(fold.rows, fold.passes, matches, events)

    def value(self, rows: Sequence[int], now_ms: int) -> float | None:
        events = sum(elements(self.arrays["events"], rows))
        return sum(elements(self.arrays["matches"], rows)) / events if events else None


KINDS = (
    OperatorKind(
        name="count",
        summary="The number of events; 0 without events.",
        fields=(),
        parameters=(),
        window="optional",
        output="i64",
        make=lambda arguments: Count(),
        row_bytes=lambda arguments: 8,
    ),
    OperatorKind(
        name="ratio",
        summary="The share of events that meet `where`, among all events of the key; 1.0 without "
        "`where`, null without events.",
        fields=(),
        parameters=(),
        window="optional",
        output="f64",
        make=lambda arguments: Ratio(),
        row_bytes=lambda arguments: 16,
    ),
)
