"""Limits repeated log messages of one problem: at once, then at growing intervals. Pure."""

from __future__ import annotations

from typing import Final

_FIRST_S: Final = 5.0
_MOST_S: Final = 600.0  # so that the last quarter of an hour of a log has a message


class LogThrottle:
    """The messages of one problem."""

    def __init__(self) -> None:
        self._next_s: float | None = None  # None: the problem does not exist
        self._gap_s = _FIRST_S

    @property
    def has_logged(self) -> bool:
        """True when the problem was logged, so that its end should be logged, too."""
        return self._next_s is not None

    def is_due(self, now_s: float) -> bool:
        """The problem exists. True when it should be logged now."""
        if self._next_s is not None and now_s < self._next_s:
            return False
        self._next_s = now_s + self._gap_s
        self._gap_s = min(_MOST_S, 2 * self._gap_s)
        return True

    def reset(self) -> None:
        """The problem has ended: its next occurrence is logged at once."""
        self._next_s, self._gap_s = None, _FIRST_S
