"""The difference between the last two values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.features import fold_kernel
from penstock.features.event_column import ColumnType
from penstock.features.operators.finite import finite, int64
from penstock.features.operators.operator import Fold
from penstock.features.operators.operator_kind import OperatorKind
from penstock.features.operators.row_state import RowArray, RowState
from penstock.features.operators.value_arrays import ARRAY_TYPES, bits_in, bits_of


class Delta(RowState):
    """The last two values and how many of them there are: 17 bytes a row."""

    def __init__(self, type_: ColumnType) -> None:
        super().__init__(
            previous=RowArray(ARRAY_TYPES[type_]),
            latest=RowArray(ARRAY_TYPES[type_]),
            counts=RowArray(np.uint8),
        )

    def fold(self, fold: Fold) -> None:
        (column,) = fold.fields
        fold_kernel.chosen.fold_pairs(
            fold.rows,
            fold.passes,
            column.is_present,
            bits_of(column),
            bits_in(self.arrays["previous"]),
            bits_in(self.arrays["latest"]),
            self.arrays["counts"],
        )

    def value(self, rows: Sequence[int], now_ms: int) -> float | None:
        values: list[Any] = []
        for row in reversed(rows):
            names = ("latest", "previous")[: self.arrays["counts"].item(row)]
            values += [self.arrays[name].item(row) for name in names]
            if len(values) > 1:
                difference = values[0] - values[1]
                return int64(difference) if isinstance(difference, int) else finite(difference)
        return None


KINDS = (
    OperatorKind(
        name="delta_from_prev",
        summary="The last value minus the one before it, of the column's type; null with fewer "
        "than two values, or if the difference does not fit the type.",
        fields=(("field", "number"),),
        parameters=(),
        window="optional",
        output=lambda types: types[0],
        make=lambda arguments: Delta(arguments.field_types[0]),
        row_bytes=lambda arguments: 17,
    ),
)
