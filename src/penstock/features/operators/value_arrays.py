"""Arrays that hold values of a column's type by row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.features.event_column import ColumnType, EventColumn, Int64s
from penstock.features.operators.finite import finite

# Booleans are 0 and 1, so that numbers of every type are 64 bits.
ARRAY_TYPES: Mapping[ColumnType, Any] = {
    "i64": np.int64,
    "f64": np.float64,
    "bool": np.int64,
    "str": np.object_,
    "json": np.object_,
}
SHARED_MAX = 4096


def bits_of(column: EventColumn) -> Int64s:
    """The values of a column of numbers or booleans as 64 bits each."""
    if column.type == "bool":
        return column.values.astype(np.int64)
    return column.values.view(np.int64)


def bits_in(array: NDArray[Any]) -> Int64s:
    """An array of state as 64 bits an element: the same memory."""
    return array.view(np.int64)


def is_object(type_: ColumnType) -> bool:
    return type_ in ("str", "json")


def python_value(type_: ColumnType, element: Any) -> Any:
    """What an element of such an array stands for, JSON-able."""
    if type_ == "bool":
        return bool(element)
    return finite(element) if type_ == "f64" else element


class SharedTexts:
    """Lets equal texts of many rows be one object: a column often has few distinct ones.

    It forgets all of them when there are many, so its size is bounded by that and one batch.
    """

    def __init__(self, type_: ColumnType) -> None:
        self._texts: dict[str, str] | None = {} if type_ == "str" else None

    @property
    def texts(self) -> dict[str, str] | None:
        """For one fold. None for values that are not texts."""
        if self._texts is not None and len(self._texts) > SHARED_MAX:
            self._texts.clear()
        return self._texts
