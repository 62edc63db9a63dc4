"""When a call is made again, and after how long. Pure: time and chance come as arguments.

A call is repeated only where that is safe: it never left, the server refused it before doing
anything, or doing it twice is the same as doing it once.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

# An append's key is remembered for 120 s unless its topic says otherwise; a repetition that comes
# later would be a second append.
KEY_LIFE_S: Final = 100.0


class Failure(enum.Enum):
    """How an attempt ended that brought no answer to the question."""

    NOT_SENT = "not sent"  # no connection: the server knows nothing of it
    REFUSED = "refused"  # the server said: later
    LOST = "lost"  # sent, at least in part; what became of it is unknown
    UNTRUSTED = "untrusted"  # the server's certificate is not accepted, and will not be in a second


@dataclass(frozen=True, slots=True)
class Policy:
    """At most `attempts_max` attempts, with exponential waits and full jitter between them."""

    attempts_max: int = 8
    base_s: float = 0.05
    cap_s: float = 2.0

    def delay_s(
        self,
        failure: Failure,
        *,
        attempt: int,
        is_repeatable: bool,
        retry_after_s: float = 0.0,
        left_s: float,
        roll: float,
    ) -> float | None:
        """How long to wait before the next attempt, or None: give up.

        `attempt` counts those made, `roll` is a random number from 0 up to 1, `left_s` what
        remains until the deadline.
        """
        if failure is Failure.LOST and not is_repeatable:
            return None
        if failure is Failure.UNTRUSTED or attempt >= self.attempts_max:
            return None
        delay = retry_after_s + self.backoff_s(attempt, roll)
        return delay if delay < left_s else None

    def backoff_s(self, attempt: int, roll: float) -> float:
        """Somewhere between nothing and the ceiling of this attempt."""
        doubled: float = self.base_s * 2 ** min(attempt - 1, 30)
        return roll * min(self.cap_s, doubled)
