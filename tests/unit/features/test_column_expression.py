"""Expressions as Python code."""

from __future__ import annotations

import pytest

from penstock.errors import InvalidArgument
from penstock.features.column_expression import (
    ColumnExpression,
    coalesce,
    col,
    expression_of,
    greatest,
    if_else,
    least,
    lit,
    quadkey,
)
from penstock.features.expression_parser import parse

X = col("x")


@pytest.mark.parametrize(
    ("built", "text"),
    [
        ((X > 50) & ~col("cancelled"), "x > 50 and not cancelled"),
        ((X >= 1) | (X <= -1) | (X < 0), "x >= 1 or x <= -1 or x < 0"),
        ((X == "a") & (X != "b"), "x == 'a' and x != 'b'"),
        (X == None, "x == null"),  # noqa: E711
        (None != X, "x != null"),  # noqa: E711, SIM300
        (1 + X - 2 * X / 3, "1 + x - 2 * x / 3"),
        (1 - X, "1 - x"),
        (1 / X, "1 / x"),
        (5 > X, "x < 5"),  # noqa: SIM300
        (True & (X > 1) | False, "true and x > 1 or false"),
        (False | (X > 1), "false or x > 1"),
        (-X, "-x"),
        (-lit(5), "-5"),
        (abs(X).abs(), "abs(abs(x))"),
        (X.isnull(), "isnull(x)"),
        (
            X.cast("int").cast("float").cast(str).cast(bool),
            "cast(cast(cast(cast(x, int), float), str), bool)",
        ),
        (X.is_in(["a", "b"]), "x in ('a', 'b')"),
        (X.round().floor().ceil().log().exp().sqrt(), "sqrt(exp(log(ceil(floor(round(x))))))"),
        (X.lower().upper().length(), "length(upper(lower(x)))"),
        (X.contains("a") & X.starts_with(col("y")), "contains(x, 'a') and starts_with(x, y)"),
        (coalesce(X, col("y"), 0), "coalesce(x, y, 0)"),
        (if_else(X > 1, "big", None), "if(x > 1, 'big', null)"),
        (least(X, 1) + greatest(X, 2.5), "min(x, 1) + max(x, 2.5)"),
        (quadkey(X, col("y"), 12), "quadkey(x, y, 12)"),
        (X == "it's 'é'\n", r"x == 'it\'s \'é\'\n'"),
        (lit(1e-07) * X, "1e-07 * x"),
    ],
)
def test_python_builds_what_a_text_says(built: ColumnExpression, text: str) -> None:
    assert built.expression == parse(text)
    assert str(built) == str(parse(text))
    assert repr(built) == f"<expression {built}>"


def test_an_expression_is_neither_true_nor_false_in_python() -> None:
    for wrong in (lambda: X > 1 and X < 2, lambda: 1 < X < 2, lambda: not X, lambda: X in [1]):
        with pytest.raises(TypeError, match=r"write & \| ~"):
            wrong()
    with pytest.raises(TypeError):
        hash(X)


@pytest.mark.parametrize("name", ["a b", "", "a.b", None, 5])
def test_a_column_has_a_name(name: object) -> None:
    with pytest.raises(InvalidArgument, match="column name"):
        col(name)  # type: ignore[arg-type]


def test_what_is_no_constant_is_refused() -> None:
    for wrong in ([1], b"a", float("nan"), 1 << 70):
        with pytest.raises(InvalidArgument, match="invalid constant"):
            expression_of(wrong)
    for values in ([], [None]):
        with pytest.raises(InvalidArgument, match="at least one value"):
            X.is_in(values)
    with pytest.raises(InvalidArgument, match="unknown type"):
        X.cast("json")
    with pytest.raises(InvalidArgument, match="max takes 2 to 64"):
        greatest(X)
