"""Counts by value and by hour, and values against those of the same hour of the day. Hours are
those of UTC."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise

import numpy as np

from penstock.errors import InvalidArgument
from penstock.features import fold_kernel
from penstock.features.operators.number_rows import NumberRows, deviations
from penstock.features.operators.operator import Fold
from penstock.features.operators.operator_kind import Arguments, OperatorKind, Parameter

BOUNDS_MAX = 1024  # of one histogram
DAY_HOURS = 24
WEEK_HOURS = 168
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
FIRST_HOUR = 3 * DAY_HOURS  # 1970 began on a Thursday
WEEK_NAMES = tuple(f"{day}-{hour:02}" for day in DAYS for hour in range(DAY_HOURS))


class Counts(NumberRows):
    """A fixed number of counts a row."""

    def __init__(self, width: int) -> None:
        super().__init__(ints=width)
        self._width = width

    def _counts(self, rows: Sequence[int]) -> list[int]:
        for row in rows:
            counts: list[int] = self.ints[row].tolist()
            return counts
        return [0] * self._width


class Histogram(Counts):
    """Events of each bin. A bin begins with its lower bound and ends before the next."""

    def __init__(self, bounds: Sequence[float]) -> None:
        super().__init__(len(bounds) + 1)
        self._bounds = np.array(bounds, np.float64)
        self._names = bin_names(bounds)

    def fold(self, fold: Fold) -> None:
        (field,) = fold.fields
        fold_kernel.chosen.fold_histograms(
            fold.rows, fold.passes, field.is_present, field.floats(), self._bounds, self.ints
        )

    def value(self, rows: Sequence[int], now_ms: int) -> dict[str, int]:
        return dict(zip(self._names, self._counts(rows), strict=True))


class HourHistogram(Counts):
    """Events of each hour of a cycle: a day, or a week from Monday."""

    def __init__(self, hours: int) -> None:
        super().__init__(hours)
        self._first_hour = FIRST_HOUR % hours

    def fold(self, fold: Fold) -> None:
        fold_kernel.chosen.fold_hours(fold.rows, fold.ts, fold.passes, self._first_hour, self.ints)

    def value(self, rows: Sequence[int], now_ms: int) -> list[int] | dict[str, int]:
        return self._counts(rows)


class WeekHistogram(HourHistogram):
    """The same by name, as "Mon-00"."""

    def value(self, rows: Sequence[int], now_ms: int) -> list[int] | dict[str, int]:
        return dict(zip(WEEK_NAMES, self._counts(rows), strict=True))


class SeasonalDeviation(NumberRows):
    """Moments of each hour of the day, and the newest value."""

    def __init__(self) -> None:
        super().__init__(ints=DAY_HOURS + 2, floats=2 * DAY_HOURS + 1)

    def fold(self, fold: Fold) -> None:
        (field,) = fold.fields
        fold_kernel.chosen.fold_seasons(
            fold.rows,
            fold.ts,
            fold.passes,
            field.is_present,
            field.floats(),
            self.ints,
            self.floats,
        )

    def value(self, rows: Sequence[int], now_ms: int) -> float | None:
        for row in rows:
            *counts, values, newest_ts = self.ints[row].tolist()
            hour = newest_ts // 3_600_000 % DAY_HOURS
            floats = self.floats[row]
            mean, squares = floats.item(hour), floats.item(DAY_HOURS + hour)
            if values:
                return deviations(floats.item(2 * DAY_HOURS), mean, squares, counts[hour])
        return None


def bin_names(bounds: Sequence[float]) -> list[str]:
    """ "<2", "2-4.5" and ">=4.5", of the bounds 2 and 4.5."""
    texts = [_number_text(bound) for bound in bounds]
    between = [f"{low}-{high}" for low, high in pairwise(texts)]
    return [f"<{texts[0]}", *between, f">={texts[-1]}"]


def _number_text(number: float) -> str:
    """The shortest decimals, without an exponent."""
    text = f"{Decimal(repr(float(number))):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _histogram(arguments: Arguments) -> Histogram:
    bounds = [float(bound) for bound in arguments.parameters["buckets"]]
    if not 1 <= len(bounds) <= BOUNDS_MAX:
        raise InvalidArgument(f"invalid buckets: {len(bounds)} numbers: expected 1 to {BOUNDS_MAX}")
    for low, high in pairwise(bounds):
        if not low < high:
            raise InvalidArgument(
                f"invalid buckets: {low} is followed by {high}: expected increasing numbers"
            )
    if not np.isfinite(bounds).all():
        raise InvalidArgument(f"invalid buckets {bounds}: expected finite numbers")
    return Histogram(bounds)


KINDS = (
    OperatorKind(
        name="histogram",
        summary="The number of values in each bin, as an object. The bounds 2 and 4.5 in "
        '`buckets` make the bins "<2", "2-4.5" and ">=4.5"; a bin includes its lower bound.',
        fields=(("field", "number"),),
        parameters=(Parameter("buckets", "numbers", is_required=True),),
        window="none",
        output="json",
        make=_histogram,
        row_bytes=lambda arguments: 8 * (len(arguments.parameters["buckets"]) + 1),
    ),
    OperatorKind(
        name="hour_of_day_histogram",
        summary="The number of events in each hour of the day, UTC, as an array of 24.",
        fields=(),
        parameters=(),
        window="none",
        output="json",
        make=lambda arguments: HourHistogram(DAY_HOURS),
        row_bytes=lambda arguments: 8 * DAY_HOURS,
    ),
    OperatorKind(
        name="dow_hour_histogram",
        summary="The number of events in each hour of the week, UTC, as an object with the names "
        '"Mon-00" to "Sun-23".',
        fields=(),
        parameters=(),
        window="none",
        output="json",
        make=lambda arguments: WeekHistogram(WEEK_HOURS),
        row_bytes=lambda arguments: 8 * WEEK_HOURS,
    ),
    OperatorKind(
        name="seasonal_deviation",
        summary="The distance of the newest value from the mean of the values in the same hour of "
        "the day, UTC, in standard deviations, both including the value; null if all values in "
        "that hour are equal.",
        fields=(("field", "number"),),
        parameters=(),
        window="none",
        output="f64",
        make=lambda arguments: SeasonalDeviation(),
        row_bytes=lambda arguments: 8 * (3 * DAY_HOURS + 3),
    ),
)
