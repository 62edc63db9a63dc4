"""The types of silver columns, and which type may widen into which. Pure."""

from __future__ import annotations

import difflib
import re
from typing import Final

from penstock.errors import InvalidArgument

_ALIASES: Final = {"bool": "boolean", "integer": "int", "bigint": "long", "text": "string"}
# Spark's names. `json` is any value, kept as text.
_SPARK: Final = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "string": "string",
    "timestamp": "timestamp",
    "date": "date",
    "json": "string",
}
_WIDER: Final = {
    "int": {"long", "double"},
    "long": {"double"},
    "float": {"double"},
    "date": {"timestamp"},
}
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
DIGITS_MAX: Final = 38


def kind_of(text: str) -> str:
    """The canonical name of a type, or InvalidArgument."""
    word = text.strip().lower()
    word = _ALIASES.get(word, word)
    if word in _SPARK:
        return word
    digits = digits_of(word)
    if digits is not None:
        if not 1 <= digits[0] <= DIGITS_MAX or digits[1] > digits[0]:
            raise InvalidArgument(f"invalid type {word}: a decimal has at most {DIGITS_MAX} digits")
        return f"decimal({digits[0]},{digits[1]})"
    known = [*_SPARK, "decimal(10,2)"]
    near = difflib.get_close_matches(word, known, 1, 0.5)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
    raise InvalidArgument(f"unknown type {text!r}: {hint}")


def digits_of(kind: str) -> tuple[int, int] | None:
    """Precision and scale of a decimal; None for another type."""
    found = _DECIMAL.fullmatch(kind)
    return None if found is None else (int(found[1]), int(found[2]))


def spark_type(kind: str) -> str:
    return _SPARK.get(kind, kind)


def widens(old: str, new: str) -> bool:
    """Whether each value of the old type is also a value of the new type."""
    if old == new or new in _WIDER.get(old, ()):
        return True
    before, after = digits_of(old), digits_of(new)
    if before is None or after is None:
        return False
    return after[1] >= before[1] and after[0] - after[1] >= before[0] - before[1]
