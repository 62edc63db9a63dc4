"""Named arrays with an element for each row: the state of most operators."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.features.event_column import Int64s

ROWS_MIN = 8  # of the first growth
SAMPLE_ROWS = 500  # whose objects are measured, to estimate the bytes of all
OBJECT_BYTES = 200  # of a JSON value that is not a text, about


class RowArray(NamedTuple):
    """One array of a state: what an element is, and what it is in an empty row."""

    type: Any  # of numpy; np.object_ for texts and JSON values
    empty: Any = 0
    width: int = 0  # numbers of a row, in an array of two dimensions; 0: one, in a plain array

    def shape(self, rows: int) -> tuple[int, ...]:
        return (rows, self.width) if self.width else (rows,)


class RowState:
    """The memory half of an operator: a subclass folds into `arrays` and reads values from them.

    Rows that nobody folded into have the empty value in each array. `arrays` change identity when
    the state grows: look them up at each fold.
    """

    def __init__(self, **layout: RowArray) -> None:
        self._layout = layout
        self._capacity = 0
        self.arrays: dict[str, NDArray[Any]] = {
            name: np.empty(array.shape(0), array.type) for name, array in layout.items()
        }

    def grow(self, rows: int) -> None:
        if rows <= self._capacity:
            return
        # A quarter more than before: memory counts more than the copies, which are rare.
        capacity = max(rows, self._capacity + self._capacity // 4, ROWS_MIN)
        for name, array in self._layout.items():
            grown = np.full(array.shape(capacity), array.empty, array.type)
            grown[: self._capacity] = self.arrays[name]
            self.arrays[name] = grown
        self._capacity = capacity

    def clear(self, rows: Int64s) -> None:
        for name, array in self._layout.items():
            self.arrays[name][rows] = array.empty

    def save(self, rows: Int64s) -> Mapping[str, Any]:
        picked = {name: array[rows] for name, array in self.arrays.items()}
        return {
            name: array.tolist() if array.dtype == np.object_ else array
            for name, array in picked.items()
        }

    def lengths(self, saved: Mapping[str, Any]) -> Mapping[str, Int64s]:
        return {}

    def load(self, rows: Int64s, saved: Mapping[str, Any]) -> None:
        for name, array in self.arrays.items():
            array[rows] = array_of(saved, name, array.dtype, len(rows), *array.shape[1:])

    @property
    def bytes(self) -> int:
        return sum(map(bytes_of, self.arrays.values()))


def array_of(saved: Mapping[str, Any], name: str, type_: Any, *shape: int) -> NDArray[Any]:
    """An array of saved state. ValueError: it is not one of this type and shape."""
    values = saved.get(name)
    if type_ == np.object_ and isinstance(values, list):
        values = np.fromiter(values, np.object_, len(values))
    if not isinstance(values, np.ndarray) or values.dtype != type_ or values.shape != shape:
        count = " by ".join(map(str, shape))
        raise ValueError(f"saved state {name!r}: expected {count} values of type {type_}")
    return values


def bytes_of(array: NDArray[Any]) -> int:
    """The memory of an array; of its objects an estimate from a sample."""
    if array.dtype != np.object_ or not len(array):
        return array.nbytes
    sample: list[Any] = array[:: len(array) // SAMPLE_ROWS + 1].tolist()
    objects = {id(value): value for value in sample if value is not None}.values()
    size = sum(map(object_bytes, objects))
    # With few distinct ones in the sample, rows share them.
    are_shared = len(objects) < (len(sample) - sample.count(None)) // 2
    return array.nbytes + (size if are_shared else size * len(array) // len(sample))


def object_bytes(value: Any) -> int:
    """The memory of a text, or about that of another JSON value."""
    return sys.getsizeof(value) if isinstance(value, str) else OBJECT_BYTES


def elements(array: NDArray[Any], rows: Sequence[int]) -> list[Any]:
    """The elements of a few rows as Python values."""
    return [array.item(row) for row in rows]
