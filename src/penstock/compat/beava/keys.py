"""Keys of rows as beava's clients write them, as values of the key's columns. Pure.

A key of one column is the text itself; of several, their texts with `|` between them. An array has
one value for each column and so no separator to mistake, and a column that is an integer or a
boolean takes one of these too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

_SEPARATOR: Final = "|"
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_BOOLEANS: Final = {"true": True, "false": False}


class BadKey(Exception):
    """A key that does not fit the columns of its table."""


def key_of(given: Any, columns: Sequence[str], types: Sequence[str]) -> list[Any]:
    """The value of each column."""
    if isinstance(given, list):
        values = given
    elif not columns and given in ("", None):
        values = []
    elif len(columns) > 1 and isinstance(given, str):
        values = given.split(_SEPARATOR)
    else:
        values = [given]
    if len(values) != len(columns):
        expected = _SEPARATOR.join(columns) if columns else "an empty text"
        raise BadKey(f"key has {len(values)} values: expected {len(columns)} ({expected})")
    return [_value(*one) for one in zip(columns, types, values, strict=True)]


def _value(column: str, kind: str, given: Any) -> Any:
    if kind == "i64":
        if isinstance(given, str) and _INTEGER.fullmatch(given):
            given = int(given)
        if type(given) is int and -(1 << 63) <= given < 1 << 63:
            return given
    elif kind == "bool":
        found = _BOOLEANS.get(given) if isinstance(given, str) else given
        if isinstance(found, bool):
            return found
    elif isinstance(given, str):
        return given
    shown = repr(given)[:80]
    raise BadKey(f"key column {column!r} is {shown}: expected {kind}")
