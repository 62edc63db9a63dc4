"""The functions of expressions, in one table: what they take, and how they are computed."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from penstock.features import expression_numbers as numbers
from penstock.features import expression_rules as rules
from penstock.features import expression_texts as texts
from penstock.features.event_column import EventColumn
from penstock.features.expression import CASTS, EXPRESSION_NODES_MAX

Run = Callable[[Sequence[EventColumn]], EventColumn]


@dataclass(frozen=True, slots=True)
class ExpressionFunction:
    """One function or operator. `run` gets columns of one length, of the types that `rule` says."""

    syntax: str
    summary: str
    rule: rules.Rule
    run: Run
    operands: tuple[int, int]  # at least, at most

    @property
    def is_call(self) -> bool:
        """True if it is written name(…)."""
        return self.syntax.split("(")[0].isidentifier()


def arity_complaint(function: str, count: int) -> str | None:
    """What is wrong with this number of operands, if something is."""
    least, most = FUNCTIONS[function].operands
    if least <= count <= most:
        return None
    wanted = str(least) if least == most else f"{least} to {most}"
    values = "value" if wanted == "1" else "values"
    return f"{function} takes {wanted} {values}, not {count}: {FUNCTIONS[function].syntax}"


_ONE: Final = (1, 1)
_TWO: Final = (2, 2)
_MANY: Final = 64

_same_text = rules.fixed("str", "str", gives="bool")

FUNCTIONS: Final[dict[str, ExpressionFunction]] = {
    "or": ExpressionFunction(
        "a or b", "One of them is true.", rules.booleans, numbers.disjunction, _TWO
    ),
    "and": ExpressionFunction(
        "a and b", "Both are true.", rules.booleans, numbers.conjunction, _TWO
    ),
    "not": ExpressionFunction("not a", "The opposite.", rules.booleans, numbers.negation, _ONE),
    "==": ExpressionFunction(
        "a == b", "Equal.", rules.alike, numbers.comparison(operator.eq), _TWO
    ),
    "!=": ExpressionFunction(
        "a != b", "Not equal.", rules.alike, numbers.comparison(operator.ne), _TWO
    ),
    "<": ExpressionFunction("a < b", "Less.", rules.alike, numbers.comparison(operator.lt), _TWO),
    "<=": ExpressionFunction(
        "a <= b", "Less or equal.", rules.alike, numbers.comparison(operator.le), _TWO
    ),
    ">": ExpressionFunction(
        "a > b", "Greater.", rules.alike, numbers.comparison(operator.gt), _TWO
    ),
    ">=": ExpressionFunction(
        "a >= b", "Greater or equal.", rules.alike, numbers.comparison(operator.ge), _TWO
    ),
    "in": ExpressionFunction(
        "a in (1, 2)",
        "Equal to one of these constants.",
        rules.alike,
        numbers.member,
        (2, EXPRESSION_NODES_MAX),
    ),
    "+": ExpressionFunction("a + b", "The sum.", rules.numbers, numbers.add, _TWO),
    "-": ExpressionFunction("a - b", "The difference.", rules.numbers, numbers.subtract, _TWO),
    "*": ExpressionFunction("a * b", "The product.", rules.numbers, numbers.multiply, _TWO),
    "/": ExpressionFunction(
        "a / b",
        "The quotient; of two i64 it is cut towards zero. By zero: null.",
        rules.numbers,
        numbers.divide,
        _TWO,
    ),
    "neg": ExpressionFunction("-a", "The negative.", rules.numbers, numbers.negate, _ONE),
    "isnull": ExpressionFunction(
        "isnull(a)", "There is no value. Also a == null.", rules.anything, numbers.is_null, _ONE
    ),
    "coalesce": ExpressionFunction(
        "coalesce(a, b, …)",
        "The first value that is not null.",
        rules.same,
        numbers.first_present,
        (1, _MANY),
    ),
    "if": ExpressionFunction(
        "if(condition, a, b)",
        "a if the condition is true, b if it is false or null.",
        rules.choice,
        numbers.chosen,
        (3, 3),
    ),
    "abs": ExpressionFunction("abs(a)", "Without its sign.", rules.numbers, numbers.absolute, _ONE),
    "round": ExpressionFunction(
        "round(a)",
        "The nearest whole number; of two, the even one. An f64 stays one.",
        rules.numbers,
        numbers.rounding(np.rint),
        _ONE,
    ),
    "floor": ExpressionFunction(
        "floor(a)",
        "The next lower whole number. An f64 stays one.",
        rules.numbers,
        numbers.rounding(np.floor),
        _ONE,
    ),
    "ceil": ExpressionFunction(
        "ceil(a)",
        "The next higher whole number. An f64 stays one.",
        rules.numbers,
        numbers.rounding(np.ceil),
        _ONE,
    ),
    "log": ExpressionFunction(
        "log(a)",
        "The natural logarithm; null unless a is above 0.",
        rules.floats,
        numbers.logarithm,
        _ONE,
    ),
    "exp": ExpressionFunction(
        "exp(a)", "e to this power.", rules.floats, numbers.exponential, _ONE
    ),
    "sqrt": ExpressionFunction(
        "sqrt(a)", "The square root; null below 0.", rules.floats, numbers.root, _ONE
    ),
    "min": ExpressionFunction(
        "min(a, b, …)",
        "The smallest; null if one of them is null.",
        rules.numbers,
        numbers.extreme(np.minimum),
        (2, _MANY),
    ),
    "max": ExpressionFunction(
        "max(a, b, …)",
        "The largest; null if one of them is null.",
        rules.numbers,
        numbers.extreme(np.maximum),
        (2, _MANY),
    ),
    "lower": ExpressionFunction(
        "lower(s)",
        "In lower case.",
        rules.fixed("str", gives="str"),
        texts.text_function("str", str.lower),
        _ONE,
    ),
    "upper": ExpressionFunction(
        "upper(s)",
        "In upper case.",
        rules.fixed("str", gives="str"),
        texts.text_function("str", str.upper),
        _ONE,
    ),
    "length": ExpressionFunction(
        "length(s)",
        "The number of its characters.",
        rules.fixed("str", gives="i64"),
        texts.text_function("i64", len),
        _ONE,
    ),
    "contains": ExpressionFunction(
        "contains(s, part)",
        "The text has this part.",
        _same_text,
        texts.text_function("bool", operator.contains),
        _TWO,
    ),
    "starts_with": ExpressionFunction(
        "starts_with(s, part)",
        "The text begins with this part.",
        _same_text,
        texts.text_function("bool", str.startswith),
        _TWO,
    ),
    "quadkey": ExpressionFunction(
        "quadkey(lat, lon, zoom)",
        "The square of the map that a place lies in, a text of `zoom` digits (1 to 23).",
        rules.fixed("f64", "f64", "i64", gives="str"),
        texts.text_function("str", texts.quadkey),
        (3, 3),
    ),
    **{
        name: ExpressionFunction(
            f"cast(a, {to})",
            f"As {to}; null if it cannot be.",
            rules.converted(to),
            texts.cast(to),
            _ONE,
        )
        for name, to in CASTS.items()
    },
}
