"""The attempts of one call: after each that failed, wait so long and try again, or raise this.

Pure but for the clock it is given; both clients drive it in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.client import faults
from penstock.client.calls import Call
from penstock.client.http import Response
from penstock.client.retry import KEY_LIFE_S, Failure, Policy
from penstock.client.transport import AttemptFailed
from penstock.clock import Clock
from penstock.errors import ConnectionFailed, OutcomeUnknown, PenstockError

_RETRY_AFTER_MS = 1000  # what is told when nobody said anything


class Trial:
    """One call from its first attempt to its end. Not for several threads."""

    def __init__(
        self,
        call: Call[Any],
        *,
        source: str,
        policy: Policy,
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

    def is_answer(self, response: Response) -> bool:
        """Is this what was asked for, and not an error?"""
        return 200 <= response.status < 300 or response.status in self._call.accepts

    def after_error(self, response: Response) -> float:
        """The server answered with an error: the pause before the next attempt, or raises."""
        failure = faults.failure_of(response)
        error = faults.error_of(response, self._source)
        if failure is None:
            raise error
        if response.status in (502, 504):
            self._may_have_happened = True
        return self._pause(failure, faults.retry_after_s(response), error)

    def after_failure(self, failed: AttemptFailed) -> float:
        """No answer came: the pause before the next attempt, or raises."""
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
                f"{self._call.method} was sent and may have happened or not ({error})",
                retry_after_ms=_RETRY_AFTER_MS,
                idempotency_key=self._call.key,
            )
        raise error
