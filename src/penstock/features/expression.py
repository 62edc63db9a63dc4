"""Expressions over the columns of an event, as values: what a `where` and a computed column are.

An expression is kept in postfix order: each function follows the operands that it takes. So neither
reading, checking, comparing nor computing one ever recurses, however deep it is nested.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
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


class PostfixBuilder:
    """Makes an expression out of constants, columns, and functions of what came before.

    Two forms that mean the same are one: a comparison with null is `isnull`, and the negative of a
    number is a number.
    """

    def __init__(self) -> None:
        self._nodes: list[Node] = []
        self._places: list[int] = []
        self._operands: list[tuple[int, int]] = []  # where each begins, and its depth

    def __len__(self) -> int:
        """How many operands wait for a function."""
        return len(self._operands)

    def push(self, node: Constant | ColumnName, place: int) -> None:
        """One operand."""
        self._operands.append((len(self._nodes), 1))
        self._add(node, place)

    def extend(self, operand: Expression) -> None:
        """A whole expression as one operand."""
        self._operands.append((len(self._nodes), operand.depth))
        self._nodes += operand.nodes
        self._places += operand.places

    def apply(self, function: str, count: int, place: int) -> None:
        """Make one operand of the last `count` ones."""
        taken = self._operands[-count:]
        del self._operands[-count:]
        start = taken[0][0]
        depth = max(number + one for number, (_, one) in enumerate(taken))
        if function == "in":  # its constants are no columns
            depth = taken[0][1] + 1
        self._operands.append((start, depth))
        last = self._nodes[-1]
        if function == "neg" and isinstance(last, Constant) and last.type in ("i64", "f64"):
            self._nodes[-1] = constant_node(_negative(last.value))
            self._places[-1] = place
        elif function in ("==", "!=") and self._without_null(start, taken[1][0]):
            self._add(Apply("isnull", 1), place)
            if function == "!=":
                self._add(Apply("not", 1), place)
        else:
            self._add(Apply(function, count), place)
        if len(self._nodes) > EXPRESSION_NODES_MAX or depth > EXPRESSION_DEPTH_MAX:
            raise InvalidArgument(
                f"the expression is too large: expected at most {EXPRESSION_NODES_MAX} names, "
                f"constants and functions, nested at most {EXPRESSION_DEPTH_MAX} deep"
            )

    def finished(self, source: str = "") -> Expression:
        """The expression, once it is one operand."""
        ((_, depth),) = self._operands
        return Expression(tuple(self._nodes), tuple(self._places), depth, source)

    def _without_null(self, left: int, right: int) -> bool:
        """Remove the constant null, if one of two operands is it."""
        if self._nodes[right:] == [NULL]:
            del self._nodes[right], self._places[right]
            return True
        if self._nodes[left:right] == [NULL]:
            del self._nodes[left], self._places[left]
            return True
        return False

    def _add(self, node: Node, place: int) -> None:
        self._nodes.append(node)
        self._places.append(place)


def constant_node(value: object) -> Constant:
    """A literal of a Python value."""
    match value:
        case None:
            return NULL
        case bool():
            return Constant("bool", value)
        case int() if I64_MIN <= value <= I64_MAX:
            return Constant("i64", value)
        case float() if value - value == 0:  # neither infinite nor NaN
            return Constant("f64", value)
        case str() if _is_encodable(value):
            return Constant("str", str(value))
    raise InvalidArgument(
        f"invalid constant {shown(value)}: expected None, a bool, a text, a finite float "
        "or an int of 64 bits"
    )


def column_node(name: object) -> ColumnName:
    """The value of the column of this name."""
    return ColumnName(name_of(name, "column name"))


def constant(value: object) -> Expression:
    """A literal as an expression."""
    return Expression((constant_node(value),), (0,), 1)


def column(name: object) -> Expression:
    """The value of a column as an expression."""
    return Expression((column_node(name),), (0,), 1)


def applied(function: str, operands: Iterable[Expression]) -> Expression:
    """A function of some operands."""
    builder = PostfixBuilder()
    for operand in operands:
        builder.extend(operand)
    builder.apply(function, len(builder), 0)
    return builder.finished()


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
    # The first operand's list is used on: expressions grow on their left.
    first, rest = operands[0], operands[1:]
    listed = [piece for operand in rest for piece in (", ", *operand)]
    if function in CASTS:
        before, after = "cast(", [f", {CASTS[function]})"]
    elif function == "not":
        before, after = "(not ", [")"]
    elif function == "neg":
        before, after = "(-", [")"]
    elif function == "in":
        before, after = "(", [" in (", *listed[1:], "))"]
    elif function in INFIX:
        before, after = "(", [f" {function} ", *rest[0], ")"]
    else:
        before, after = f"{function}(", [*listed, ")"]
    first.insert(0, before)
    first += after
    return first


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
