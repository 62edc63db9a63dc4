"""The attempts of one call: after a failed attempt, the pause before the next one or the error.

It does no I/O and reads the time from the given clock. Both clients use it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.client import error_answers
from penstock.client.attempt_failed import AttemptFailed
from penstock.client.calls import Call
from penstock.client.http import HttpResponse
from penstock.client.retry_policy import KEY_LIFE_S, Failure, RetryPolicy
from penstock.clock import Clock
from penstock.errors import ConnectionFailed, OutcomeUnknown, PenstockError

_RETRY_AFTER_MS = 1000  # in errors, when the server named no time


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
