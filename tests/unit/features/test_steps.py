"""Steps over columns, against the same steps over one event at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import InvalidArgument
from penstock.features.event_column import ColumnType, EventColumn, column_of
from penstock.features.expression_parser import parse
from penstock.features.steps import (
    CastStep,
    DropStep,
    FillStep,
    FilterStep,
    RenameStep,
    SelectStep,
    Step,
    StepChain,
    WithColumnsStep,
    columns_read,
)

SCHEMA: dict[str, ColumnType] = {"a": "i64", "b": "i64", "s": "str", "j": "json"}
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "a": st.none() | st.integers(-3, 3),
            "b": st.none() | st.integers(-3, 3),
            "s": st.none() | st.sampled_from(["", "x", "7"]),
            "j": st.none() | st.just({"k": 1}),
        }
    ),
    max_size=6,
)


def chain(*steps: Step) -> StepChain:
    found = StepChain(SCHEMA)
    for step in steps:
        found = found.followed_by(step)
    return found


def columns(rows: list[dict[str, Any]]) -> dict[str, EventColumn]:
    return {name: column_of(kind, [row[name] for row in rows]) for name, kind in SCHEMA.items()}


def run(steps: StepChain, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows that are left."""
    found, passes = steps.run(columns(rows), len(rows))
    assert {name: one.type for name, one in found.items()} == steps.schema
    return [
        {name: one.value(index) for name, one in found.items()}
        for index in np.flatnonzero(passes).tolist()
    ]


@settings(max_examples=20)
@given(ROWS)
def test_each_step_does_what_it_would_do_with_single_events(rows: list[dict[str, Any]]) -> None:
    steps = chain(
        FilterStep(parse("a > -3 or a == null")),
        WithColumnsStep({"a": parse("a * 10"), "old": parse("a"), "c": parse("coalesce(b, 0)")}),
        RenameStep({"s": "t", "b": "s"}),
        CastStep({"t": "i64", "c": "str"}),
        FillStep({"t": -1}),
        FilterStep(parse("c != '1'")),
        DropStep(("j",)),
    )

    wanted = []
    for row in rows:
        a, b, s = row["a"], row["b"], row["s"]
        c = 0 if b is None else b
        if (a is None or a > -3) and c != 1:
            t = int(s) if s == "7" else -1
            wanted.append(
                {"a": None if a is None else a * 10, "s": b, "t": t, "old": a, "c": str(c)}
            )
    assert run(steps, rows) == wanted


def test_columns_of_one_step_are_computed_from_what_was_there_before() -> None:
    swapped = chain(WithColumnsStep({"a": parse("b"), "b": parse("a")}))
    renamed = chain(RenameStep({"a": "b", "b": "a"}))
    rows = [{"a": 1, "b": 2, "s": None, "j": None}]

    assert run(swapped, rows)[0]["a"] == 2
    assert run(renamed, rows)[0] == {"b": 1, "a": 2, "s": None, "j": None}


def test_select_keeps_columns_in_its_order() -> None:
    assert list(chain(SelectStep(("s", "a"))).schema) == ["s", "a"]


def test_the_columns_that_are_given_are_not_changed() -> None:
    given_columns = columns([{"a": None, "b": 1, "s": None, "j": None}])

    chain(FillStep({"a": 5, "s": "x"})).run(given_columns, 1)

    assert given_columns["a"].value(0) is None
    assert given_columns["s"].values.tolist() == [None]


def test_without_steps_every_event_is_left() -> None:
    rows = [{"a": 1, "b": None, "s": "x", "j": {"k": 1}}]

    assert run(chain(), rows) == rows


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (FilterStep(parse("a")), "expected a bool"),
        (FilterStep(parse("z > 1")), "unknown column 'z'"),
        (SelectStep(()), "no column is left"),
        (SelectStep(("z",)), "unknown column 'z'"),
        (DropStep(("z",)), "unknown column 'z'"),
        (DropStep(("a", "b", "s", "j")), "no column is left"),
        (RenameStep({"z": "y"}), "unknown column 'z'"),
        (RenameStep({"a": "b"}), "two columns would have the name 'b'"),
        (RenameStep({"a": "x", "b": "x"}), "two columns would have the name 'x'"),
        (RenameStep({"a": "9"}), "invalid column name '9'"),
        (WithColumnsStep({"c": parse("s + 1")}), "expects a number, and got str"),
        (WithColumnsStep({"c": parse("null")}), "type of null"),
        (CastStep({"z": "i64"}), "unknown column 'z'"),
        (CastStep({"j": "str"}), "got json"),
        (FillStep({"z": 1}), "unknown column 'z'"),
        (FillStep({"a": 1.5}), "of type i64: 1.5 is not"),
        (FillStep({"a": True}), "of type i64: True is not"),
        (FillStep({"a": 1 << 63}), "is not"),
        (FillStep({"s": 1}), "of type str: 1 is not"),
        (FillStep({"j": "x"}), "of type json: 'x' is not"),
    ],
)
def test_a_step_that_does_not_fit_is_refused(step: Step, why: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        chain(step)

    assert why in str(caught.value)


def test_the_columns_that_steps_read() -> None:
    steps: list[Step] = [
        FilterStep(parse("a > b")),
        SelectStep(("c",)),
        DropStep(("d",)),
        RenameStep({"e": "new"}),
        WithColumnsStep({"made": parse("f + 1")}),
        CastStep({"g": "i64"}),
        FillStep({"h": 1}),
    ]

    assert columns_read(steps) == set("abcdefgh")
