"""Which types the functions of expressions take and give."""

from __future__ import annotations

import pytest

from penstock.features import expression_rules as rules
from penstock.features.expression_rules import OperandMismatch, Signature


@pytest.mark.parametrize(
    ("rule", "types", "takes", "gives"),
    [
        (rules.numbers, ("i64", "i64"), ("i64", "i64"), "i64"),
        (rules.numbers, ("i64", "f64"), ("f64", "f64"), "f64"),
        (rules.numbers, ("null", "f64"), ("f64", "f64"), "f64"),
        (rules.floats, ("i64",), ("f64",), "f64"),
        (rules.booleans, ("bool", "null"), ("bool", "bool"), "bool"),
        (rules.alike, ("str", "null"), ("str", "str"), "bool"),
        (rules.alike, ("i64", "f64"), ("f64", "f64"), "bool"),
        (rules.anything, ("json",), ("json",), "bool"),
        (rules.same, ("null", "json"), ("json", "json"), "json"),
        (rules.choice, ("bool", "i64", "f64"), ("bool", "f64", "f64"), "f64"),
        (rules.converted("str"), ("i64",), ("i64",), "str"),
        (rules.converted("str"), ("null",), ("str",), "str"),
        (rules.fixed("f64", gives="str"), ("i64",), ("f64",), "str"),
    ],
)
def test_a_rule_says_what_is_taken_and_given(
    rule: rules.Rule, types: tuple[str, ...], takes: tuple[str, ...], gives: str
) -> None:
    assert rule(types) == Signature(takes, gives)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rule", "types", "index"),
    [
        (rules.numbers, ("i64", "str"), 1),
        (rules.floats, ("bool",), 0),
        (rules.booleans, ("bool", "i64"), 1),
        (rules.alike, ("str", "i64"), 1),
        (rules.alike, ("json", "json"), 0),
        (rules.alike, ("null", "null"), 0),
        (rules.same, ("i64", "i64", "bool"), 2),
        (rules.choice, ("i64", "i64", "i64"), 0),
        (rules.choice, ("bool", "i64", "str"), 2),
        (rules.converted("i64"), ("json",), 0),
        (rules.fixed("i64", gives="str"), ("f64",), 0),
    ],
)
def test_a_rule_names_the_operand_that_does_not_fit(
    rule: rules.Rule, types: tuple[str, ...], index: int
) -> None:
    with pytest.raises(OperandMismatch) as caught:
        rule(types)  # type: ignore[arg-type]

    assert caught.value.index == index
