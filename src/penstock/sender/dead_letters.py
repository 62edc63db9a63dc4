"""The dead letters of a slot: their number, their bytes and their limit."""

from __future__ import annotations

import contextlib

from penstock.sender.slot import Rejection, Slot


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
