"""The dead letters of a slot: refused frames that are kept for an operator, and their limit.

When they have reached the limit, the sender halts at the next refused frame, which stays in the
spool: a frame is not dropped unless it is kept here.
"""

from __future__ import annotations

import contextlib
from typing import Final

from penstock.sender.error_policy import ErrorPolicy
from penstock.sender.slot import Rejection, Slot

_FULL: Final = (
    "; the dead letters of the slot have reached sf_max_total_bytes: send them again "
    "with `penstock spool redrive`, or remove the dead-letter folder"
)
_NOT_KEPT: Final = "; a spool in memory keeps no dead letters: this frame is LOST"


class DeadLetters:
    """One thread calls `keep`, any thread the rest. A spool in memory keeps no dead letters: nobody
    could read them, and they would use memory beyond the cap."""

    def __init__(self, slot: Slot, *, are_kept: bool, bytes_max: int) -> None:
        self.are_kept = are_kept
        self.count = 0
        self._bytes = 0
        self._bytes_max = bytes_max
        self._slot = slot
        self._recount()

    def has_room(self) -> bool:
        """True below the limit, which is the cap of the spool."""
        if self._bytes >= self._bytes_max:
            self._recount()  # an operator may have removed some
        return self._bytes < self._bytes_max

    def admit(self, text: str) -> tuple[ErrorPolicy, str]:
        """Whether a refused frame may be dropped, and the text of its error. HALT: there is no
        room. LOSE: it is dropped and not kept."""
        if not self.has_room():
            return ErrorPolicy.HALT, text + _FULL
        if not self.are_kept:
            return ErrorPolicy.LOSE, text + _NOT_KEPT
        return ErrorPolicy.DROP, text

    def _recount(self) -> None:
        with contextlib.suppress(OSError):
            self.count, self._bytes = self._slot.count_dead_letters()

    def keep(
        self, fsn: int, incarnation: bytes, frame: bytes, rejection: Rejection, *, now_ms: int
    ) -> None:
        """Durable on return. Raises OSError. May be called again."""
        if self._slot.write_dead_letter(fsn, incarnation, frame, rejection, now_ms=now_ms):
            self.count += 1
            self._bytes += len(frame)
