"""Sums, means and variances in which an event weighs half as much after each half-life.

Sums and counts are those of the time of the read. A mean has no such time: it changes with events
alone. An event older than the newest one, as event time allows, gets the weight that its age gives
it, so the order of events does not change a sum by more than rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from penstock.features import fold_kernel
from penstock.features.operators.finite import finite
from penstock.features.operators.number_rows import NumberRows
from penstock.features.operators.operator import Fold
from penstock.features.operators.operator_kind import Arguments, OperatorKind, Parameter

HALF_LIFE = Parameter("half_life", "duration", minimum=1, is_required=True)


class DecayedSum(NumberRows):
    """The sum as of the newest event of each row."""

    def __init__(self, half_life_ms: int) -> None:
        super().__init__(ints=2, floats=1)
        self._half_life_ms = half_life_ms

    def fold(self, fold: Fold) -> None:
        (field,) = fold.fields
        fold_kernel.chosen.fold_decayed_sum(
            fold.rows,
            fold.ts,
            fold.passes,
            field.is_present,
            field.floats(),
            self._half_life_ms,
            self.ints,
            self.floats,
        )

    def value(self, rows: Sequence[int], now_ms: int) -> float | None:
        for row in rows:
            count, newest = self.ints[row].tolist()
            if count:
                # An event from the future has its full weight, as if now were its time.
                age = max(0, now_ms - newest)
                return finite(self.floats.item(row, 0) * math.exp2(-(age / self._half_life_ms)))
        return None


class DecayedCount(DecayedSum):
    """The same, with 1 for each event."""

    def fold(self, fold: Fold) -> None:
        fold_kernel.chosen.fold_decayed_count(
            fold.rows, fold.ts, fold.passes, self._half_life_ms, self.ints, self.floats
        )


class DecayedMean(NumberRows):
    """Mean and variance of each row, and its newest value."""

    def __init__(self, half_life_ms: int) -> None:
        super().__init__(ints=2, floats=3)
        self._half_life_ms = half_life_ms

    def fold(self, fold: Fold) -> None:
        (field,) = fold.fields
        fold_kernel.chosen.fold_ew_moments(
            fold.rows,
            fold.ts,
            fold.passes,
            field.is_present,
            field.floats(),
            self._half_life_ms,
            self.ints,
            self.floats,
        )

    def value(self, rows: Sequence[int], now_ms: int) -> float | None:
        for row in rows:
            if self.ints.item(row, 0):
                return finite(self.floats.item(row, 0))
        return None


class DecayedVariance(DecayedMean):
    """The variance of these."""

    def value(self, rows: Sequence[int], now_ms: int) -> float | None:
        for row in rows:
            if self.ints.item(row, 0) > 1:
                return finite(self.floats.item(row, 1))
        return None


class DecayedDeviation(DecayedMean):
    """The newest value against mean and variance."""

    def value(self, rows: Sequence[int], now_ms: int) -> float | None:
        for row in rows:
            mean, variance, newest = self.floats[row].tolist()
            if variance > 0:
                return finite((newest - mean) / math.sqrt(variance))
        return None


def _half_life(arguments: Arguments) -> int:
    half_life_ms: int = arguments.parameters["half_life"]
    return half_life_ms


KINDS = (
    OperatorKind(
        name="ewma",
        summary="The exponentially weighted mean; null without values. A value x moves the mean "
        "by a * (x - mean), where a is 1 - 2^(-gap / half_life), or 1/2 if the event has the time "
        "of the last one.",
        fields=(("field", "number"),),
        parameters=(HALF_LIFE,),
        window="none",
        output="f64",
        make=lambda arguments: DecayedMean(_half_life(arguments)),
        row_bytes=lambda arguments: 40,
    ),
    OperatorKind(
        name="ewvar",
        summary="The exponentially weighted variance around the mean of `ewma`; null with fewer "
        "than two values.",
        fields=(("field", "number"),),
        parameters=(HALF_LIFE,),
        window="none",
        output="f64",
        make=lambda arguments: DecayedVariance(_half_life(arguments)),
        row_bytes=lambda arguments: 40,
    ),
    OperatorKind(
        name="ew_zscore",
        summary="The distance of the newest value from the mean of `ewma`, in exponentially "
        "weighted standard deviations, both including the value; null if the variance is 0.",
        fields=(("field", "number"),),
        parameters=(HALF_LIFE,),
        window="none",
        output="f64",
        make=lambda arguments: DecayedDeviation(_half_life(arguments)),
        row_bytes=lambda arguments: 40,
    ),
    OperatorKind(
        name="decayed_sum",
        summary="The sum of each value times 2^(-age / half_life), with the age at the time of "
        "the read; null without values.",
        fields=(("field", "number"),),
        parameters=(HALF_LIFE,),
        window="none",
        output="f64",
        make=lambda arguments: DecayedSum(_half_life(arguments)),
        row_bytes=lambda arguments: 24,
    ),
    OperatorKind(
        name="decayed_count",
        summary="The sum of 2^(-age / half_life) over all events, with the age at the time of the "
        "read; null without events.",
        fields=(),
        parameters=(HALF_LIFE,),
        window="none",
        output="f64",
        make=lambda arguments: DecayedCount(_half_life(arguments)),
        row_bytes=lambda arguments: 24,
    ),
)
