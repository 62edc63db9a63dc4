"""Operators as Python functions."""

from __future__ import annotations

import inspect

import pytest

from penstock.errors import InvalidArgument
from penstock.features.column_expression import col
from penstock.features.operator_functions import (
    documentation,
    operator_function,
    operator_named,
    operator_names,
)
from penstock.features.windows import hopping, tumbling
from tests.unit.features.feature_kinds import KINDS

count, quantile, ewma, first_n, spread = (
    operator_function(KINDS[name])
    for name in ("count", "quantile", "ewma", "first_n", "geo_spread")
)


def test_a_function_makes_the_json_of_a_feature() -> None:
    assert count().members == {"op": "count"}
    assert count(window="1h", where=col("a") > 1).members == {
        "op": "count",
        "window": "1h",
        "where": "(a > 1)",
    }
    assert quantile("fare", q=1).members == {"op": "quantile", "field": "fare", "q": 1.0}
    assert quantile(field="fare", window=tumbling("60m")).members["window"] == {"tumbling": "1h"}
    assert count(window=hopping("1h", every="5m")).members["window"] == {
        "hopping": "1h",
        "every": "5m",
    }
    assert ewma("fare", half_life=1000, where="a==1").members == {
        "op": "ewma",
        "field": "fare",
        "half_life": "1s",
        "where": "(a == 1)",
    }
    assert spread("y", lon="x").members == {"op": "geo_spread", "lat_field": "y", "lon_field": "x"}


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda: count(windw="1h"), "count\\(\\): got an unexpected keyword argument 'windw'"),
        (lambda: count("fare"), "count\\(\\): too many positional"),
        (lambda: quantile(), "missing a required argument: 'field'"),
        (lambda: first_n("fare"), "missing a required (keyword-only )?argument: 'n'"),
        (lambda: ewma("fare", half_life="1s", window="1h"), "unexpected keyword argument 'window'"),
    ],
)
def test_a_call_is_checked_by_the_signature(call: object, why: str) -> None:
    with pytest.raises(TypeError, match=why):
        call()  # type: ignore[operator]


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda: quantile(col("fare")), "make a column of it with with_columns"),
        (lambda: quantile("fare", q=2), "invalid q 2"),
        (lambda: count(window="1w"), "invalid window '1w'"),
        (lambda: count(where=5), "invalid where 5"),
        (lambda: count(where="a >"), "ends where a value"),
        (lambda: first_n("fare", n=0), "at least 1"),
    ],
)
def test_values_are_checked_where_they_are_given(call: object, why: str) -> None:
    with pytest.raises(InvalidArgument, match=why):
        call()  # type: ignore[operator]


def test_a_function_has_the_help_of_its_declaration() -> None:
    assert str(inspect.signature(quantile)).startswith("(field: str, *, q=0.5, window=None, where=")
    assert inspect.getdoc(quantile) == documentation(KINDS["quantile"])
    text = documentation(KINDS["first_n"])
    assert "n: an integer from 1 to 1024" in text
    assert "window" not in text
    assert "Result: json" in text
    assert "Result: the type of the column" in documentation(KINDS["sum"])
    assert "Accuracy: about 1 %" in documentation(KINDS["n_unique"])
    assert 'half_life: a duration such as "30m"' in documentation(KINDS["ewma"])


def test_every_operator_of_the_catalogue_has_a_function() -> None:
    for name in operator_names():
        function = operator_named(name)

        assert function is not None
        assert inspect.getdoc(function)
        assert "where" in inspect.signature(function).parameters
    assert operator_named("no_such_operator") is None
