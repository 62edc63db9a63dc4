"""Values against the mean and the standard deviation of the same key in a window.

The window is that of each event: an outlier is judged by the values before it, at its time. So
these operators keep buckets of their own for each key, a 64th of the window wide, however the
table keeps those of others.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.features import fold_kernel
from penstock.features.operators.chained_rows import ChainedRows
from penstock.features.operators.number_rows import deviations
from penstock.features.operators.operator import Fold
from penstock.features.operators.operator_kind import Arguments, OperatorKind, Parameter
from penstock.features.windows import BUCKETS_MAX

WARM_UP = 5  # values before the first that can be an outlier

KEY_BYTES = 72
BUCKET_BYTES = 48


class OutlierCount(ChainedRows):
    """Moments and outliers of each bucket."""

    def __init__(self, window_ms: int, sigma: float) -> None:
        super().__init__(ints=6, floats=3)
        self._window_ms = window_ms
        self._bucket_ms = -(-window_ms // BUCKETS_MAX)
        self._sigma = sigma

    def fold(self, fold: Fold) -> None:
        (field,) = fold.fields
        self.reserve(len(fold.rows))
        fold_kernel.chosen.fold_baselines(
            fold.rows,
            fold.ts,
            fold.passes,
            field.is_present,
            field.floats(),
            self._window_ms,
            self._bucket_ms,
            self._sigma,
            WARM_UP,
            self.keys,
            self.key_floats,
            self.items,
            self.item_floats,
            self.pool,
        )

    def value(self, rows: Sequence[int], now_ms: int) -> float | None:
        outliers = 0
        for row in rows:
            *_, outliers = self._baseline(row, now_ms)
        return outliers

    def _baseline(self, row: int, now_ms: int) -> tuple[int, float, float, int]:
        return fold_kernel.chosen.baseline(
            row, now_ms, self._window_ms, self.keys, self.items, self.item_floats
        )


class ZScore(OutlierCount):
    """The newest value against the moments of all buckets."""

    def __init__(self, window_ms: int) -> None:
        super().__init__(window_ms, sigma=0.0)  # no value is judged

    def value(self, rows: Sequence[int], now_ms: int) -> float | None:
        for row in rows:
            count, mean, squares, _ = self._baseline(row, now_ms)
            return deviations(self.key_floats.item(row, 0), mean, squares, count)
        return None


def _outlier_count(arguments: Arguments) -> OutlierCount:
    return OutlierCount(arguments.window_ms or 0, arguments.parameters["sigma"])


def _z_score(arguments: Arguments) -> ZScore:
    return ZScore(arguments.parameters["baseline_window"])


def _row_bytes(window_ms: int | None) -> int:
    return KEY_BYTES + BUCKET_BYTES * (BUCKETS_MAX * 5 // 4 if window_ms else 1)


KINDS = (
    OperatorKind(
        name="outlier_count",
        summary="The number of values that were outliers when they arrived: more than `sigma` "
        "standard deviations away from the mean of the earlier values in the window, of which "
        "there must be at least 5.",
        fields=(("field", "number"),),
        parameters=(Parameter("sigma", "float", 3.0, minimum=1e-9, maximum=1e9),),
        window="optional",
        output="i64",
        make=_outlier_count,
        row_bytes=lambda arguments: _row_bytes(arguments.window_ms),
        is_self_windowed=True,
    ),
    OperatorKind(
        name="z_score",
        summary="The distance of the newest value from the mean, in standard deviations. Both are "
        "taken over the sliding `baseline_window` (without one, over all values) and include the "
        "newest value; null if all values are equal.",
        fields=(("field", "number"),),
        parameters=(Parameter("baseline_window", "duration", 0),),
        window="none",
        output="f64",
        make=_z_score,
        row_bytes=lambda arguments: _row_bytes(arguments.parameters["baseline_window"]),
    ),
)
