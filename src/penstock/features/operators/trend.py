"""The straight line that fits the values of a window best, by least squares."""

from __future__ import annotations

import math
from collections.abc import Sequence

from penstock.features import fold_kernel
from penstock.features.operators.finite import finite
from penstock.features.operators.number_rows import NumberRows
from penstock.features.operators.operator import Fold
from penstock.features.operators.operator_kind import OperatorKind


class Trend(NumberRows):
    """The slope of the line."""

    def __init__(self) -> None:
        super().__init__(ints=2, floats=5)

    def fold(self, fold: Fold) -> None:
        (field,) = fold.fields
        fold_kernel.chosen.fold_comoments(
            fold.rows,
            fold.ts,
            fold.passes,
            field.is_present,
            field.floats(),
            self.ints,
            self.floats,
        )

    def value(self, rows: Sequence[int], now_ms: int) -> float | None:
        _, time_time, time_value, _ = fold_kernel.chosen.merge_comoments(
            rows, self.ints, self.floats
        )
        return finite(time_value / time_time) if time_time > 0 else None


class TrendResidual(Trend):
    """How far values lie from the line."""

    def value(self, rows: Sequence[int], now_ms: int) -> float | None:
        count, time_time, _, distances = fold_kernel.chosen.merge_comoments(
            rows, self.ints, self.floats
        )
        return finite(math.sqrt(distances / count)) if time_time > 0 else None


KINDS = (
    OperatorKind(
        name="trend",
        summary="The slope of the least-squares line through the values over time, per second; "
        "null unless values have two different times.",
        fields=(("field", "number"),),
        parameters=(),
        window="optional",
        output="f64",
        make=lambda arguments: Trend(),
        row_bytes=lambda arguments: 56,
    ),
    OperatorKind(
        name="trend_residual",
        summary="The root mean square of the distances of the values from the line of `trend`; "
        "null unless values have two different times.",
        fields=(("field", "number"),),
        parameters=(),
        window="optional",
        output="f64",
        make=lambda arguments: TrendResidual(),
        row_bytes=lambda arguments: 56,
    ),
)
