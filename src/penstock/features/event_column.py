"""One column of a batch of events: values of one type, and which of them are present."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

ColumnType = Literal["i64", "f64", "bool", "str", "json"]

Int64s = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

NUMPY_TYPES: dict[ColumnType, Any] = {
    "i64": np.int64,
    "f64": np.float64,
    "bool": np.bool_,
    "str": np.object_,
    "json": np.object_,
}


@dataclass(frozen=True, slots=True)
class EventColumn:
    """Immutable. `values[i]` means something only where `is_present[i]`; elsewhere it is 0, False
    or None, so that a column can be computed with as a whole."""

    type: ColumnType
    values: NDArray[Any]
    is_present: Bools

    def __len__(self) -> int:
        return len(self.values)

    @property
    def is_number(self) -> bool:
        return self.type in ("i64", "f64")

    def value(self, index: int) -> Any:
        """One value as a Python object; None where there is none."""
        if not self.is_present[index]:
            return None
        value = self.values[index]
        return value if self.values.dtype == np.object_ else value.item()

    def floats(self) -> Floats:
        """The values as floats; 0.0 where there is none. Only of numbers and booleans."""
        return self.values.astype(np.float64, copy=False)


def column_of(kind: ColumnType, values: list[Any]) -> EventColumn:
    """A column of Python values, None where there is none. The values must be of this type."""
    is_present = np.fromiter((value is not None for value in values), np.bool_, len(values))
    if kind in ("str", "json"):
        array = np.empty(len(values), np.object_)
        array[:] = values
    else:
        array = np.array([0 if value is None else value for value in values], NUMPY_TYPES[kind])
    return EventColumn(kind, array, is_present)
