"""One round of a pipeline after another, until somebody says stop. What will pass is waited for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from penstock.errors import TopicNotFound
from penstock.lake import faults

PAUSE_S: Final = 1.0
PAUSE_MAX_S: Final = 60.0


class Stop(Protocol):
    """Whoever says stop."""

    def wait(self, timeout: float) -> bool:
        """Wait for the word, so long at most; whether it has come."""


def follow(
    work: Callable[[], None],
    stop: Stop,
    *,
    interval_s: float,
    place: str,
    note: Callable[[str], None],
) -> None:
    """Do the work until it is told to stop. An error that passes is noted, and the pause after it
    doubles each time; any other one ends it."""
    failures = 0
    pause_s = interval_s
    while True:
        try:
            work()
        except Exception as error:
            fault = faults.of(error, place)
            # A topic that is missing once Spark reads was dropped since the round began.
            was_dropped = fault is not error and isinstance(fault, TopicNotFound)
            if not was_dropped and not faults.is_passing(fault):
                if fault is error:
                    raise
                raise fault from None
            pause_s = min(PAUSE_MAX_S, PAUSE_S * 2**failures)
            failures = min(failures + 1, 16)
            note(f"{fault}; the next round is in {pause_s:g} s")
        else:
            failures, pause_s = 0, interval_s
        if stop.wait(pause_s):
            return
