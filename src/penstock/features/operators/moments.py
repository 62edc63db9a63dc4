"""Variance and standard deviation of a sample, by the method of Welford.

The cells of a window are merged from the oldest to the newest by the formula of Chan, Golub and
LeVeque: another order could round differently.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from penstock.features import fold_kernel
from penstock.features.operators.finite import finite
from penstock.features.operators.operator import Fold
from penstock.features.operators.operator_kind import FieldNeed, OperatorKind
from penstock.features.operators.row_state import RowArray, RowState

NUMBER: tuple[tuple[str, FieldNeed], ...] = (("field", "number"),)


class Variance(RowState):
    """Count, mean and sum of squared differences: 24 bytes a row."""

    def __init__(self) -> None:
        super().__init__(
            counts=RowArray(np.int64), means=RowArray(np.float64), squares=RowArray(np.float64)
        )

    def fold(self, fold: Fold) -> None:
        (column,) = fold.fields
        fold_kernel.chosen.fold_moments(
            fold.rows, fold.passes, column.is_present, column.floats(), *self.arrays.values()
        )

    def value(self, rows: Sequence[int], now_ms: int) -> float | None:
        count, _, squares = fold_kernel.chosen.merged_moments(
            np.asarray(rows, np.int64), *self.arrays.values()
        )
        return finite(squares / (count - 1)) if count > 1 else None


class Deviation(Variance):
    """Its square root."""

    def value(self, rows: Sequence[int], now_ms: int) -> float | None:
        variance = super().value(rows, now_ms)
        return None if variance is None else math.sqrt(variance)


KINDS = (
    OperatorKind(
        name="var",
        summary="The sample variance of the values (divided by n - 1); null with fewer than two "
        "values.",
        fields=NUMBER,
        parameters=(),
        window="optional",
        output="f64",
        make=lambda arguments: Variance(),
        row_bytes=lambda arguments: 24,
    ),
    OperatorKind(
        name="std",
        summary="The sample standard deviation of the values, the square root of `var`; null with "
        "fewer than two values.",
        fields=NUMBER,
        parameters=(),
        window="optional",
        output="f64",
        make=lambda arguments: Deviation(),
        row_bytes=lambda arguments: 24,
    ),
)
