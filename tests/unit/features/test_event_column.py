"""Columns of a batch of events."""

from __future__ import annotations

import numpy as np

from penstock.features.event_column import column_of


def test_a_column_gives_back_the_values_that_it_was_made_of() -> None:
    for kind, values in (
        ("i64", [1, None, -(2**63)]),
        ("f64", [1.5, None]),
        ("bool", [True, None, False]),
        ("str", ["a", None]),
        ("json", [{"a": [1]}, None, [1, 2]]),
    ):
        column = column_of(kind, values)  # type: ignore[arg-type]

        assert [column.value(index) for index in range(len(column))] == values


def test_absent_values_are_zero_when_a_column_is_computed_with_as_a_whole() -> None:
    column = column_of("i64", [2, None])

    assert column.is_number
    assert np.array_equal(column.floats(), [2.0, 0.0])
