"""Columns as JSON texts, held against a JSON parser."""

from __future__ import annotations

import datetime
import decimal
import json
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidArgument
from penstock.spark.json_texts import objects, texts

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def parsed(column: pa.Array) -> list[Any]:
    return [json.loads(text) for text in texts("c", column).to_pylist()]


@given(st.lists(st.none() | TEXTS))
def test_any_text_comes_back(values: list[str | None]) -> None:
    assert parsed(pa.array(values, pa.string())) == values


@given(st.lists(st.none() | st.floats()))
def test_any_number_comes_back_and_what_json_cannot_say_is_null(
    values: list[float | None],
) -> None:
    expected = [None if v is None or not math.isfinite(v) else v for v in values]

    assert parsed(pa.array(values, pa.float64())) == expected


@given(st.lists(st.tuples(st.none() | st.integers(-(1 << 63), (1 << 63) - 1), TEXTS)))
def test_a_row_is_an_object(rows: list[tuple[int | None, str]]) -> None:
    numbers = pa.array([one for one, _ in rows], pa.int64())
    names = pa.array([name for _, name in rows], pa.string())

    found = objects(['a"b', "name"], [numbers, names]).to_pylist()

    assert [json.loads(one) for one in found] == [{'a"b': n, "name": t} for n, t in rows]


def test_other_types() -> None:
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=datetime.UTC)
    cases: list[tuple[pa.Array, list[Any]]] = [
        (pa.array([True, None, False]), [True, None, False]),
        (pa.array([None, None], pa.null()), [None, None]),
        (pa.array([decimal.Decimal("1.50")], pa.decimal128(38, 18)), [1.5]),
        (pa.array([datetime.date(2026, 1, 2), None]), ["2026-01-02", None]),
        (pa.array([moment, None], pa.timestamp("us", "Europe/Berlin")),
         ["2026-01-02T03:04:05.000006Z", None]),
        (pa.array([moment.replace(tzinfo=None)], pa.timestamp("us")),
         ["2026-01-02T03:04:05.000006"]),
        (pa.array([{"x": 1, "y": None}, None]), [{"x": 1, "y": None}, None]),
        (pa.array([[1, None], None, []]), [[1, None], None, []]),
        (pa.array([b"\0\1", None]), ["AAE=", None]),
        (pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())), [{"k": 1}, None]),
        (pa.array([[decimal.Decimal("0.5")]]), [[0.5]]),
    ]  # fmt: skip
    for column, expected in cases:
        assert parsed(column) == expected, column.type


def test_a_slice_of_a_column_is_not_the_whole() -> None:
    column = pa.array(['"', "b", "c"]).slice(1, 2)

    assert parsed(column) == ["b", "c"]


def test_a_column_that_json_cannot_hold_is_named() -> None:
    twice = pa.array([[("k", 1), ("k", 2)]], pa.map_(pa.string(), pa.int64()))

    with pytest.raises(InvalidArgument, match="column c"):
        texts("c", twice)


def test_no_rows_are_no_texts() -> None:
    assert objects(["a"], [pa.array([], pa.int64())]).to_pylist() == []
