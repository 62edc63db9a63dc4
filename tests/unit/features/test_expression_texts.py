"""Texts in expressions: functions of them, and conversions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.features import expression_texts as texts
from penstock.features.event_column import column_of


def test_a_function_of_texts_leaves_out_absent_ones() -> None:
    run = texts.text_function("i64", len)

    found = run([column_of("str", ["ab", None, ""])])

    assert found.values.tolist() == [2, 0, 0]
    assert found.is_present.tolist() == [True, False, True]


def test_a_function_of_texts_may_give_none() -> None:
    found = texts.cast("i64")([column_of("str", ["7", "x", None])])

    assert [found.value(n) for n in range(3)] == [7, None, None]
    assert found.values.tolist() == [7, 0, 0]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("12", 12), ("-0", 0), ("+7", 7), (str(2**63 - 1), 2**63 - 1), (str(2**63), None)),
        *(("1.0", None), ("", None), (" 1", None), ("1\n", None), ("0x10", None), ("٣", None)),
        *(("9" * 4000, None), ("9" * 5000, None)),
    ],
)
def test_integers_of_texts(text: str, value: int | None) -> None:
    assert texts.integer_of(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("1", 1.0), ("-1.5e3", -1500.0), (".5", 0.5), ("5.", 5.0), ("1e-07", 1e-7)),
        *(("nan", None), ("inf", None), ("1e999", None), ("", None), ("1_0", None), (" 1", None)),
    ],
)
def test_floats_of_texts(text: str, value: float | None) -> None:
    assert texts.float_of(text) == value


@settings(max_examples=20)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=20))
def test_a_float_is_cut_and_saturates(values: list[float]) -> None:
    low, high = -(1 << 63), (1 << 63) - 1

    found = texts.whole([column_of("f64", list(values))])

    assert found.values.tolist() == [min(max(math.trunc(x), low), high) for x in values]


@settings(max_examples=20)
@given(st.floats(-90, 90), st.floats(-180, 180), st.integers(2, texts.ZOOM_MAX))
def test_a_square_of_the_map_lies_in_the_one_above(lat: float, lon: float, zoom: int) -> None:
    key = texts.quadkey(lat, lon, zoom)

    assert key is not None
    assert len(key) == zoom
    assert set(key) <= set("0123")
    assert texts.quadkey(lat, lon, zoom - 1) == key[:-1]


def test_the_quarters_of_the_world() -> None:
    places = [(50.0, -100.0), (50.0, 100.0), (-50.0, -100.0), (-50.0, 100.0)]

    assert [texts.quadkey(lat, lon, 1) for lat, lon in places] == ["0", "1", "2", "3"]
    assert texts.quadkey(1.0, 1.0, 0) is None


def test_a_cast_to_the_same_type_is_the_column_itself() -> None:
    column = column_of("str", ["a"])

    assert texts.cast("str")([column]) is column
    assert texts.cast("f64")([column_of("bool", [True, None])]).values.dtype == np.float64
