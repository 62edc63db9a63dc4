"""The grammar of expressions."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import InvalidArgument
from penstock.features.expression_functions import FUNCTIONS
from penstock.features.expression_parser import parse

WORDS = [
    *("a", "b", "1", "-", "2.5", "'s'", '"t"', "(", ")", ",", "and", "or", "not", "in", "null"),
    *("true", "+", "*", "/", "<", "==", "!=", "cast", "int", "if", "coalesce(", "abs(", "isnull("),
    *("a.b", "\\", "'", "é", "=", "1e9", "x.__class__", "f'{a}'", ":=", "**", "[", "lambda", "\0"),
]


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("a or b and c", "(a or (b and c))"),
        ("not a and b", "((not a) and b)"),
        ("not a == b", "(not (a == b))"),
        ("not not a", "(not (not a))"),
        ("a + b * c - d", "((a + (b * c)) - d)"),
        ("a / b / c", "((a / b) / c)"),
        ("a - b - c < d", "(((a - b) - c) < d)"),
        ("-a * b", "((-a) * b)"),
        ("a - -1", "(a - -1)"),
        ("a -1", "(a - 1)"),
        ("- -1", "1"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("((a))", "a"),
        ("(a < b) == c", "((a < b) == c)"),
        ("a in (1)", "(a in (1))"),
        ("a not in ('x', -2.5, true)", "(not (a in ('x', -2.5, true)))"),
        ("a in (1) and b", "((a in (1)) and b)"),
        ("a + 1 in (1, 2)", "((a + 1) in (1, 2))"),
        ("not a in (1)", "(not (a in (1)))"),
        ("cast(a, int)", "cast(a, i64)"),
        ("cast(a + b, float)", "cast((a + b), f64)"),
        ("cast(cast(a, str), bool)", "cast(cast(a, str), bool)"),
        ("a == null", "isnull(a)"),
        ("null != a", "(not isnull(a))"),
        ("a == null or b", "(isnull(a) or b)"),
        ("if(a > 1, 'x', null)", "if((a > 1), 'x', null)"),
        ("coalesce(a,b,c)", "coalesce(a, b, c)"),
        ("min(a, max(b, 1))", "min(a, max(b, 1))"),
        # Names that are words of the grammar in other places only.
        ("in in (1)", "(in in (1))"),
        ("if + cast + min", "((if + cast) + min)"),
        ("a\n and\tb", "(a and b)"),
        ("ride.fare > 1", "(ride.fare > 1)"),
    ],
)
def test_how_tightly_things_bind(text: str, canonical: str) -> None:
    assert str(parse(text)) == canonical


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "ends where a value is expected, at character 1"),
        ("a b", "unexpected 'b': expected an operator, at character 3"),
        ("a 'b'", "unexpected a text: expected an operator"),
        ("a)", "unexpected ')', at character 2"),
        ("(a", "not closed, at character 1"),
        ("(a + (b)", "not closed, at character 1"),
        ("()", "expected a value"),
        ("a +", "ends where a value is expected"),
        ("* a", "expected a value"),
        ("a and", "ends where a value is expected"),
        ("and a", "expected a value before `and`"),
        ("a < b < c", "comparisons cannot be chained"),
        ("a == b != c", "comparisons cannot be chained"),
        ("a in (1) == b", "comparisons cannot be chained"),
        ("a + not b", "put `not …` in parentheses"),
        ("a == not b", "put `not …` in parentheses"),
        ("a not b", "unexpected `not`"),
        ("a.b.c > 1", "unexpected '.'"),
        ("a, b", "unexpected ','"),
        ("(a, b)", "unexpected ','"),
        ("f(a)", "unknown function 'f'"),
        ("lenght(a)", "did you mean 'length'"),
        ("abs(a, b)", "abs takes 1 value, not 2: abs(a)"),
        ("min(a)", "min takes 2 to 64 values, not 1"),
        ("abs()", "expected a value"),
        ("abs(a,)", "expected a value"),
        ("cast(a)", "cast(x, i64)"),
        ("cast(a, b)", "expected a type: i64, f64, str or bool"),
        ("cast(a, int, b)", "expected ) after the type"),
        ("a in 1", "expected a list after `in`"),
        ("a in ()", "expected a constant"),
        ("a in (b)", "expected a constant"),
        ("a in (null)", "expected a constant"),
        ("a in (1 2)", "expected , or )"),
        ("a in (1", "expected , or )"),
        ("9223372036854775808", "too large for an i64"),
        ("a in (9223372036854775808)", "too large for an i64"),
        ("x" * 129, "at most 128 characters"),
        ("().__class__", "unexpected '.'"),
        ("(x := 1)", "unexpected ':'"),
        ("a ** 9", "expected a value"),
        ("[a]", "unexpected '['"),
        ("'a' * 10", None),
    ],
)
def test_what_is_no_expression_is_refused_with_its_place(text: str, why: str | None) -> None:
    if why is None:  # its types are wrong, which is another matter
        assert parse(text)
        return
    with pytest.raises(InvalidArgument) as caught:
        parse(text)

    assert why in str(caught.value)


@pytest.mark.parametrize("value", [None, 5, b"a", ["a"]])
def test_an_expression_is_a_text(value: object) -> None:
    with pytest.raises(InvalidArgument, match="is a text"):
        parse(value)


@settings(max_examples=20)
@given(st.lists(st.lists(st.sampled_from(WORDS), max_size=12), min_size=20, max_size=30))
def test_any_text_is_read_or_refused(texts: list[list[str]]) -> None:
    for words in texts:
        text = " ".join(words)
        try:
            found = parse(text)
        except InvalidArgument:
            continue
        assert parse(str(found)) == found


@pytest.mark.parametrize(
    "text",
    [
        "(" * 30_000,
        "not " * 15_000 + "a",
        "-" * 30_000 + "a",
        "abs(" * 15_000 + "a",
        "a+" * 20_000 + "a",
        "(a+" * 15_000 + "a",
        "a in (" + "1," * 20_000 + "1)",
        "if(a," * 10_000,
        "a" + ")" * 30_000,
        "'" * 50_001,
        "'" + "\x01" * 60_000 + "'",
    ],
)
def test_depth_and_size_are_bounded_whatever_is_left_of_the_stack(text: str) -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(_depth() + 60)
    try:
        with pytest.raises(InvalidArgument):
            parse(text)
    finally:
        sys.setrecursionlimit(limit)


def test_parentheses_may_be_512_deep() -> None:
    assert str(parse("(" * 512 + "a" + ")" * 512)) == "a"
    assert parse("not " * 512 + "a").depth == 1
    assert parse("a + (" * 511 + "a" + ")" * 511).depth == 512


@pytest.mark.parametrize("text", ["not " * 4000 + "a", "a" + " - a" * 2000, "-" * 4000 + "a"])
def test_what_is_accepted_is_accepted_in_its_canonical_form(text: str) -> None:
    found = parse(text)

    assert parse(str(found)) == found


def test_a_long_expression_is_read_in_little_time() -> None:
    text = " or ".join(f"name_{n} == 'value {n}'" for n in range(1000))

    assert len(parse(text).columns) == 1000


def test_every_function_that_is_called_by_name_is_known() -> None:
    for name, function in FUNCTIONS.items():
        if function.is_call and not name.startswith("cast"):
            operands = ", ".join(["a"] * function.operands[0])
            assert str(parse(f"{name}({operands})")) == f"{name}({operands})"


def _depth() -> int:
    frame, depth = sys._getframe(), 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1  # type: ignore[assignment]
    return depth
