"""Trouble that lasts is told seldom: at once, then less and less often. Pure: time comes in."""

from __future__ import annotations

from typing import Final

_FIRST_S: Final = 5.0
_MOST_S: Final = 600.0  # whoever looks at the last quarter of an hour sees it


class Seldom:
    """One kind of trouble."""

    def __init__(self) -> None:
        self._next_s: float | None = None  # None: it is not there
        self._gap_s = _FIRST_S

    @property
    def was_told(self) -> bool:
        """Has somebody heard of it who should hear of its end?"""
        return self._next_s is not None

    def is_due(self, now_s: float) -> bool:
        """It is there, or still there: is it to be told now?"""
        if self._next_s is not None and now_s < self._next_s:
            return False
        self._next_s = now_s + self._gap_s
        self._gap_s = min(_MOST_S, 2 * self._gap_s)
        return True

    def is_over(self) -> None:
        """The next time it is told at once."""
        self._next_s, self._gap_s = None, _FIRST_S
