"""Arithmetic, comparison and logic of expressions, a column at a time.

Integers saturate at 64 bit. A division by zero, and a float that would be infinite or no number,
is null.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.features.event_column import NUMPY_TYPES, Bools, ColumnType, EventColumn, Int64s
from penstock.features.expression import I64_MAX, I64_MIN

Columns = Sequence[EventColumn]

_SAFE_PRODUCT = 2.0**62  # below it the float estimate of a product is far enough from overflow
_EXP_MAX = 709.782712893384  # the natural logarithm of the largest f64


def made(kind: ColumnType, values: NDArray[Any], is_present: Bools) -> EventColumn:
    """A column, with 0, False or None where it has no value."""
    if not is_present.all():
        empty: Any = None if NUMPY_TYPES[kind] is np.object_ else 0
        values = np.where(is_present, values, empty)
    return EventColumn(kind, values.astype(NUMPY_TYPES[kind], copy=False), is_present)


def present(columns: Columns) -> Bools:
    """Where all of them have a value."""
    found = columns[0].is_present
    for one in columns[1:]:
        found = found & one.is_present
    return found


def _finite(columns: Columns, values: NDArray[Any]) -> EventColumn:
    return made("f64", values, present(columns) & np.isfinite(values))


def _arithmetic(
    of_integers: Callable[[Int64s, Int64s], Int64s], of_floats: Any
) -> Callable[[Columns], EventColumn]:
    def run(columns: Columns) -> EventColumn:
        left, right = columns[0].values, columns[1].values
        if columns[0].type == "i64":
            return made("i64", of_integers(left, right), present(columns))
        with np.errstate(all="ignore"):
            return _finite(columns, of_floats(left, right))

    return run


def _limit(of: Int64s) -> Int64s:
    """What a sum or product of this sign saturates at."""
    return np.where(of < 0, np.int64(I64_MIN), np.int64(I64_MAX))


def _sum(left: Int64s, right: Int64s) -> Int64s:
    wrapped = left + right
    is_over = ((left ^ wrapped) & (right ^ wrapped)) < 0
    return np.where(is_over, _limit(left), wrapped) if is_over.any() else wrapped


def _difference(left: Int64s, right: Int64s) -> Int64s:
    wrapped = left - right
    is_over = ((left ^ right) & (left ^ wrapped)) < 0
    return np.where(is_over, _limit(left), wrapped) if is_over.any() else wrapped


def _product(left: Int64s, right: Int64s) -> Int64s:
    wrapped = left * right
    estimate = np.abs(left.astype(np.float64) * right.astype(np.float64))
    for index in np.flatnonzero(estimate >= _SAFE_PRODUCT).tolist():
        exact = int(left[index]) * int(right[index])
        wrapped[index] = min(max(exact, I64_MIN), I64_MAX)
    return wrapped


add = _arithmetic(_sum, np.add)
subtract = _arithmetic(_difference, np.subtract)
multiply = _arithmetic(_product, np.multiply)


def divide(columns: Columns) -> EventColumn:
    """A quotient; of two i64 it is cut towards zero."""
    left, right = columns[0].values, columns[1].values
    is_divisible = present(columns) & (right != 0)
    divisor = np.where(right == 0, 1, right)
    with np.errstate(all="ignore"):
        if columns[0].type == "f64":
            values = left / divisor
            return made("f64", values, is_divisible & np.isfinite(values))
        quotient = left // divisor
        is_inexact = quotient * divisor != left
    quotient = quotient + (is_inexact & ((left < 0) != (divisor < 0)))
    is_over = (left == I64_MIN) & (divisor == -1)
    return made("i64", np.where(is_over, I64_MAX, quotient), is_divisible)


def negate(columns: Columns) -> EventColumn:
    """The negative."""
    values = columns[0].values
    if columns[0].type == "i64":
        values = np.maximum(values, -I64_MAX)
    return made(columns[0].type, -values, columns[0].is_present)


def absolute(columns: Columns) -> EventColumn:
    """Without its sign."""
    values = columns[0].values
    if columns[0].type == "i64":
        values = np.maximum(values, -I64_MAX)
    return made(columns[0].type, np.abs(values), columns[0].is_present)


def rounding(function: Any) -> Callable[[Columns], EventColumn]:
    """A function that makes a float whole; an i64 is so already."""

    def run(columns: Columns) -> EventColumn:
        (one,) = columns
        return one if one.type == "i64" else made("f64", function(one.values), one.is_present)

    return run


def root(columns: Columns) -> EventColumn:
    """The square root; null of a negative number."""
    with np.errstate(all="ignore"):
        return _finite(columns, np.sqrt(columns[0].values))


# One value at a time: numpy's own functions may differ in the last bit from one processor to
# another, and a replay must give what the first run gave.


def logarithm(columns: Columns) -> EventColumn:
    """The natural logarithm; null unless the number is above 0."""
    (one,) = columns
    values = [math.log(x) if x > 0 else math.nan for x in one.values.tolist()]
    return _finite(columns, np.array(values, np.float64))


def exponential(columns: Columns) -> EventColumn:
    """The power of e; null if it is too large for an f64."""
    (one,) = columns
    values = [math.exp(x) if x <= _EXP_MAX else math.inf for x in one.values.tolist()]
    return _finite(columns, np.array(values, np.float64))


def extreme(function: Any) -> Callable[[Columns], EventColumn]:
    """The smallest or the largest of some numbers; null if one of them is."""

    def run(columns: Columns) -> EventColumn:
        values = columns[0].values
        for one in columns[1:]:
            values = function(values, one.values)
        return made(columns[0].type, values, present(columns))

    return run


def comparison(function: Any) -> Callable[[Columns], EventColumn]:
    """Compares two columns of one type."""

    def run(columns: Columns) -> EventColumn:
        left, right = columns
        is_present = present(columns)
        # An absent text is equal to none, and has no order.
        is_equality = function in (operator.eq, operator.ne)
        if left.type != "str" or is_equality or is_present.all():
            return made("bool", function(left.values, right.values), is_present)
        values = np.zeros(len(left), np.bool_)
        values[is_present] = function(left.values[is_present], right.values[is_present])
        return EventColumn("bool", values, is_present)

    return run


def member(columns: Columns) -> EventColumn:
    """Is the first column's value one of the constants that follow?"""
    first, constants = columns[0], columns[1:]
    listed = {one.values[0] for one in constants}
    if first.type == "i64":
        values = np.isin(first.values, np.array(list(listed), np.int64))
    else:
        items = first.values.tolist()
        values = np.fromiter((item in listed for item in items), np.bool_, len(items))
    return made("bool", values, first.is_present)


