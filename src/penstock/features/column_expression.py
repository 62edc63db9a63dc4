"""Expressions as Python code: `col("fare") > 5`. They are built as values, never as texts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final

from penstock.errors import InvalidArgument
from penstock.features.expression import Expression, applied, column, constant
from penstock.features.expression_functions import arity_complaint
from penstock.features.names import shown

Scalar = int | float | bool | str | None
"""What an expression may be combined with, besides another one."""

_CASTS: Final[dict[object, str]] = {
    **{"i64": "i64", "f64": "f64", "str": "str", "bool": "bool", "int": "i64", "float": "f64"},
    **{int: "i64", float: "f64", str: "str", bool: "bool"},
}


class ColumnExpression:
    """An expression over the columns of an event. Immutable.

    `== != < <= > >=` compare, `+ - * /` compute; `&`, `|` and `~` are and, or and not.
    """

    __slots__ = ("expression",)
    __hash__: ClassVar[None]  # type: ignore[assignment]  # == gives an expression

    def __init__(self, expression: Expression) -> None:
        self.expression = expression

    def __repr__(self) -> str:
        return f"<expression {self.expression}>"

    def __str__(self) -> str:
        return str(self.expression)

    def __bool__(self) -> bool:
        raise TypeError(
            "an expression is neither true nor false in Python: "
            "write & | ~ for and, or and not, and no chain of comparisons"
        )

    def __eq__(self, other: ColumnExpression | Scalar) -> ColumnExpression:  # type: ignore[override]
        return _made("==", self, other)

    def __ne__(self, other: ColumnExpression | Scalar) -> ColumnExpression:  # type: ignore[override]
        return _made("!=", self, other)

    def __lt__(self, other: ColumnExpression | Scalar) -> ColumnExpression:
        return _made("<", self, other)

    def __le__(self, other: ColumnExpression | Scalar) -> ColumnExpression:
        return _made("<=", self, other)

    def __gt__(self, other: ColumnExpression | Scalar) -> ColumnExpression:
        return _made(">", self, other)

    def __ge__(self, other: ColumnExpression | Scalar) -> ColumnExpression:
        return _made(">=", self, other)

    def __add__(self, other: ColumnExpression | Scalar) -> ColumnExpression:
        return _made("+", self, other)

    def __radd__(self, other: Scalar) -> ColumnExpression:
        return _made("+", other, self)

    def __sub__(self, other: ColumnExpression | Scalar) -> ColumnExpression:
        return _made("-", self, other)

    def __rsub__(self, other: Scalar) -> ColumnExpression:
        return _made("-", other, self)

    def __mul__(self, other: ColumnExpression | Scalar) -> ColumnExpression:
        return _made("*", self, other)

    def __rmul__(self, other: Scalar) -> ColumnExpression:
        return _made("*", other, self)

    def __truediv__(self, other: ColumnExpression | Scalar) -> ColumnExpression:
        return _made("/", self, other)

    def __rtruediv__(self, other: Scalar) -> ColumnExpression:
        return _made("/", other, self)

    def __and__(self, other: ColumnExpression | Scalar) -> ColumnExpression:
        return _made("and", self, other)

    def __rand__(self, other: Scalar) -> ColumnExpression:
        return _made("and", other, self)

    def __or__(self, other: ColumnExpression | Scalar) -> ColumnExpression:
        return _made("or", self, other)

    def __ror__(self, other: Scalar) -> ColumnExpression:
        return _made("or", other, self)

    def __invert__(self) -> ColumnExpression:
        return _made("not", self)

    def __neg__(self) -> ColumnExpression:
        return _made("neg", self)

    def __abs__(self) -> ColumnExpression:
        return _made("abs", self)

    def isnull(self) -> ColumnExpression:
        """Is there no value?"""
        return _made("isnull", self)

    def cast(self, to: str | type) -> ColumnExpression:
        """As another type: "int", "float", "str" or "bool". Null where that cannot be."""
        if not isinstance(to, (str, type)) or to not in _CASTS:
            raise InvalidArgument(f"unknown type {shown(to)}: expected int, float, str or bool")
        return _made(f"cast {_CASTS[to]}", self)

    def is_in(self, values: Iterable[Scalar]) -> ColumnExpression:
        """Is it one of these constants?"""
        listed = list(values)
        if not listed or None in listed:
            raise InvalidArgument("expected at least one value, and none of them None")
        return _made("in", self, *listed)

    def abs(self) -> ColumnExpression:
        """Without its sign."""
        return _made("abs", self)

    def round(self) -> ColumnExpression:
        """The nearest whole number; of two, the even one."""
        return _made("round", self)

    def floor(self) -> ColumnExpression:
        """The next lower whole number."""
        return _made("floor", self)

    def ceil(self) -> ColumnExpression:
        """The next higher whole number."""
        return _made("ceil", self)

    def log(self) -> ColumnExpression:
        """The natural logarithm."""
        return _made("log", self)

    def exp(self) -> ColumnExpression:
        """e to this power."""
        return _made("exp", self)

    def sqrt(self) -> ColumnExpression:
        """The square root."""
        return _made("sqrt", self)

    def lower(self) -> ColumnExpression:
        """The text in lower case."""
        return _made("lower", self)

    def upper(self) -> ColumnExpression:
        """The text in upper case."""
        return _made("upper", self)

    def length(self) -> ColumnExpression:
        """The number of characters of the text."""
        return _made("length", self)

    def contains(self, part: ColumnExpression | str) -> ColumnExpression:
        """Does the text have this part?"""
        return _made("contains", self, part)

    def starts_with(self, part: ColumnExpression | str) -> ColumnExpression:
        """Does the text begin with this part?"""
        return _made("starts_with", self, part)


def col(name: str) -> ColumnExpression:
    """The value of a column."""
    return ColumnExpression(column(name))


def lit(value: Scalar) -> ColumnExpression:
    """A constant."""
    return ColumnExpression(constant(value))


def coalesce(*values: ColumnExpression | Scalar) -> ColumnExpression:
    """The first value that is not null."""
    return _made("coalesce", *values)


def if_else(
    condition: ColumnExpression, then: ColumnExpression | Scalar, other: ColumnExpression | Scalar
) -> ColumnExpression:
    """`then` where the condition is true, else `other`."""
    return _made("if", condition, then, other)


def least(*values: ColumnExpression | Scalar) -> ColumnExpression:
    """The smallest of some numbers of one event; null if one of them is."""
    return _made("min", *values)


def greatest(*values: ColumnExpression | Scalar) -> ColumnExpression:
    """The largest of some numbers of one event; null if one of them is."""
    return _made("max", *values)


def quadkey(
    latitude: ColumnExpression, longitude: ColumnExpression, zoom: ColumnExpression | int
) -> ColumnExpression:
    """The square of the map that a place lies in, as a text of `zoom` digits."""
    return _made("quadkey", latitude, longitude, zoom)


def expression_of(value: object) -> Expression:
    """The expression of a value that was built here, or of a constant."""
    return value.expression if isinstance(value, ColumnExpression) else constant(value)


def _made(function: str, *operands: ColumnExpression | Scalar) -> ColumnExpression:
    complaint = arity_complaint(function, len(operands))
    if complaint:
        raise InvalidArgument(complaint)
    return ColumnExpression(applied(function, [expression_of(one) for one in operands]))
