"""Values in arrays: 64 bits, and texts that are shared."""

from __future__ import annotations

import pytest

from penstock.features.event_column import ColumnType, column_of
from penstock.features.operators.value_arrays import (
    ARRAY_TYPES,
    SHARED_MAX,
    SharedTexts,
    bits_of,
    python_value,
)


@pytest.mark.parametrize(
    ("type_", "value"), [("i64", -5), ("f64", -2.5), ("f64", -0.0), ("bool", True), ("bool", False)]
)
def test_values_come_back_from_their_bits(type_: ColumnType, value: object) -> None:
    bits = bits_of(column_of(type_, [value]))

    (element,) = bits.view(ARRAY_TYPES[type_]).tolist()

    assert repr(python_value(type_, element)) == repr(value)


def test_shared_texts_are_bounded() -> None:
    shared = SharedTexts("str")

    for number in range(3 * SHARED_MAX):
        texts = shared.texts
        assert texts is not None
        assert len(texts) <= SHARED_MAX
        texts[str(number)] = str(number)


def test_other_values_are_not_shared() -> None:
    assert SharedTexts("json").texts is None
