"""The first and the last value, in the order of the log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.features import fold_kernel
from penstock.features.event_column import ColumnType
from penstock.features.operators.operator import Fold, Operator
from penstock.features.operators.operator_kind import Arguments, FieldNeed, OperatorKind
from penstock.features.operators.row_state import RowArray, RowState
from penstock.features.operators.value_arrays import (
    ARRAY_TYPES,
    SharedTexts,
    bits_in,
    bits_of,
    is_object,
    python_value,
)

ANY: tuple[tuple[str, FieldNeed], ...] = (("field", "any"),)


class NumberEnd(RowState):
    """Of numbers and booleans: the value and whether there is one, 9 bytes a row."""

    def __init__(self, type_: ColumnType, is_first: bool) -> None:
        super().__init__(ends=RowArray(ARRAY_TYPES[type_]), is_set=RowArray(np.bool_))
        self._type = type_
        self._is_first = is_first

    def fold(self, fold: Fold) -> None:
        (column,) = fold.fields
        fold_kernel.chosen.fold_ends(
            fold.rows,
            fold.passes,
            column.is_present,
            bits_of(column),
            self._is_first,
            bits_in(self.arrays["ends"]),
            self.arrays["is_set"],
        )

    def value(self, rows: Sequence[int], now_ms: int) -> Any:
        ends, is_set = self.arrays["ends"], self.arrays["is_set"]
        for row in rows if self._is_first else reversed(rows):
            if is_set[row]:
                return python_value(self._type, ends.item(row))
        return None


class ObjectEnd(RowState):
    """Of texts and JSON values: 8 bytes a row and the value."""

    def __init__(self, type_: ColumnType, is_first: bool) -> None:
        super().__init__(ends=RowArray(np.object_, None))
        self._is_first = is_first
        self._shared = SharedTexts(type_)

    def fold(self, fold: Fold) -> None:
        (column,) = fold.fields
        fold_kernel.chosen.fold_object_ends(
            fold.rows,
            fold.passes,
            column.is_present,
            column.values,
            self._is_first,
            self.arrays["ends"],
            self._shared.texts,
        )

    def value(self, rows: Sequence[int], now_ms: int) -> Any:
        ends = self.arrays["ends"]
        for row in rows if self._is_first else reversed(rows):
            if ends[row] is not None:
                return ends[row]
        return None


def made(arguments: Arguments, is_first: bool) -> Operator:
    (type_,) = arguments.field_types
    return (ObjectEnd if is_object(type_) else NumberEnd)(type_, is_first)


def row_bytes(arguments: Arguments) -> int:
    return 8 + 60 if is_object(arguments.field_types[0]) else 9


KINDS = (
    OperatorKind(
        name="first",
        summary="The first value that is not null, in the order of the log.",
        fields=ANY,
        parameters=(),
        window="optional",
        output=lambda types: types[0],
        make=lambda arguments: made(arguments, is_first=True),
        row_bytes=row_bytes,
    ),
    OperatorKind(
        name="last",
        summary="The last value that is not null, in the order of the log.",
        fields=ANY,
        parameters=(),
        window="optional",
        output=lambda types: types[0],
        make=lambda arguments: made(arguments, is_first=False),
        row_bytes=row_bytes,
    ),
)
