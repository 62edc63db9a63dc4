"""Expressions, checked and computed column by column, against an interpreter of single events."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import InvalidArgument
from penstock.features.event_column import ColumnType, EventColumn, column_of
from penstock.features.expression import applied, column, constant
from penstock.features.expression_evaluation import checked, checked_predicate
from penstock.features.expression_parser import parse
from tests.unit.features.expression_oracle import ROWS, SCHEMA, kind_of, text_of, trees, value_of

TYPES: dict[str, Any] = SCHEMA
TREES = st.lists(st.sampled_from(list(TYPES.values())).flatmap(trees), min_size=8, max_size=12)


def columns(rows: list[Any]) -> dict[str, EventColumn]:
    return {name: column_of(kind, [row[name] for row in rows]) for name, kind in TYPES.items()}


def evaluated(text: str, **given: list[Any]) -> list[Any]:
    """The values of an expression; the type of a column is that of its first value."""
    names: dict[type, ColumnType] = {int: "i64", float: "f64", str: "str", bool: "bool"}
    batch = {
        name: column_of(names[type(next(v for v in values if v is not None))], values)
        for name, values in given.items()
    }
    count = len(next(iter(given.values()))) if given else 1
    found = checked(parse(text), {name: one.type for name, one in batch.items()})
    result = found.evaluate(batch, count)
    assert result.type == found.type
    assert len(result) == count
    return [result.value(index) for index in range(count)]


@settings(max_examples=20)
@given(TREES, ROWS)
def test_columns_are_computed_as_one_event_at_a_time(forest: list[Any], rows: list[Any]) -> None:
    batch = columns(rows)
    for tree in forest:
        text = text_of(tree)
        found = checked(parse(text), TYPES)
        result = found.evaluate(batch, len(rows))

        assert found.type == result.type == kind_of(tree), text
        assert [result.value(n) for n in range(len(rows))] == [
            value_of(tree, row) for row in rows
        ], text
        empty = {"i64": 0, "f64": 0.0, "bool": False, "str": None}[found.type]
        absent = result.values[~result.is_present].tolist()
        assert absent == [empty] * len(absent), "computed with as a whole"


@settings(max_examples=20)
@given(TREES, ROWS)
def test_a_batch_gives_the_same_as_its_events_one_by_one(
    forest: list[Any], rows: list[Any]
) -> None:
    for tree in forest:
        found = checked(parse(text_of(tree)), TYPES)
        whole = found.evaluate(columns(rows), len(rows))
        single = [found.evaluate(columns([row]), 1).value(0) for row in rows]

        assert repr([whole.value(n) for n in range(len(rows))]) == repr(single)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9223372036854775807 + 1", 2**63 - 1),
        ("-9223372036854775808 - 1", -(2**63)),
        ("3037000500 * 3037000500", 2**63 - 1),
        ("-9223372036854775808 / -1", 2**63 - 1),
        ("-7 / 2", -3),
        ("7 / -2", -3),
        ("1 / 0", None),
        ("1.0 / 0", None),
        ("0.0 / 0.0", None),
        ("1e308 * 10", None),
        ("log(0)", None),
        ("exp(710)", None),
        ("sqrt(-1)", None),
        ("round(2.5)", 2.0),
        ("cast(1e300, int)", 2**63 - 1),
        ("cast('9223372036854775808', int)", None),
        ("cast('1_0', int)", None),
        ("cast('٣', int)", None),
        ("cast(' 1', float)", None),
        ("cast('1e999', float)", None),
        ("cast(1e-7, str)", "1e-07"),
        ("null == null", True),
        ("1 != null", True),
        ("isnull(1 / 0)", True),
        ("cast(null, i64)", None),
        ("coalesce(null, 2)", 2),
        ("if(null, 1, 2.5)", 2.5),
        ("1 + null", None),
        ("false and null", False),
        ("true or null", True),
        ("true and null", None),
        ("not (null and true)", None),
        ("'b' > 'a' and '\U0001f600' > '\uffff'", True),
        ("(1 > 2) < true", True),
        ("'x' in ('y', 'x')", True),
        ("1 in (1.0, 2)", True),
        ("quadkey(52.5, 13.4, 3)", "120"),
        ("quadkey(0.0, 0.0, 24)", None),
        ("quadkey(90, 180, 2)", "11"),
    ],
)
def test_the_value_of_an_expression(text: str, value: object) -> None:
    (found,) = evaluated(text)

    assert found == value
    assert type(found) is type(value)


def test_a_text_is_compared_with_what_is_not_ascii() -> None:
    assert evaluated(r"s == 'caf\u00e9'", s=["café", "cafe", None]) == [True, False, None]


def test_a_predicate_passes_only_what_is_true() -> None:
    found = checked_predicate(parse("i > 1"), {"i": "i64"})

    passes = found.passes({"i": column_of("i64", [1, 2, None])}, 3)

    assert passes.tolist() == [False, True, False]


def test_a_predicate_is_of_type_bool() -> None:
    with pytest.raises(InvalidArgument, match="'i' is of type i64: expected a bool"):
        checked_predicate(parse("i"), {"i": "i64"})


def test_an_expression_of_no_events_has_no_values() -> None:
    found = checked(parse("s in ('a')"), {"s": "str"})

    assert found.evaluate({"s": column_of("str", [])}, 0).values.tolist() == []


def test_an_expression_does_not_change_its_columns() -> None:
    given = column_of("i64", [3, 2**62])
    copy = given.values.copy()

    checked(parse("i * i + -i"), {"i": "i64"}).evaluate({"i": given}, 2)

    assert np.array_equal(given.values, copy)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("fair > 1", "unknown column 'fair'; did you mean 'fare'?, at character 1"),
        ("ride.fare > 1", "unknown column 'ride.fare'; did you mean 'rider'?"),
        ("1 + rider", "expects a number, and got str, at character 5"),
        ("fare and true", "expects a boolean, and got f64, at character 1"),
        ("rider > 1", "expects a text, like the value before it, and got i64, at character 9"),
        ("(fare > 1) > 0", "expects a boolean, like the value before it, and got i64"),
        ("if(1, 2, 3)", "expects a boolean, and got i64, at character 4"),
        ("if(true, 2, 'x')", "expects an i64, like the value before it"),
        ("coalesce(fare, rider)", "expects a number, like"),
        ("rider in ('a', 1)", "expects a text, like"),
        ("extra == 1", "expects a number, a boolean or a text, and got json"),
        ("cast(extra, str)", "and got json"),
        ("length(fare)", "`length(s)` expects a text, and got f64"),
        ("quadkey(1, 2, 3.5)", "expects an i64, and got f64"),
        ("null", "the type of null is unknown here"),
        ("coalesce(null)", "a value that is not always null"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(text: str, why: str) -> None:
    schema: dict[str, ColumnType] = {"fare": "f64", "rider": "str", "extra": "json"}

    with pytest.raises(InvalidArgument, match=re.escape(why)):
        checked(parse(text), schema)


def test_an_expression_that_was_built_has_places_too() -> None:
    built = applied("+", [constant(1), column("rider")])

    with pytest.raises(InvalidArgument, match=r"at character 6 of the expression, in '\(1 \+ rid"):
        checked(built, {"rider": "str"})


def test_json_can_be_tested_for_null_and_chosen() -> None:
    batch = {"j": column_of("json", [{"a": 1}, None]), "k": column_of("json", [[1], [2]])}
    schema = {name: one.type for name, one in batch.items()}

    found = checked(parse("if(isnull(j), k, j)"), schema).evaluate(batch, 2)

    assert [found.value(0), found.value(1)] == [{"a": 1}, [2]]
