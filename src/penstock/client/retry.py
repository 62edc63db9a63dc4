"""Whether a call is repeated, and after what delay: the policy, and the attempts of one call.

A call is repeated only if that is safe: it was not sent, the server refused it before it changed
anything, or the call is idempotent. No I/O here: the policy is pure, with time and chance as
arguments, and the attempts read the time from the given clock. Both clients use them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from penstock.client import error_answers
from penstock.client.attempt_failed import AttemptFailed, Failure
from penstock.client.calls import Call
from penstock.client.http import HttpResponse
from penstock.clock import Clock
from penstock.errors import ConnectionFailed, OutcomeUnknown, PenstockError

# The server keeps an append's key for 120 s unless the topic says otherwise. A later repetition
# would append the records a second time.
KEY_LIFE_S: Final = 100.0
_RETRY_AFTER_MS = 1000  # in errors, when the server named no time


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


class Retry:
    """The attempts of one call. Not for several threads."""

    def __init__(
        self,
        call: Call[Any],
        *,
        source: str,
        policy: RetryPolicy,
        clock: Clock,
        timeout_s: float,
        roll: Callable[[], float],
    ) -> None:
        self.deadline = clock.monotonic() + timeout_s + call.wait_s
        self._call = call
        self._source = source
        self._policy = policy
        self._clock = clock
        self._roll = roll
        self._last_start = self.deadline
        if call.key is not None:
            self._last_start = min(self.deadline, clock.monotonic() + KEY_LIFE_S)
        self._attempts = 0
        self._may_have_happened = False

    def is_answer(self, response: HttpResponse) -> bool:
        """True when the response is the answer to the call, and not an error."""
        return 200 <= response.status < 300 or response.status in self._call.accepts

    def after_error(self, response: HttpResponse) -> float:
        """The server answered with an error. Returns the pause before a next attempt, or raises."""
        failure = error_answers.failure_of(response)
        error = error_answers.error_of(response, self._source)
        if failure is None:
            raise error
        if response.status in (502, 504):
            self._may_have_happened = True
        return self._pause(failure, error_answers.retry_after_s(response), error)

    def after_failure(self, failed: AttemptFailed) -> float:
        """No answer arrived. Returns the pause before a next attempt, or raises."""
        if failed.failure is Failure.LOST:
            self._may_have_happened = True
        what = f"{self._source}: {failed}"
        return self._pause(
            failed.failure, 0.0, ConnectionFailed(what, retry_after_ms=_RETRY_AFTER_MS)
        )

    def _pause(self, failure: Failure, retry_after_s: float, error: PenstockError) -> float:
        self._attempts += 1
        delay = self._policy.delay_s(
            failure,
            attempt=self._attempts,
            is_repeatable=self._call.is_repeatable,
            retry_after_s=retry_after_s,
            left_s=self._last_start - self._clock.monotonic(),
            roll=self._roll(),
        )
        if delay is not None:
            return delay
        if self._call.is_change and self._may_have_happened:
            raise OutcomeUnknown(
                f"{self._call.method} was sent and its outcome is unknown ({error})",
                retry_after_ms=_RETRY_AFTER_MS,
                idempotency_key=self._call.key,
            )
        raise error
