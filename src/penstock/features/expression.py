"""Expressions over the columns of an event, as values: what a `where` and a computed column are.

An expression is kept in postfix order: each function follows the operands that it takes. So neither
reading, checking, comparing nor computing one ever recurses, however deep it is nested.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from penstock.errors import InvalidArgument
from penstock.features.event_column import ColumnType
from penstock.features.names import name_of, shown

EXPRESSION_NODES_MAX: Final = 4096
EXPRESSION_DEPTH_MAX: Final = 512  # values that are kept while one is computed
I64_MIN: Final = -(1 << 63)
I64_MAX: Final = (1 << 63) - 1

ValueType = Literal["i64", "f64", "bool", "str", "json", "null"]
"""The types of columns, and that of `null`."""

CASTS: Final[dict[str, ColumnType]] = {
    "cast i64": "i64",
    "cast f64": "f64",
    "cast str": "str",
    "cast bool": "bool",
}
"""The functions that `cast(x, type)` stands for, and what they give."""

INFIX: Final[dict[str, int]] = {
    "or": 1,
    "and": 2,
    "==": 4,
    "!=": 4,
    "<": 4,
    "<=": 4,
    ">": 4,
    ">=": 4,
    "in": 4,
    "+": 5,
    "-": 5,
    "*": 6,
    "/": 6,
}
"""Operators between two operands, and how tightly they bind. `not` binds with 3."""

_ESCAPED: Final = re.compile(r"[\\'\x00-\x1f\x7f-\x9f\u2028\u2029]")
_ESCAPES: Final = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal."""

    type: ValueType
    value: int | float | bool | str | None


@dataclass(frozen=True, slots=True)
class ColumnName:
    """The value of a column."""

    name: str


@dataclass(frozen=True, slots=True)
class Apply:
    """A function of the `count` values before it. Operators are functions too."""

    function: str
    count: int


Node = Constant | ColumnName | Apply


@dataclass(frozen=True, slots=True)
class Expression:
    """Immutable. Equal to another that has the same nodes; `str` gives the canonical text, which
    is parsed into an equal expression again."""

    nodes: tuple[Node, ...]
    places: tuple[int, ...] = field(compare=False, repr=False)  # in the text: of each node
    depth: int = field(compare=False, repr=False)  # values kept at once
    source: str = field(default="", compare=False, repr=False)  # the text that it was read from

    def __str__(self) -> str:
        return rendered(self.nodes)

    @property
    def columns(self) -> frozenset[str]:
        """The columns that it reads."""
        return frozenset(node.name for node in self.nodes if isinstance(node, ColumnName))


NULL: Final = Constant("null", None)


def constant(value: object, place: int = 0) -> Expression:
    """A literal of a Python value."""
    match value:
        case None:
            node = NULL
        case bool():
            node = Constant("bool", value)
        case int() if I64_MIN <= value <= I64_MAX:
            node = Constant("i64", value)
        case float() if value - value == 0:  # neither infinite nor NaN
            node = Constant("f64", value)
        case str() if _is_encodable(value):
            node = Constant("str", str(value))
        case _:
            raise InvalidArgument(
                f"invalid constant {shown(value)}: expected None, a bool, a text, a finite float "
                "or an int of 64 bits"
            )
    return Expression((node,), (place,), 1)


def column(name: object, place: int = 0) -> Expression:
    """The value of the column of this name."""
    return Expression((ColumnName(name_of(name, "column name")),), (place,), 1)


def applied(function: str, operands: Sequence[Expression], place: int = 0) -> Expression:
    """A function of some operands.

    Two forms that mean the same are one: a comparison with null is `isnull`, and the negative of a
    number is a number.
    """
    if function in ("==", "!=") and any(operand.nodes == (NULL,) for operand in operands):
        tested = operands[0] if operands[1].nodes == (NULL,) else operands[1]
        found = applied("isnull", [tested], place)
        return found if function == "==" else applied("not", [found], place)
    first = operands[0].nodes[-1]
    if function == "neg" and isinstance(first, Constant) and first.type in ("i64", "f64"):
        return constant(_negative(first.value), place)
    nodes = tuple(node for operand in operands for node in operand.nodes)
    places = tuple(at for operand in operands for at in operand.places)
    depth = max(number + operand.depth for number, operand in enumerate(operands))
    if function == "in":  # its constants are no columns
        depth = operands[0].depth + 1
    if len(nodes) >= EXPRESSION_NODES_MAX or depth > EXPRESSION_DEPTH_MAX:
        raise InvalidArgument(
            f"the expression is too large: expected at most {EXPRESSION_NODES_MAX} names, "
            f"constants and functions, nested at most {EXPRESSION_DEPTH_MAX} deep"
        )
    return Expression((*nodes, Apply(function, len(operands))), (*places, place), depth)


def rendered(nodes: Iterable[Node]) -> str:
    """The canonical text: every operator in parentheses."""
    # Pieces are joined once, at the end: each operand is a range of this list.
    texts: list[list[str]] = []
    for node in nodes:
        if isinstance(node, Constant):
            texts.append([constant_text(node)])
        elif isinstance(node, ColumnName):
            texts.append([node.name])
        else:
            operands = texts[-node.count :]
            del texts[-node.count :]
            texts.append(_applied_text(node.function, operands))
    return "".join(texts[0])


def _applied_text(function: str, operands: list[list[str]]) -> list[str]:
    # The first operand's list is reused, since chains grow on their left.
    first, rest = operands[0], operands[1:]
    if function in CASTS:
        return ["cast(", *first, f", {CASTS[function]})"]
    if function == "not":
        return ["(not ", *first, ")"]
    if function == "neg":
        return ["(-", *first, ")"]
    listed = [piece for operand in rest for piece in (", ", *operand)]
    if function == "in":
        return ["(", *first, " in (", *listed[1:], "))"]
    if function in INFIX:
        return ["(", *first, f" {function} ", *rest[0], ")"]
    return [f"{function}(", *first, *listed, ")"]


def constant_text(node: Constant) -> str:
    """A literal as it is written in an expression."""
    if node.value is None:
        return "null"
    if isinstance(node.value, bool):
        return "true" if node.value else "false"
    if isinstance(node.value, str):
        return f"'{_ESCAPED.sub(_escape, node.value)}'"
    return repr(node.value)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return _ESCAPES.get(match[0]) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")


def _negative(value: object) -> int | float:
    if isinstance(value, float):
        return -value
    return min(-int(str(value)), I64_MAX)


def _is_encodable(text: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in text)
