"""The least and the greatest value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.features import fold_kernel
from penstock.features.event_column import ColumnType
from penstock.features.operators.operator import Fold, Operator
from penstock.features.operators.operator_kind import Arguments, OperatorKind
from penstock.features.operators.row_state import RowArray, RowState, elements
from penstock.features.operators.value_arrays import SharedTexts, bits_of, python_value


class IntExtreme(RowState):
    """Of i64 and bool: the value and whether there is one, 9 bytes a row."""

    def __init__(self, type_: ColumnType, is_least: bool) -> None:
        super().__init__(bests=RowArray(np.int64), is_set=RowArray(np.bool_))
        self._type = type_
        self._is_least = is_least

    def fold(self, fold: Fold) -> None:
        (column,) = fold.fields
        fold_kernel.chosen.fold_int_extremes(
            fold.rows,
            fold.passes,
            column.is_present,
            bits_of(column),
            self._is_least,
            self.arrays["bests"],
            self.arrays["is_set"],
        )

    def value(self, rows: Sequence[int], now_ms: int) -> int | bool | None:
        is_set = self.arrays["is_set"]
        bests = elements(self.arrays["bests"], [row for row in rows if is_set[row]])
        best = extreme(bests, self._is_least)
        return None if best is None else python_value(self._type, best)


class FloatExtreme(RowState):
    """Of f64: 8 bytes a row, NaN where there is no value."""

    def __init__(self, is_least: bool) -> None:
        super().__init__(bests=RowArray(np.float64, np.nan))
        self._is_least = is_least

    def fold(self, fold: Fold) -> None:
        (column,) = fold.fields
        fold_kernel.chosen.fold_float_extremes(
            fold.rows,
            fold.passes,
            column.is_present,
            column.values,
            self._is_least,
            self.arrays["bests"],
        )

    def value(self, rows: Sequence[int], now_ms: int) -> float | None:
        bests = [best for best in elements(self.arrays["bests"], rows) if best == best]
        best = extreme(bests, self._is_least)
        return None if best is None else python_value("f64", best)


class TextExtreme(RowState):
    """Of texts, which compare by code point: 8 bytes a row and the text."""

    def __init__(self, is_least: bool) -> None:
        super().__init__(bests=RowArray(np.object_, None))
        self._is_least = is_least
        self._shared = SharedTexts("str")

    def fold(self, fold: Fold) -> None:
        (column,) = fold.fields
        fold_kernel.chosen.fold_object_extremes(
            fold.rows,
            fold.passes,
            column.is_present,
            column.values,
            self._is_least,
            self.arrays["bests"],
            self._shared.texts,
        )

    def value(self, rows: Sequence[int], now_ms: int) -> str | None:
        bests = [best for best in elements(self.arrays["bests"], rows) if best is not None]
        best: str | None = extreme(bests, self._is_least)
        return best


def extreme(values: Sequence[Any], is_least: bool) -> Any:
    """The first of the least, or greatest, values. None: there are none."""
    return (min if is_least else max)(values, default=None)


def made(arguments: Arguments, is_least: bool) -> Operator:
    (type_,) = arguments.field_types
    match type_:
        case "f64":
            return FloatExtreme(is_least)
        case "str":
            return TextExtreme(is_least)
        case _:
            return IntExtreme(type_, is_least)


def row_bytes(arguments: Arguments) -> int:
    return {"f64": 8, "str": 8 + 60}.get(arguments.field_types[0], 9)


KINDS = (
    OperatorKind(
        name="min",
        summary="The smallest value; null without values. Numbers compare as numbers, texts by "
        "code point, and false is below true.",
        fields=(("field", "scalar"),),
        parameters=(),
        window="optional",
        output=lambda types: types[0],
        make=lambda arguments: made(arguments, is_least=True),
        row_bytes=row_bytes,
    ),
    OperatorKind(
        name="max",
        summary="The largest value; null without values. Values compare as in `min`.",
        fields=(("field", "scalar"),),
        parameters=(),
        window="optional",
        output=lambda types: types[0],
        make=lambda arguments: made(arguments, is_least=False),
        row_bytes=row_bytes,
    ),
)
