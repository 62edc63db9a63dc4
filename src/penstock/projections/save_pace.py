"""The rests between the parts of a save, so that the fold goes on almost as fast as without it."""

from __future__ import annotations

import threading
from typing import Final

from penstock.clock import Clock

REST_MAX_S: Final = 0.05


class SavePace:
    """Safe from several threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turn = threading.Condition(threading.Lock())
        self._is_hurried = False

    def rest(self, seconds: float) -> None:
        """Wait so long, but no longer than `REST_MAX_S`, and not at all in a hurry."""
        with self._turn:
            if not self._is_hurried and seconds > 0:
                self._clock.wait(self._turn, min(seconds, REST_MAX_S))

    def hurry(self) -> None:
        """End the rest under way, and all later ones: somebody waits for the save."""
        with self._turn:
            self._is_hurried = True
            self._turn.notify_all()
