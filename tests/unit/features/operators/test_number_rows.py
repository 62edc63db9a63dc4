"""Integers and floats by row, and deviations from a mean."""

from __future__ import annotations

import math

import numpy as np
import pytest

from penstock.features.operators.number_rows import NumberRows, deviations


def test_new_and_cleared_rows_are_0() -> None:
    state = NumberRows(ints=3, floats=2)
    state.grow(4)
    state.ints[:4] = 7
    state.floats[:4] = 0.5

    state.grow(100)
    state.clear(np.array([1, 3]))

    assert state.ints[:5].tolist() == [[7] * 3, [0] * 3, [7] * 3, [0] * 3, [0] * 3]
    assert state.floats[:5].tolist() == [[0.5] * 2, [0.0] * 2, [0.5] * 2, [0.0] * 2, [0.0] * 2]


def test_saved_numbers_of_another_width_are_refused() -> None:
    narrow, wide = NumberRows(ints=2), NumberRows(ints=3)
    rows = np.array([0, 1])
    narrow.grow(2)
    wide.grow(2)

    with pytest.raises(ValueError, match="'ints': expected 2 by 3 values"):
        wide.load(rows, narrow.save(rows))


def test_a_state_without_floats_has_none() -> None:
    state = NumberRows(ints=2)
    state.grow(8)

    assert set(state.save(np.array([0]))) == {"ints"}
    assert state.bytes == 8 * 2 * 8


def test_deviations_are_those_of_a_sample() -> None:
    assert deviations(5.0, 2.0, 9.0, 2) == 1.0
    assert deviations(-1.0, 2.0, 18.0, 3) == -1.0


@pytest.mark.parametrize(
    ("squares", "count"), [(9.0, 1), (0.0, 5), (-0.0, 5), (math.nan, 5), (0.0, 0)]
)
def test_without_differences_there_are_no_deviations(squares: float, count: int) -> None:
    assert deviations(5.0, 2.0, squares, count) is None


def test_deviations_beyond_floats_are_null() -> None:
    assert deviations(math.inf, 2.0, 9.0, 2) is None
