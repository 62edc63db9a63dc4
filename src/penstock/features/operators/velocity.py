"""How fast values and events follow each other, in the order of their time.

The cells of a window are joined at read, so what happens between the last event of one and the
first of the next counts too. An event that arrives late extends its cell at the front. If it falls
between two events of its cell, an operator that needs its neighbours leaves it out: only the ends
of a cell are known.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.features import fold_kernel
from penstock.features.event_column import Bools, EventColumn, Int64s
from penstock.features.operators.finite import finite
from penstock.features.operators.number_rows import NumberRows
from penstock.features.operators.operator import Fold
from penstock.features.operators.operator_kind import Arguments, OperatorKind, Parameter
from penstock.features.operators.value_words import hashes_of, words_of_numbers


class TimeWeightedMean(NumberRows):
    """Values times the time that each was held."""

    def __init__(self) -> None:
        super().__init__(ints=3, floats=3)

    def fold(self, fold: Fold) -> None:
        (field,) = fold.fields
        fold_kernel.chosen.fold_held_values(
            fold.rows,
            fold.ts,
            fold.passes,
            field.is_present,
            field.floats(),
            self.ints,
            self.floats,
        )

    def value(self, rows: Sequence[int], now_ms: int) -> float | None:
        mean = fold_kernel.chosen.held_mean(rows, self.ints, self.floats)
        return None if mean is None else finite(mean)


class RateOfChange(NumberRows):
    """The first and the last value of each row."""

    def __init__(self) -> None:
        super().__init__(ints=3, floats=2)

    def fold(self, fold: Fold) -> None:
        (field,) = fold.fields
        fold_kernel.chosen.fold_endpoints(
            fold.rows,
            fold.ts,
            fold.passes,
            field.is_present,
            field.floats(),
            self.ints,
            self.floats,
        )

    def value(self, rows: Sequence[int], now_ms: int) -> float | None:
        _, first, last = fold_kernel.chosen.ends_of_rows(rows, self.ints)
        passed = self.ints.item(last, 2) - self.ints.item(first, 1) if first >= 0 else 0
        if passed <= 0:
            return None
        change = self.floats.item(last, 1) - self.floats.item(first, 0)
        return finite(change / (passed / 1000.0))


class InterArrival(NumberRows):
    """The first and the last time of each row. The gaps between them add up to their distance."""

    def __init__(self) -> None:
        super().__init__(ints=3)

    def fold(self, fold: Fold) -> None:
        fold_kernel.chosen.fold_arrivals(fold.rows, fold.ts, fold.passes, self.ints)

    def value(self, rows: Sequence[int], now_ms: int) -> float | None:
        events, first, last = fold_kernel.chosen.ends_of_rows(rows, self.ints)
        if events < 2:
            return None
        span: int = self.ints.item(last, 2) - self.ints.item(first, 1)
        return span / (events - 1)


class BurstCount(NumberRows):
    """The largest count of a sub-window of each row, and its first and last, which a neighbouring
    row may share."""

    def __init__(self, sub_window_ms: int) -> None:
        super().__init__(ints=5)
        self._sub_window_ms = sub_window_ms

    def fold(self, fold: Fold) -> None:
        fold_kernel.chosen.fold_bursts(
            fold.rows, fold.ts, fold.passes, self._sub_window_ms, self.ints
        )

    def value(self, rows: Sequence[int], now_ms: int) -> int:
        return fold_kernel.chosen.largest_burst(rows, self.ints)


class ValueChangeCount(NumberRows):
    """Changes of each row, and its first and last value."""

    def __init__(self) -> None:
        super().__init__(ints=6)

    def fold(self, fold: Fold) -> None:
        (field,) = fold.fields
        fold_kernel.chosen.fold_changes(
            fold.rows,
            fold.ts,
            fold.passes,
            _numbers_present(field),
            _codes_of(field),
            self.ints,
        )

    def value(self, rows: Sequence[int], now_ms: int) -> int:
        return fold_kernel.chosen.count_changes(rows, self.ints)


def _numbers_present(column: EventColumn) -> Bools:
    """Where there is a value that equals itself."""
    if column.type != "f64":
        return column.is_present
    present: Bools = column.is_present & ~np.isnan(column.values)
    return present


def _codes_of(column: EventColumn) -> Int64s:
    """A number for each value: equal for equal values. That of a text is a hash of 64 bits."""
    words = hashes_of(column) if column.type == "str" else words_of_numbers(column)
    return words.view(np.int64)


def _burst_count(arguments: Arguments) -> BurstCount:
    return BurstCount(arguments.parameters["sub_window"])


KINDS = (
    OperatorKind(
        name="twa",
        summary="The time-weighted mean: each value weighs as much as the time until the next "
        "value. The last value if all have the same time; null without values.",
        fields=(("field", "number"),),
        parameters=(),
        window="optional",
        output="f64",
        make=lambda arguments: TimeWeightedMean(),
        row_bytes=lambda arguments: 48,
    ),
    OperatorKind(
        name="rate_of_change",
        summary="The last value minus the first, divided by the seconds between them; null "
        "unless they have different times.",
        fields=(("field", "number"),),
        parameters=(),
        window="optional",
        output="f64",
        make=lambda arguments: RateOfChange(),
        row_bytes=lambda arguments: 40,
    ),
    OperatorKind(
        name="inter_arrival_stats",
        summary="The mean time between consecutive events, in ms; null with fewer than two events.",
        fields=(),
        parameters=(),
        window="optional",
        output="f64",
        make=lambda arguments: InterArrival(),
        row_bytes=lambda arguments: 24,
    ),
    OperatorKind(
        name="burst_count",
        summary="The largest number of events in one `sub_window`; 0 without events. Sub-windows "
        "follow each other without overlap, counted from 1970.",
        fields=(),
        parameters=(Parameter("sub_window", "duration", minimum=1, is_required=True),),
        window="optional",
        output="i64",
        make=_burst_count,
        row_bytes=lambda arguments: 40,
    ),
    OperatorKind(
        name="value_change_count",
        summary="The number of values that differ from the value before; 0 without values.",
        fields=(("field", "scalar"),),
        parameters=(),
        window="optional",
        output="i64",
        make=lambda arguments: ValueChangeCount(),
        row_bytes=lambda arguments: 48,
        error="Two texts whose hashes of 64 bits are equal count as the same value.",
    ),
)
