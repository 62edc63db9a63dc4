"""Filters as bounds: never fewer rows than Spark wants."""

from __future__ import annotations

import datetime

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    StringContains,
    StringStartsWith,
)

from penstock.spark.bounds import SEQ_MAX, Bounds, narrowed
from penstock.types import TagMatch

SEQ, TS, TAG, TOPIC = ("seq",), ("ts",), ("tag",), ("topic",)
NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
NOON_MS = round(NOON.timestamp() * 1000)


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (EqualTo(SEQ, 5), (5, 5)),
        (GreaterThan(SEQ, 5), (6, SEQ_MAX)),
        (GreaterThanOrEqual(SEQ, 5), (5, SEQ_MAX)),
        (LessThan(SEQ, 5), (1, 4)),
        (LessThanOrEqual(SEQ, 5), (1, 5)),
    ],
)
def test_seqs_are_done_with(one: Filter, expected: tuple[int, int]) -> None:
    bounds, left = narrowed(Bounds(), [one])

    assert ((bounds.seq_min, bounds.seq_max), left) == (expected, [])


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (GreaterThan(TS, NOON), (NOON_MS - 1, SEQ_MAX)),
        (LessThanOrEqual(TS, NOON), (0, NOON_MS + 1)),
        (EqualTo(TS, NOON), (NOON_MS - 1, NOON_MS + 1)),
    ],
)
def test_times_are_bounds_that_spark_checks_again(one: Filter, expected: tuple[int, int]) -> None:
    bounds, left = narrowed(Bounds(), [one])

    assert ((bounds.ts_min, bounds.ts_max), left) == (expected, [one])


def test_bounds_add_up() -> None:
    filters = [GreaterThan(SEQ, 5), LessThan(SEQ, 9), EqualTo(TOPIC, "a"), In(TOPIC, ("a", "b"))]

    bounds, left = narrowed(Bounds(), filters)

    assert bounds == Bounds(seq_min=6, seq_max=8, topics=frozenset(["a"]))
    assert left == []


def test_some_seqs_are_a_range_that_spark_checks_again() -> None:
    one = In(SEQ, (9, 4, 7))

    bounds, left = narrowed(Bounds(), [one])

    assert ((bounds.seq_min, bounds.seq_max), left) == ((4, 9), [one])


def test_one_tag_is_looked_for_and_another_is_left() -> None:
    other = EqualTo(TAG, "y")

    bounds, left = narrowed(Bounds(), [StringStartsWith(TAG, "x"), other])

    assert (bounds.match, left) == (TagMatch(b"x", True), [other])


@pytest.mark.parametrize(
    "one",
    [
        IsNotNull(SEQ),
        StringContains(TAG, "x"),
        EqualTo(TAG, ""),
        EqualTo(TAG, "x*"),
        EqualTo(("data",), "x"),
        EqualTo(SEQ, "5"),
        GreaterThan(TS, NOON.replace(tzinfo=None)),
        In(SEQ, ()),
        GreaterThan(TOPIC, "a"),
    ],
)
def test_everything_else_is_left_to_spark(one: Filter) -> None:
    assert narrowed(Bounds(), [one]) == (Bounds(), [one])
