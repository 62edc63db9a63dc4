"""Sizes of memory as people write them ("256MiB"), and as bytes."""

from __future__ import annotations

import re
from typing import Final

from penstock.errors import InvalidArgument
from penstock.features.names import shown
from penstock.limits import TABLE_MEMORY_MAX, TABLE_MEMORY_MIN

_SIZE = re.compile(r"(\d{1,18})([KMGT])i?B", re.ASCII)
_UNITS: Final = {"T": 1 << 40, "G": 1 << 30, "M": 1 << 20, "K": 1 << 10}


def size_bytes(value: object, what: str = "size") -> int:
    """The bytes of a text such as "256MiB", or of a number of them. "MB" means the same."""
    size = _bytes(value)
    if size is None:
        raise InvalidArgument(
            f"invalid {what} {shown(value)}: expected a number and a unit "
            'of KiB, MiB, GiB or TiB, such as "256MiB"'
        )
    if not TABLE_MEMORY_MIN <= size <= TABLE_MEMORY_MAX:
        raise InvalidArgument(
            f"invalid {what} {shown(value)}: expected {size_text(TABLE_MEMORY_MIN)} to "
            f"{size_text(TABLE_MEMORY_MAX)}"
        )
    return size


def size_text(size: int) -> str | int:
    """The shortest text: in the largest unit that divides it. A number if none does."""
    for unit, unit_bytes in _UNITS.items():
        if size % unit_bytes == 0 and size:
            return f"{size // unit_bytes}{unit}iB"
    return size


def _bytes(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    return int(match[1]) * _UNITS[match[2]] if match else None
