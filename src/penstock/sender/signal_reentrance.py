"""Detects calls that a signal handler has interrupted: they hold their locks until it returns."""

from __future__ import annotations

import sys
from collections.abc import Collection
from types import CodeType, FrameType


def is_interrupted(owner: object, calls: Collection[CodeType]) -> bool:
    """True when one of these methods of `owner` is on the stack of this thread."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code in calls and frame.f_locals.get("self") is owner:
            return True
        frame = frame.f_back
    return False