# Logic has three values: false and null is false, true or null is true.


def conjunction(columns: Columns) -> EventColumn:
    """Both."""
    left, right = columns
    values = left.values & right.values
    is_false = (left.is_present & ~left.values) | (right.is_present & ~right.values)
    return made("bool", values, present(columns) | is_false)


def disjunction(columns: Columns) -> EventColumn:
    """One of two, or both. A value that is absent is False."""
    left, right = columns
    values = left.values | right.values
    return made("bool", values, present(columns) | values)


def negation(columns: Columns) -> EventColumn:
    """The opposite."""
    return made("bool", ~columns[0].values, columns[0].is_present)


def is_null(columns: Columns) -> EventColumn:
    """Is there no value?"""
    (one,) = columns
    return EventColumn("bool", ~one.is_present, np.ones(len(one), np.bool_))


def first_present(columns: Columns) -> EventColumn:
    """The first value that is not null."""
    values, is_present = columns[0].values, columns[0].is_present
    for one in columns[1:]:
        values = np.where(is_present, values, one.values)
        is_present = is_present | one.is_present
    return made(columns[0].type, values, is_present)


def chosen(columns: Columns) -> EventColumn:
    """The second value where the first is true, else the third."""
    condition, then, otherwise = columns
    values = np.where(condition.values, then.values, otherwise.values)
    is_present = np.where(condition.values, then.is_present, otherwise.is_present)
    return made(then.type, values, is_present)
