"""Whether a call is repeated, and after what delay. Pure: time and chance are arguments.

A call is repeated only if that is safe: it was not sent, the server refused it before it changed
anything, or the call is idempotent.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

# The server keeps an append's key for 120 s unless the topic says otherwise. A later repetition
# would append the records a second time.
KEY_LIFE_S: Final = 100.0


class Failure(enum.Enum):
    """The ways in which an attempt fails."""

    NOT_SENT = "not sent"  # no connection: the server has not seen the request
    REFUSED = "refused"  # the server refused it before it changed anything
    LOST = "lost"  # sent, at least in part; the outcome is unknown
    UNTRUSTED = "untrusted"  # the server's certificate is not accepted; a retry would not help


@dataclass(frozen=True, slots=True)
class RetryPolicy:
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
        """The delay before the next attempt; None when there should be no other attempt.

        `attempt` is the number of attempts made, `roll` a random number from 0 up to 1, `left_s`
        the time until the deadline.
        """
        if failure is Failure.LOST and not is_repeatable:
            return None
        if failure is Failure.UNTRUSTED or attempt >= self.attempts_max:
            return None
        delay = retry_after_s + self.backoff_s(attempt, roll)
        return delay if delay < left_s else None

    def backoff_s(self, attempt: int, roll: float) -> float:
        """Exponential backoff with full jitter."""
        doubled: float = self.base_s * 2 ** min(attempt - 1, 30)
        return roll * min(self.cap_s, doubled)
