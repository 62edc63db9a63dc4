"""The page about operators: its tables are those of the code."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest

from penstock.features.event_column import ColumnType
from penstock.features.operators.catalogue import KINDS
from penstock.features.operators.operator_kind import OperatorKind
from penstock.features.operators.operator_names import NAMES
from tests.docs.pages import page, rows
from tests.support.operators import arguments_of, made

PAGE = "docs/features/operators.md"
PARAMETERS: dict[str, Any] = {
    "half_life": 1_000,
    "sub_window": 1_000,
    "buckets": [10.0, 20.0, 30.0],
    "samples": 8,
    "n": 8,
}
TABLE = [row for row in rows(PAGE) if len(row) == 6 and row[0].endswith(")")]
ROWS = {row[0].split("(")[0]: row for row in TABLE}
each_operator = pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))


def parameters(kind: OperatorKind) -> dict[str, Any]:
    names = {one.name for one in kind.parameters}
    return {name: value for name, value in PARAMETERS.items() if name in names}


def types(kind: OperatorKind, type_: ColumnType = "f64") -> tuple[ColumnType, ...]:
    return (type_,) * len(kind.fields)


def test_the_tables_have_every_operator_in_the_order_of_the_catalogue() -> None:
    assert [row[0].split("(")[0] for row in TABLE] == list(NAMES)


@each_operator
def test_an_operator_has_its_arguments_and_its_summary(kind: OperatorKind) -> None:
    arguments = [name.removesuffix("_field") for name, _ in kind.fields]
    for one in kind.parameters:
        default = one.default if one.default else None  # "()" and 0 mean that there is none
        arguments.append(one.name if one.is_required else f"{one.name}={default!r}")
    call, value, *_ = ROWS[kind.name]

    assert call == f"{kind.name}({', '.join(arguments)})"
    assert value == kind.summary.replace("`", "")


@each_operator
def test_an_operator_has_its_type_and_says_whether_it_takes_a_window(kind: OperatorKind) -> None:
    _, _, type_, _, window, _ = ROWS[kind.name]

    assert type_ == ("the column's" if callable(kind.output) else kind.output)
    assert window == {"optional": "yes", "required": "needed", "none": "no"}[kind.window]


@each_operator
def test_without_a_value_a_feature_is_what_the_table_says(kind: OperatorKind) -> None:
    needs_window = kind.window == "required"
    operator = made(kind, types(kind), 1_000 if needs_window else None, **parameters(kind))
    value = operator.value([0], 0)
    empty = ROWS[kind.name][3]

    if empty == "zeros":
        counts = value if isinstance(value, list) else list(value.values())
        assert counts
        assert not any(counts)
    else:
        assert json.dumps(value) == empty


@each_operator
def test_an_operator_takes_the_bytes_that_the_table_says(kind: OperatorKind) -> None:
    names = {"bounds": len(PARAMETERS["buckets"]), "max_categories": 256, **PARAMETERS}
    for part in ROWS[kind.name][5].split("; "):
        # "i64 12" is for a column of this type, "8 + 16 × samples" for a parameter.
        type_: ColumnType = "i64" if part.startswith("i64 ") else "f64"
        terms = part.removeprefix("i64 ").replace(",", "").split(" + ")
        factors = [[names.get(word) or int(word) for word in term.split(" × ")] for term in terms]
        window_ms = 64_000 if kind.is_self_windowed else None
        given = arguments_of(kind, types(kind, type_), window_ms, **parameters(kind))

        assert kind.row_bytes(given) == sum(map(math.prod, factors))


def test_the_table_of_accuracy_has_what_the_operators_say() -> None:
    two = [row for row in rows(PAGE, "## Accuracy") if len(row) == 2]
    table = {row[0]: row[1] for row in two if row[0] in KINDS}

    assert table == {
        name: kind.error.replace("`", "") for name, kind in KINDS.items() if kind.error
    }


def test_every_operator_with_values_in_time_has_its_place_among_the_late_events() -> None:
    text = " ".join(row[1] for row in rows(PAGE, "## Late events"))
    named: list[str] = []
    for first, last in re.findall(r"(\w+)(?: to (\w+))?", text):
        if first in KINDS:
            stop = NAMES.index(last or first) + 1
            named += NAMES[NAMES.index(first) : stop]
    histograms = ["histogram", "hour_of_day_histogram", "dow_hour_histogram"]

    assert not {*NAMES} - {*named, *histograms} - {"geo_distance", "geo_velocity"}
    assert len(named) == len(set(named))


def test_the_page_names_operators_that_exist() -> None:
    marked = re.findall(r"`(\w+)`†?", page(PAGE).split("## Differences")[1])
    words = {"json", "f64", "i64", "max_categories", "baseline_window", "geo"}

    assert not [name for name in marked if name not in KINDS and name not in words]
