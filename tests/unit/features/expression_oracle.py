"""Expressions once more, one event at a time and as plainly as can be, to compare with.

A tree is ("column", name), ("constant", value) or (function, operand, …). Nothing here is shared
with what is tested: trees are written as text, and computed on rows of Python values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import strategies as st

Tree = tuple[Any, ...]
Row = Mapping[str, Any]

SCHEMA = {"i": "i64", "j": "i64", "x": "f64", "y": "f64", "s": "str", "t": "str", "b": "bool"}
LOW, HIGH = -(1 << 63), (1 << 63) - 1

INTEGERS = st.one_of(st.integers(-9, 9), st.integers(LOW, HIGH), st.sampled_from([LOW, HIGH]))
FLOATS = st.one_of(
    st.sampled_from([0.0, 0.5, -2.5, 1e-7, 1e300, 709.0, 2.0**63, -(2.0**63)]),
    st.floats(allow_nan=False, allow_infinity=False),
)
TEXTS = st.one_of(
    st.sampled_from(
        ["", "a", "A", "it's", '"', "\\", "é\n", "日本", "\U0001f600", "12", "-1.5", "true"]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
)
CONSTANTS = {"i64": INTEGERS, "f64": FLOATS, "str": TEXTS, "bool": st.booleans()}

ROWS = st.lists(
    st.fixed_dictionaries({name: st.none() | CONSTANTS[kind] for name, kind in SCHEMA.items()}),
    max_size=5,
)


def kind_of(tree: Tree) -> str:
    """The type of its values."""
    function, *operands = tree
    match function:
        case "column":
            return SCHEMA[operands[0]]
        case "constant":
            names = {bool: "bool", int: "i64", float: "f64", str: "str"}
            return names[type(operands[0])]
        case "cast":
            return str(operands[1])
        case "+" | "-" | "*" | "/" | "neg" | "abs" | "round" | "floor" | "ceil" | "min" | "max":
            return _wider([kind_of(one) for one in operands])
        case "coalesce":
            return _wider([kind_of(one) for one in operands])
        case "if":
            return _wider([kind_of(one) for one in operands[1:]])
        case "log" | "exp" | "sqrt":
            return "f64"
        case "lower" | "upper":
            return "str"
        case "length":
            return "i64"
    return "bool"


def _wider(kinds: list[str]) -> str:
    return "f64" if "f64" in kinds else kinds[0]


@st.composite
def trees(draw: Callable[[Any], Any], kind: str, depth: int = 3) -> Tree:
    """A tree of this type."""
    names = [name for name, found in SCHEMA.items() if found == kind]
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        if draw(st.booleans()):
            return ("column", draw(st.sampled_from(names)))
        return ("constant", draw(CONSTANTS[kind]))

    def one(of: str) -> Tree:
        return draw(trees(of, depth - 1))  # type: ignore[no-any-return]

    number = draw(st.sampled_from(["i64", "f64"]))
    anything = draw(st.sampled_from(["i64", "f64", "str", "bool"]))
    shape = draw(st.integers(0, 6))
    if shape == 0:
        return ("coalesce", one(kind), one(kind))
    if shape == 1:
        return ("if", one("bool"), one(kind), one("i64" if kind == "f64" else kind))
    if shape == 2:
        return ("cast", one(anything), kind)
    match kind:
        case "i64":
            unary = draw(st.sampled_from(["neg", "abs", "round", "floor", "ceil"]))
            binary = draw(st.sampled_from(["+", "-", "*", "/", "min", "max"]))
            if shape == 3:
                return ("length", one("str"))
            return (unary, one(kind)) if shape == 4 else (binary, one(kind), one(kind))
        case "f64":
            unary = draw(st.sampled_from(["neg", "abs", "round", "floor", "ceil"]))
            binary = draw(st.sampled_from(["+", "-", "*", "/", "min", "max"]))
            if shape == 3:
                return (draw(st.sampled_from(["log", "exp", "sqrt"])), one(number))
            return (unary, one(kind)) if shape == 4 else (binary, one(kind), one(number))
        case "str":
            return (draw(st.sampled_from(["lower", "upper"])), one("str"))
    compared = draw(st.sampled_from(["<", "<=", ">", ">=", "==", "!="]))
    if shape == 3:
        operand = draw(st.sampled_from([number, "str", "bool"]))
        other = draw(st.sampled_from(["i64", "f64"])) if operand == number else operand
        return (compared, one(operand), one(other))
    if shape == 4:
        items = draw(st.lists(CONSTANTS[anything], min_size=1, max_size=3))
        return ("in", one(anything), *(("constant", item) for item in items))
    if shape == 5:
        text = draw(st.sampled_from(["contains", "starts_with"]))
        return draw(  # type: ignore[no-any-return]
            st.sampled_from([(text, one("str"), one("str")), ("isnull", one(anything))])
        )
    logic = draw(st.sampled_from(["and", "or", "not"]))
    return ("not", one("bool")) if logic == "not" else (logic, one("bool"), one("bool"))


def text_of(tree: Tree) -> str:
    """As somebody might write it."""
    function, *operands = tree
    match function:
        case "column":
            return str(operands[0])
        case "constant":
            value = operands[0]
            if isinstance(value, bool):
                return "true" if value else "false"
            if isinstance(value, str):
                return repr(value)  # as a Python program would, in either kind of quotes
            return repr(value)
        case "cast":
            return f"cast({text_of(operands[0])}, {operands[1]})"
        case "neg" | "not":
            return f"({'- ' if function == 'neg' else 'not '}{text_of(operands[0])})"
        case "in":
            items = ",".join(text_of(one) for one in operands[1:])
            return f"({text_of(operands[0])} in ({items}))"
    texts = [text_of(one) for one in operands]
    if function.isidentifier() and function not in ("and", "or"):
        return f"{function}({' , '.join(texts)})"
    return f"({texts[0]} {function} {texts[1]})"


def value_of(tree: Tree, row: Row) -> Any:
    """The value for one event."""
    found = _value(tree, row)
    return float(found) if found is not None and kind_of(tree) == "f64" else found


def _value(tree: Tree, row: Row) -> Any:
    function, *operands = tree
    if function == "column":
        return row[operands[0]]
    if function == "constant":
        return operands[0]
    if function == "cast":
        return _cast(value_of(operands[0], row), operands[1])
    values = [value_of(one, row) for one in operands]
    match function:
        case "isnull":
            return values[0] is None
        case "coalesce":
            return next((one for one in values if one is not None), None)
        case "if":
            return values[1] if values[0] is True else values[2]
        case "and":
            return False if False in values else None if None in values else True
        case "or":
            return True if True in values else None if None in values else False
    if None in values:
        return None
    if _wider([kind_of(one) for one in operands]) == "f64":
        values = [float(one) for one in values]
    try:
        return _bounded(_plain(function, values))
    except (ValueError, OverflowError, ZeroDivisionError):
        return None


def _plain(function: str, values: list[Any]) -> Any:
    a, b = values[0], values[-1]
    if function == "/" and isinstance(a, int):
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return {
        "+": lambda: a + b,
        "-": lambda: a - b,
        "*": lambda: a * b,
        "/": lambda: a / b,
        "neg": lambda: -a,
        "abs": lambda: abs(a),
        "round": lambda: type(a)(round(a)),
        "floor": lambda: type(a)(math.floor(a)),
        "ceil": lambda: type(a)(math.ceil(a)),
        "min": lambda: min(values),
        "max": lambda: max(values),
        "log": lambda: math.log(a),
        "exp": lambda: math.exp(a),
        "sqrt": lambda: math.sqrt(a),
        "lower": lambda: a.lower(),
        "upper": lambda: a.upper(),
        "length": lambda: len(a),
        "contains": lambda: b in a,
        "starts_with": lambda: a.startswith(b),
        "not": lambda: not a,
        "==": lambda: a == b,
        "!=": lambda: a != b,
        "<": lambda: a < b,
        "<=": lambda: a <= b,
        ">": lambda: a > b,
        ">=": lambda: a >= b,
        "in": lambda: a in values[1:],
    }[function]()


def _bounded(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, int) and not isinstance(value, bool):
        return min(max(value, LOW), HIGH)
    return value


def _cast(value: Any, to: str) -> Any:
    if value is None:
        return None
    if isinstance(value, str):
        if to == "str":
            return value
        if to == "bool":
            return {"true": True, "false": False}.get(value)
        if not value.isascii() or value.strip() != value or "_" in value or not value:
            return None
        try:
            number: Any = int(value) if to == "i64" else float(value)
        except ValueError:
            return None
        if to == "i64":
            return number if LOW <= number <= HIGH else None
        return _bounded(number)
    match to:
        case "i64":
            return _bounded(int(value))
        case "f64":
            return float(value)
        case "bool":
            return bool(value)
    return str(value).lower() if isinstance(value, bool) else repr(value)
