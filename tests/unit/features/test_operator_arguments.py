"""Arguments of operators, held against what their kind declares."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock.errors import InvalidArgument
from penstock.features.operator_arguments import (
    arguments_of,
    feature_members,
    field_complaint,
    missing_field,
    parameter_value,
    window_complaint,
)
from penstock.features.operators.operator_kind import Parameter
from penstock.features.windows import FOREVER, hopping, sliding, tumbling
from tests.unit.features.feature_kinds import KINDS

INT = Parameter("n", "int", 1, 1, 1024)
FLOAT = Parameter("q", "float", 0.5, 0, 1)
LENGTH = Parameter("half_life", "duration", minimum=1000)
NUMBERS = Parameter("buckets", "numbers")
TEXTS = Parameter("categories", "texts")


@pytest.mark.parametrize(
    ("parameter", "given", "read"),
    [
        (INT, 5, 5),
        (INT, 5.0, 5),
        (FLOAT, 1, 1.0),
        (LENGTH, 60_000, "1m"),
        (LENGTH, "60s", "1m"),
        (NUMBERS, [1, 2.5], [1.0, 2.5]),
        (TEXTS, ("a", "b"), ["a", "b"]),
    ],
)
def test_a_parameter_is_read_as_its_type(parameter: Parameter, given: Any, read: Any) -> None:
    found = parameter_value(parameter, given)

    assert found == read
    assert type(found) is type(read)


@pytest.mark.parametrize(
    ("parameter", "given", "why"),
    [
        (INT, "5", "expected an integer"),
        (INT, True, "expected an integer"),
        (INT, 1.5, "expected an integer"),
        (INT, float("inf"), "expected an integer"),
        (INT, 0, "expected at least 1 and at most 1024"),
        (FLOAT, "x", "expected a number"),
        (FLOAT, float("nan"), "expected a number"),
        (FLOAT, 10**400, "expected a number"),
        (FLOAT, 1.1, "at most 1"),
        (LENGTH, "1w", "invalid half_life '1w'"),
        (LENGTH, "1ms", "at least 1000"),
        (NUMBERS, [], "expected an array of numbers"),
        (NUMBERS, [1, "2"], "expected an array of numbers"),
        (NUMBERS, [1, True], "expected an array of numbers"),
        (NUMBERS, list(range(2000)), "2000 items: expected at most 1024"),
        (TEXTS, "ab", "expected an array of texts"),
        (TEXTS, ["a", 1], "expected an array of texts"),
    ],
)
def test_another_value_is_refused(parameter: Parameter, given: Any, why: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parameter_value(parameter, given)

    assert why in str(caught.value)


def test_arguments_have_every_parameter_with_durations_in_ms() -> None:
    found = arguments_of(KINDS["quantile"], ("f64",), {}, sliding("1h"))
    decayed = arguments_of(KINDS["ewma"], ("i64",), {"half_life": "1m"}, FOREVER)

    assert (found.field_types, found.parameters, found.window_ms) == (
        ("f64",),
        {"q": 0.5},
        3_600_000,
    )
    assert (decayed.parameters, decayed.window_ms) == ({"half_life": 60_000}, None)
    with pytest.raises(InvalidArgument, match="ewma needs 'half_life'"):
        arguments_of(KINDS["ewma"], ("i64",), {}, FOREVER)


def test_a_window_is_taken_refused_or_needed() -> None:
    assert window_complaint(KINDS["count"], FOREVER) is None
    assert window_complaint(KINDS["count"], sliding("1h")) is None
    assert "takes no window" in str(window_complaint(KINDS["ewma"], sliding("1h")))
    assert "needs a window" in str(window_complaint(KINDS["twa"], FOREVER))


def test_an_operator_with_buckets_of_its_own_takes_a_sliding_window() -> None:
    kind = replace(KINDS["count"], is_self_windowed=True)

    assert window_complaint(kind, FOREVER) is None
    assert window_complaint(kind, sliding("1h")) is None
    assert "not one that is tumbling" in str(window_complaint(kind, tumbling("1h")))
    assert "not one that is hopping" in str(window_complaint(kind, hopping("1h", "5m")))


def test_a_field_has_a_type_that_the_operator_can_use() -> None:
    assert field_complaint("number", "i64") is None
    assert field_complaint("any", "json") is None
    assert "anything but json" in str(field_complaint("scalar", "json"))


def test_what_a_feature_may_have_and_must_have() -> None:
    kind = KINDS["geo_spread"]

    assert feature_members(kind) == ["op", "lat_field", "lon_field", "window", "where"]
    assert missing_field(kind, {"lat_field": "a", "lon_field": "b"}) is None
    assert "needs 'lon_field': the name of a column" in str(missing_field(kind, {"lat_field": "a"}))
