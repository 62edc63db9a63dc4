"""Arithmetic, comparison and logic of columns, where they are not as numpy has them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.features import expression_numbers as numbers
from penstock.features.event_column import EventColumn, column_of

LOW, HIGH = -(1 << 63), (1 << 63) - 1
PAIRS = st.lists(
    st.tuples(
        st.integers(LOW, HIGH) | st.integers(-3, 3) | st.sampled_from([LOW, HIGH]),
        st.integers(LOW, HIGH) | st.integers(-3, 3) | st.sampled_from([LOW, HIGH]),
    ),
    min_size=20,
    max_size=40,
)


def integers(values: list[int | None]) -> EventColumn:
    return column_of("i64", list(values))


@settings(max_examples=20)
@given(PAIRS)
def test_integers_saturate(pairs: list[tuple[int, int]]) -> None:
    operands = [integers([a for a, _ in pairs]), integers([b for _, b in pairs])]
    for run, exact in (
        (numbers.add, lambda a, b: a + b),
        (numbers.subtract, lambda a, b: a - b),
        (numbers.multiply, lambda a, b: a * b),
    ):
        found = run(operands).values.tolist()

        assert found == [min(max(exact(a, b), LOW), HIGH) for a, b in pairs]


@settings(max_examples=20)
@given(PAIRS)
def test_a_quotient_of_integers_is_cut_towards_zero(pairs: list[tuple[int, int]]) -> None:
    found = numbers.divide([integers([a for a, _ in pairs]), integers([b for _, b in pairs])])

    for index, (a, b) in enumerate(pairs):
        sign = 1 if (a < 0) == (b < 0) else -1
        assert found.value(index) == (min(sign * (abs(a) // abs(b)), HIGH) if b else None)


@pytest.mark.parametrize("values", [[0.0, None], [1.5, -2.5], [None, None]])
def test_a_result_is_zero_where_it_is_absent(values: list[float | None]) -> None:
    ones = column_of("f64", [1.0, 1.0])

    found = numbers.divide([ones, column_of("f64", list(values))])

    assert not found.values[~found.is_present].any()
    assert np.isfinite(found.values).all()


def test_logic_has_three_values() -> None:
    left = column_of("bool", [True, True, True, False, False, False, None, None, None])
    right = column_of("bool", [True, False, None] * 3)

    both = numbers.conjunction([left, right])
    one = numbers.disjunction([left, right])

    assert [both.value(n) for n in range(9)] == [
        *(True, False, None, False, False, False, None, False, None)
    ]
    assert [one.value(n) for n in range(9)] == [
        *(True, True, True, True, False, None, True, None, None)
    ]


def test_membership_of_integers_is_exact() -> None:
    found = numbers.member([integers([2**53 + 1, 2**53]), integers([2**53, 2**53])])

    assert found.values.tolist() == [False, True]
