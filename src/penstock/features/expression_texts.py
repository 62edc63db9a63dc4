"""Texts in expressions: functions of them, and conversions to them and from them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from penstock.features.event_column import NUMPY_TYPES, ColumnType, EventColumn, column_of
from penstock.features.expression import I64_MAX, I64_MIN
from penstock.features.expression_numbers import made, present

Columns = Sequence[EventColumn]

ZOOM_MAX: Final = 23

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,4000}", re.ASCII)
_FLOAT: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_LATITUDE_MAX: Final = 85.05112878  # where the square map of the world ends


def text_function(gives: ColumnType, function: Callable[..., Any]) -> Callable[[Columns], Any]:
    """A function of values, one event at a time. It may give None."""

    def run(columns: Columns) -> EventColumn:
        is_present = present(columns)
        if is_present.all():
            return _found([one.values.tolist() for one in columns])
        found = _found([one.values[is_present].tolist() for one in columns])
        values = np.zeros(len(is_present), found.values.dtype)
        if found.values.dtype == np.object_:
            values.fill(None)
        has_value = np.zeros(len(is_present), np.bool_)
        values[is_present] = found.values
        has_value[is_present] = found.is_present
        return EventColumn(gives, values, has_value)

    def _found(operands: list[list[Any]]) -> EventColumn:
        results = list(map(function, *operands))
        if None in results:
            return column_of(gives, results)
        values = np.empty(len(results), NUMPY_TYPES[gives])
        values[:] = results
        return EventColumn(gives, values, np.ones(len(results), np.bool_))

    return run


def cast(to: ColumnType) -> Callable[[Columns], EventColumn]:
    """A conversion. A text that is no number, or no boolean, becomes null."""

    def run(columns: Columns) -> EventColumn:
        (one,) = columns
        if one.type == to:
            return one
        return _CASTS[one.type, to](columns)

    return run


def whole(columns: Columns) -> EventColumn:
    """A float cut towards zero; beyond 64 bit it saturates."""
    (one,) = columns
    return made("i64", _whole(one.values), one.is_present)


def _whole(values: NDArray[np.float64]) -> NDArray[np.int64]:
    # 2^63 itself is a float and no i64; the largest float below it is safe.
    is_low, is_high = values <= -(2.0**63), values >= 2.0**63
    inner = np.where(is_low | is_high, 0.0, values).astype(np.int64)
    return np.where(is_high, I64_MAX, np.where(is_low, I64_MIN, inner))


def _as(to: ColumnType) -> Callable[[Columns], EventColumn]:
    def run(columns: Columns) -> EventColumn:
        (one,) = columns
        values = one.values != 0 if to == "bool" else one.values
        return made(to, values, one.is_present)

    return run


def integer_of(text: str) -> int | None:
    """The i64 that a text spells."""
    if not _INTEGER.fullmatch(text):
        return None
    value = int(text)
    return value if I64_MIN <= value <= I64_MAX else None


def float_of(text: str) -> float | None:
    """The f64 that a text spells."""
    value = float(text) if _FLOAT.fullmatch(text) else math.inf
    return value if math.isfinite(value) else None


def quadkey(latitude: float, longitude: float, zoom: int) -> str | None:
    """The square of a map of the world that a place lies in: a digit of 0 to 3 a level."""
    if not 1 <= zoom <= ZOOM_MAX:
        return None
    latitude = min(max(latitude, -_LATITUDE_MAX), _LATITUDE_MAX)
    longitude = min(max(longitude, -180.0), 180.0)
    sine = math.sin(math.radians(latitude))
    across = (longitude + 180.0) / 360.0
    down = 0.5 - math.log((1 + sine) / (1 - sine)) / (4 * math.pi)
    squares = 1 << zoom
    x = min(max(int(across * squares), 0), squares - 1)
    y = min(max(int(down * squares), 0), squares - 1)
    return "".join(
        str((x >> level & 1) + 2 * (y >> level & 1)) for level in range(zoom - 1, -1, -1)
    )


_CASTS: Final[dict[tuple[ColumnType, ColumnType], Callable[[Columns], EventColumn]]] = {
    ("f64", "i64"): whole,
    ("bool", "i64"): _as("i64"),
    ("str", "i64"): text_function("i64", integer_of),
    ("i64", "f64"): _as("f64"),
    ("bool", "f64"): _as("f64"),
    ("str", "f64"): text_function("f64", float_of),
    ("i64", "bool"): _as("bool"),
    ("f64", "bool"): _as("bool"),
    ("str", "bool"): text_function("bool", {"true": True, "false": False}.get),
    ("i64", "str"): text_function("str", str),
    ("f64", "str"): text_function("str", repr),
    ("bool", "str"): text_function("str", {True: "true", False: "false"}.get),
}
