"""Durations as people write them ("30m"), and as milliseconds."""

from __future__ import annotations

import re
from typing import Final

from penstock.errors import InvalidArgument
from penstock.features.names import shown

DURATION_MS: Final = (1, 3650 * 86_400_000)  # 1 ms to 10 years of 365 days

_DURATION = re.compile(r"(\d{1,18})(ms|s|m|h|d)", re.ASCII)
_UNITS_MS: Final = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}


def duration_ms(value: object, what: str = "duration") -> int:
    """The milliseconds of a text such as "30m", or of a number of them."""
    length_ms = _milliseconds(value)
    if length_ms is None:
        raise InvalidArgument(
            f"invalid {what} {shown(value)}: expected a number and a unit "
            'of ms, s, m, h or d, such as "30m"'
        )
    least, most = DURATION_MS
    if not least <= length_ms <= most:
        raise InvalidArgument(
            f"invalid {what} {shown(value)}: expected {duration_text(least)} to "
            f"{duration_text(most)}"
        )
    return length_ms


def duration_text(length_ms: int) -> str:
    """The shortest text: in the largest unit that divides it."""
    for unit, unit_ms in _UNITS_MS.items():
        if length_ms % unit_ms == 0 and length_ms:
            return f"{length_ms // unit_ms}{unit}"
    return f"{length_ms}ms"


def _milliseconds(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    return int(match[1]) * _UNITS_MS[match[2]] if match else None
