"""The refused frames that a slot keeps: how many there are, and whether it may keep more."""

from __future__ import annotations

import contextlib

from penstock.sender.slot import Rejection, Slot


class DeadLetters:
    """One thread keeps, any thread asks. In memory nobody could read them, and they would take
    what the cap is to bound: there none are kept."""

    def __init__(self, slot: Slot, *, are_kept: bool, bytes_max: int) -> None:
        self.are_kept = are_kept
        self.count = 0
        self._bytes = 0
        self._bytes_max = bytes_max
        self._slot = slot
        self._recount()

    def has_room(self) -> bool:
        """They may take as much as the frames that wait."""
        if self._bytes >= self._bytes_max:
            self._recount()  # somebody may have removed some
        return self._bytes < self._bytes_max

    def _recount(self) -> None:
        with contextlib.suppress(OSError):
            self.count, self._bytes = self._slot.count_dead_letters()

    def keep(
        self, fsn: int, incarnation: bytes, frame: bytes, rejection: Rejection, *, now_ms: int
    ) -> None:
        """Durable on return, or OSError. May be repeated."""
        if self._slot.bury(fsn, incarnation, frame, rejection, now_ms=now_ms):
            self.count += 1
            self._bytes += len(frame)
