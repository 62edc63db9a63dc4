"""Expressions as values: equality, the canonical text, limits."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import InvalidArgument
from penstock.features.expression import (
    EXPRESSION_DEPTH_MAX,
    EXPRESSION_NODES_MAX,
    Constant,
    Expression,
    applied,
    column,
    constant,
)
from penstock.features.expression_parser import parse
from tests.unit.features.expression_oracle import SCHEMA, text_of, trees

X = column("x")


@settings(max_examples=20)
@given(st.lists(st.sampled_from(list(SCHEMA.values())).flatmap(trees), min_size=5, max_size=8))
def test_the_canonical_text_gives_the_same_expression(forest: list[tuple[object, ...]]) -> None:
    for tree in forest:
        first = parse(text_of(tree))

        second = parse(str(first))

        assert second == first
        assert second.nodes == first.nodes
        assert str(second) == str(first)
        assert hash(second) == hash(first)
        assert second.depth == first.depth


@settings(max_examples=20)
@given(st.one_of(st.text(), st.integers(-(1 << 63), (1 << 63) - 1), st.floats(allow_nan=False)))
def test_a_constant_survives_its_text(value: object) -> None:
    try:
        made = constant(value)
    except InvalidArgument:
        return  # an infinite float, or half of a surrogate pair

    assert parse(str(made)) == made


@pytest.mark.parametrize(
    ("built", "text"),
    [
        (applied("and", [applied("not", [X]), X]), "((not x) and x)"),
        (applied("neg", [X]), "(-x)"),
        (applied("neg", [constant(1)]), "-1"),
        (applied("neg", [constant(-(1 << 63))]), "9223372036854775807"),
        (applied("==", [X, constant(None)]), "isnull(x)"),
        (applied("!=", [constant(None), X]), "(not isnull(x))"),
        (applied("in", [X, constant(1), constant("a")]), "(x in (1, 'a'))"),
        (applied("cast f64", [X]), "cast(x, f64)"),
        (applied("if", [X, constant(1.0), constant(None)]), "if(x, 1.0, null)"),
        (constant("it's\n\\\x00\x85\u2028é\U0001f600"), r"'it\'s\n\\\x00\x85\u2028é" "\U0001f600'"),
        (constant(1e-07), "1e-07"),
    ],
)
def test_the_canonical_text_has_every_parenthesis(built: Expression, text: str) -> None:
    assert str(built) == text
    assert parse(text) == built


def test_constants_of_other_types_are_not_equal() -> None:
    assert constant(1) != constant(True)
    assert constant(1) != constant(1.0)
    assert constant(1).nodes == (Constant("i64", 1),)


def test_an_expression_names_the_columns_that_it_reads() -> None:
    assert parse("a + b > a and c == 'd'").columns == {"a", "b", "c"}


@pytest.mark.parametrize("value", [1 << 63, float("inf"), float("nan"), b"a", [1], "\ud800"])
def test_what_is_no_constant_is_refused(value: object) -> None:
    with pytest.raises(InvalidArgument, match="invalid constant"):
        constant(value)


def test_an_expression_has_a_bounded_size_and_depth() -> None:
    wide, deep = X, X
    for _ in range((EXPRESSION_NODES_MAX - 1) // 2):
        wide = applied("+", [wide, X])
    for _ in range(EXPRESSION_DEPTH_MAX - 1):
        deep = applied("+", [X, deep])

    for largest in ([wide, X], [X, deep]):
        with pytest.raises(InvalidArgument, match="too large"):
            applied("+", largest)
    assert deep.depth == EXPRESSION_DEPTH_MAX
    assert parse(str(wide)) == wide
    assert parse(str(deep)) == deep
    assert "x" in repr(deep)


def test_a_long_list_of_constants_is_not_deep() -> None:
    listed = applied("in", [X, *(constant(number) for number in range(2000))])

    assert listed.depth == 2
