"""Chains of steps as Python code, and what they are declared as."""

from __future__ import annotations

import pytest

from penstock.errors import InvalidArgument
from penstock.features.column_expression import col, lit
from penstock.features.event_chain import Aggregation, DeclaredEvent, EventChain

RIDE = DeclaredEvent(None, (), "Ride", "events", {"name": "Ride", "fields": {"a": "i64"}})
COUNT = Aggregation({"op": "count"})


def test_each_method_adds_a_step() -> None:
    chain = (
        RIDE.filter(col("a") > 1)
        .select("a", "b")
        .drop("b")
        .rename(a="x")
        .with_columns(y=col("x") * 2, z="text")
        .map(w=lit(1))
        .cast(y="str", w=float)
        .fillna(x=0)
    )

    assert chain.source is RIDE
    assert chain.steps == (
        {"op": "filter", "where": "(a > 1)"},
        {"op": "select", "fields": ["a", "b"]},
        {"op": "drop", "fields": ["b"]},
        {"op": "rename", "fields": {"a": "x"}},
        {"op": "with_columns", "columns": {"y": "(x * 2)", "z": "'text'"}},
        {"op": "with_columns", "columns": {"w": "1"}},
        {"op": "cast", "fields": {"y": "str", "w": "float"}},
        {"op": "fillna", "values": {"x": 0}},
    )


def test_a_chain_does_not_change() -> None:
    first = RIDE.drop("a")

    first.drop("b")

    assert len(first.steps) == 1
    assert RIDE.steps == ()


def test_a_named_chain_is_a_derived_event_and_begins_chains_of_its_own() -> None:
    derived = RIDE.drop("a").named("Short")

    assert derived.node == {
        "name": "Short",
        "from": "Ride",
        "steps": [{"op": "drop", "fields": ["a"]}],
    }
    assert derived.drop("b").source is derived
    assert derived.built_on is RIDE


def test_an_aggregated_chain_is_a_table() -> None:
    table = (
        RIDE.drop("b")
        .group_by("a")
        .agg(n=COUNT)
        .named("T", {"cold_after": "1d", "memory_max": None})
    )

    assert table.node == {
        "name": "T",
        "from": "Ride",
        "key": ["a"],
        "steps": [{"op": "drop", "fields": ["b"]}],
        "cold_after": "1d",
        "features": {"n": {"op": "count"}},
    }
    assert table.built_on is RIDE
    assert RIDE.agg(n=COUNT).named("U", {}).node["key"] == []


def test_a_key_is_a_column_or_is_computed_here() -> None:
    grouped = RIDE.group_by(col("b"), bucket=col("a") / 10)

    assert grouped.key == ("b", "bucket")
    assert grouped.chain.steps == ({"op": "with_columns", "columns": {"bucket": "(a / 10)"}},)
    for wrong in (col("a") / 10, 5):
        with pytest.raises(InvalidArgument, match="expected the name of a column"):
            RIDE.group_by(wrong)  # type: ignore[arg-type]


def test_a_feature_is_an_operator() -> None:
    with pytest.raises(InvalidArgument, match=r"feature 'n' is .*: expected an operator, such as"):
        RIDE.agg(n=col("a"))  # type: ignore[arg-type]


def test_a_chain_begins_with_an_event() -> None:
    with pytest.raises(AssertionError):
        EventChain(None).named("A")
