"""Which types the functions of expressions take, and what they give.

A rule gets the types of the operands and says which types the function is computed with: an i64
beside an f64 is taken as f64, and `null` as an absent value of the type that is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.features.event_column import ColumnType
from penstock.features.expression import ValueType


@dataclass(frozen=True, slots=True)
class Signature:
    """The types that the operands are converted to, and the type of the result."""

    takes: tuple[ColumnType, ...]
    gives: ColumnType


class OperandMismatch(Exception):
    """An operand has a type that the function does not take."""

    def __init__(self, index: int, expected: str) -> None:
        super().__init__(expected)
        self.index = index
        self.expected = expected


Rule = Callable[[Sequence[ValueType]], Signature]


def numbers(types: Sequence[ValueType]) -> Signature:
    """Numbers, computed as f64 if one of them is, and giving the same."""
    kind = _number(types)
    return Signature((kind,) * len(types), kind)


def floats(types: Sequence[ValueType]) -> Signature:
    """Numbers, computed as f64."""
    _number(types)
    wanted: ColumnType = "f64"
    return Signature((wanted,) * len(types), wanted)


def booleans(types: Sequence[ValueType]) -> Signature:
    """Booleans, giving one."""
    wanted: ColumnType = "bool"
    return fixed(*(wanted,) * len(types), gives=wanted)(types)


def alike(types: Sequence[ValueType]) -> Signature:
    """Values of one type, giving a boolean: for comparisons. False is less than true."""
    kind = common(types)
    return Signature((kind,) * len(types), "bool")


def anything(types: Sequence[ValueType]) -> Signature:
    """A value of any type, giving a boolean."""
    return Signature(tuple(("json" if kind == "null" else kind) for kind in types), "bool")


def same(types: Sequence[ValueType]) -> Signature:
    """Values of one type, giving that type."""
    kind = common(types, may_be_json=True)
    return Signature((kind,) * len(types), kind)


def choice(types: Sequence[ValueType]) -> Signature:
    """A boolean and two values of one type, giving that type."""
    if types[0] not in ("bool", "null"):
        raise OperandMismatch(0, "a boolean")
    try:
        kind = common(types[1:], may_be_json=True)
    except OperandMismatch as error:
        raise OperandMismatch(error.index + 1, error.expected) from None
    return Signature(("bool", kind, kind), kind)


def fixed(*takes: ColumnType, gives: ColumnType) -> Rule:
    """Exactly these types; an i64 is taken for an f64."""

    def rule(types: Sequence[ValueType]) -> Signature:
        for index, (kind, wanted) in enumerate(zip(types, takes, strict=True)):
            if kind not in (wanted, "null") and (kind, wanted) != ("i64", "f64"):
                raise OperandMismatch(index, _NAMES[wanted])
        return Signature(takes, gives)

    return rule


def converted(to: ColumnType) -> Rule:
    """Any scalar, giving this type."""

    def rule(types: Sequence[ValueType]) -> Signature:
        (kind,) = types
        if kind == "json":
            raise OperandMismatch(0, "a number, a boolean or a text")
        return Signature((to if kind == "null" else kind,), to)

    return rule


def common(types: Sequence[ValueType], *, may_be_json: bool = False) -> ColumnType:
    """The type that all of these can be taken as."""
    found: ColumnType | None = None
    for index, kind in enumerate(types):
        if kind == "null" or kind == found:
            continue
        if kind == "json" and not may_be_json:
            raise OperandMismatch(index, "a number, a boolean or a text")
        if found is None:
            found = kind
        elif {found, kind} == {"i64", "f64"}:
            found = "f64"
        else:
            raise OperandMismatch(index, f"{_NAMES[found]}, like the value before it")
    if found is None:
        raise OperandMismatch(0, "a value that is not always null")
    return found


def _number(types: Sequence[ValueType]) -> ColumnType:
    for index, kind in enumerate(types):
        if kind not in ("i64", "f64", "null"):
            raise OperandMismatch(index, "a number")
    return "f64" if "f64" in types else "i64"


_NAMES: dict[ColumnType, str] = {
    "i64": "an i64",
    "f64": "a number",
    "bool": "a boolean",
    "str": "a text",
    "json": "a json value",
}
