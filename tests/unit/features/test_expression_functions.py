"""The table of functions is whole."""

from __future__ import annotations

import pytest

from penstock.features.event_column import column_of
from penstock.features.expression import CASTS, INFIX
from penstock.features.expression_functions import FUNCTIONS, arity_complaint
from penstock.features.expression_rules import OperandMismatch

SAMPLES = {
    "i64": column_of("i64", [1]),
    "f64": column_of("f64", [1.5]),
    "str": column_of("str", ["a"]),
    "bool": column_of("bool", [True]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_gives_the_type_that_its_rule_says(name: str) -> None:
    function = FUNCTIONS[name]
    least = function.operands[0]
    tried = 0
    for kind in SAMPLES:
        try:
            signature = function.rule([kind] * least)  # type: ignore[list-item]
        except OperandMismatch:
            continue
        found = function.run([SAMPLES[taken] for taken in signature.takes])
        assert found.type == signature.gives
        tried += 1
    assert tried or name in ("if", "quadkey")


def test_every_operator_and_cast_has_a_function() -> None:
    assert {*INFIX, *CASTS, "not", "neg"} <= set(FUNCTIONS)


def test_every_function_says_how_it_is_written_and_what_it_gives() -> None:
    for function in FUNCTIONS.values():
        assert function.syntax
        assert function.summary.endswith(".")


def test_the_number_of_operands_is_checked() -> None:
    assert arity_complaint("abs", 1) is None
    assert arity_complaint("coalesce", 64) is None
    assert "1 to 64 values, not 65" in str(arity_complaint("coalesce", 65))
