"""Arrays by row: growth, and what saved state must be."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from penstock.features.operators.row_state import RowArray, RowState, elements


def state_of_three_rows() -> RowState:
    state = RowState(number=RowArray(np.int64, -1), text=RowArray(np.object_, None))
    state.grow(3)
    state.arrays["number"][:3] = [1, 2, 3]
    state.arrays["text"][:3] = ["a", None, [1, 2]]
    return state


def test_growing_keeps_rows_and_makes_new_ones_empty() -> None:
    state = state_of_three_rows()

    state.grow(100)
    state.grow(50)

    assert elements(state.arrays["number"], [0, 2, 99]) == [1, 3, -1]
    assert elements(state.arrays["text"], [0, 2, 99]) == ["a", [1, 2], None]


def test_growing_row_by_row_copies_seldom() -> None:
    state = RowState(number=RowArray(np.int64))
    copies, before = 0, state.arrays["number"]

    for rows in range(10_000):
        state.grow(rows)
        copies += state.arrays["number"] is not before
        before = state.arrays["number"]

    assert copies < 40
    assert len(before) < 12_500


def test_saved_rows_are_independent_of_the_state() -> None:
    state = state_of_three_rows()
    saved = state.save(np.array([2, 0]))

    state.clear(np.array([0, 1, 2]))
    assert elements(state.arrays["number"], [0, 1, 2]) == [-1, -1, -1]
    state.load(np.array([0, 1]), saved)

    assert elements(state.arrays["number"], [0, 1, 2]) == [3, 1, -1]
    assert elements(state.arrays["text"], [0, 1, 2]) == [[1, 2], "a", None]


@pytest.mark.parametrize(
    "numbers", [None, [1, 2], np.zeros(3, np.int64), np.zeros(2), np.zeros((2, 1), np.int64)]
)
def test_other_state_is_refused(numbers: Any) -> None:
    with pytest.raises(ValueError, match="'number': expected 2 values of type int64"):
        state_of_three_rows().load(np.array([0, 1]), {"number": numbers, "text": ["a", "b"]})


def test_the_bytes_of_texts_are_estimated() -> None:
    state = RowState(text=RowArray(np.object_, None))
    state.grow(1000)
    pointers = state.bytes

    state.arrays["text"][:] = texts = [f"{row:0951}" for row in range(1000)]

    assert pointers == 8_000
    assert state.bytes == 8_000 + 1000 * sys.getsizeof(texts[0])


def test_texts_that_rows_share_are_counted_once() -> None:
    state = RowState(text=RowArray(np.object_, None))
    state.grow(1000)

    state.arrays["text"][:] = ["x" * 951, "y" * 951] * 500

    assert 8_000 < state.bytes <= 8_000 + 2 * 1000
