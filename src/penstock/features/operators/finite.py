"""Floats that JSON can carry."""

from __future__ import annotations

import math

INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1


def finite(value: float) -> float | None:
    """The number; None if it is beyond the range of floats, or not a number."""
    return value if math.isfinite(value) else None


def int64(value: int) -> int | None:
    """The number; None if it does not fit 64 bits."""
    return value if INT64_MIN <= value <= INT64_MAX else None
