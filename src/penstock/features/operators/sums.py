"""Sums and means. Of i64 they are exact; of f64 they add in the order of the events, and the cells
of a window from the oldest to the newest."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from penstock.features import fold_kernel
from penstock.features.operators.finite import finite, int64
from penstock.features.operators.operator import Fold, Operator
from penstock.features.operators.operator_kind import Arguments, FieldNeed, OperatorKind
from penstock.features.operators.row_state import RowArray, RowState, elements

NO_CARRY = -(1 << 31)
NUMBER: tuple[tuple[str, FieldNeed], ...] = (("field", "number"),)


class IntSum(RowState):
    """The exact sum of i64 values: a low of 64 bits and a carry of 32, 12 bytes a row."""

    def __init__(self, **more: RowArray) -> None:
        super().__init__(lows=RowArray(np.int64), carries=RowArray(np.int32, NO_CARRY), **more)

    def fold(self, fold: Fold) -> None:
        (column,) = fold.fields
        arrays = self.arrays
        fold_kernel.chosen.fold_int_sums(
            fold.rows,
            fold.passes,
            column.is_present,
            column.values,
            arrays["lows"],
            arrays["carries"],
        )

    def total(self, rows: Sequence[int]) -> int | None:
        """The sum of all rows. None: they have no value."""
        lows, carries = elements(self.arrays["lows"], rows), elements(self.arrays["carries"], rows)
        parts = [
            low + (carry << 64)
            for low, carry in zip(lows, carries, strict=True)
            if carry != NO_CARRY
        ]
        return sum(parts) if parts else None

    def value(self, rows: Sequence[int], now_ms: int) -> float | None:
        total = self.total(rows)
        return None if total is None else int64(total)


class FloatSum(RowState):
    """The sum of f64 values, 8 bytes a row. A row without values has -0.0, which no sum can be."""

    def __init__(self) -> None:
        super().__init__(sums=RowArray(np.float64, -0.0))

    def fold(self, fold: Fold) -> None:
        (column,) = fold.fields
        fold_kernel.chosen.fold_float_sums(
            fold.rows, fold.passes, column.is_present, column.values, self.arrays["sums"]
        )

    def value(self, rows: Sequence[int], now_ms: int) -> float | None:
        total = -0.0
        for part in elements(self.arrays["sums"], rows):
            total += part
        return None if total == 0 and math.copysign(1, total) < 0 else finite(total)


class IntMean(IntSum):
    """The exact sum of i64 values by their number, rounded once."""

    def __init__(self) -> None:
        super().__init__(counts=RowArray(np.int64))

    def fold(self, fold: Fold) -> None:
        super().fold(fold)
        present = fold.fields[0].is_present
        fold_kernel.chosen.fold_present(fold.rows, fold.passes, present, self.arrays["counts"])

    def value(self, rows: Sequence[int], now_ms: int) -> float | None:
        total = self.total(rows)
        return None if total is None else total / sum(elements(self.arrays["counts"], rows))


class FloatMean(RowState):
    """The sum of f64 values by their number."""

    def __init__(self) -> None:
        super().__init__(counts=RowArray(np.int64), sums=RowArray(np.float64))

    def fold(self, fold: Fold) -> None:
        (column,) = fold.fields
        fold_kernel.chosen.fold_means(
            fold.rows,
            fold.passes,
            column.is_present,
            column.values,
            self.arrays["counts"],
            self.arrays["sums"],
        )

    def value(self, rows: Sequence[int], now_ms: int) -> float | None:
        count = sum(elements(self.arrays["counts"], rows))
        total = 0.0
        for part in elements(self.arrays["sums"], rows):
            total += part
        return finite(total / count) if count else None


def is_int(arguments: Arguments) -> bool:
    return arguments.field_types[0] == "i64"


def make_sum(arguments: Arguments) -> Operator:
    return IntSum() if is_int(arguments) else FloatSum()


def make_mean(arguments: Arguments) -> Operator:
    return IntMean() if is_int(arguments) else FloatMean()


KINDS = (
    OperatorKind(
        name="sum",
        summary="The sum of the values, of the column's type; null without values. A sum of i64 "
        "is exact, and null if it does not fit 64 bits.",
        fields=NUMBER,
        parameters=(),
        window="optional",
        output=lambda types: types[0],
        make=make_sum,
        row_bytes=lambda arguments: 12 if is_int(arguments) else 8,
    ),
    OperatorKind(
        name="mean",
        summary="The mean of the values; null without values.",
        fields=NUMBER,
        parameters=(),
        window="optional",
        output="f64",
        make=make_mean,
        row_bytes=lambda arguments: 20 if is_int(arguments) else 16,
    ),
)
