"""State of a few integers and floats a row, as the folds of the kernel take it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.features.operators.finite import finite
from penstock.features.operators.row_state import RowArray, RowState


class NumberRows(RowState):
    """Two arrays, whose columns are described at the fold that writes them. Empty rows are 0."""

    def __init__(self, *, ints: int, floats: int = 0) -> None:
        layout = {"ints": RowArray(np.int64, width=ints)}
        if floats:
            layout["floats"] = RowArray(np.float64, width=floats)
        super().__init__(**layout)

    @property
    def ints(self) -> NDArray[Any]:
        return self.arrays["ints"]

    @property
    def floats(self) -> NDArray[Any]:
        return self.arrays["floats"]


def deviations(value: float, mean: float, squares: float, count: int) -> float | None:
    """How many sample standard deviations a value is above the mean of `count` values. None if
    they are less than two, or all the same."""
    if count < 2 or not squares > 0:
        return None
    return finite((value - mean) / math.sqrt(squares / (count - 1)))
