"""When a call is made again: the laws of the policy, and the attempts of one call with a clock that
stands still."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.append_options import AppendOptions
from penstock.client import calls
from penstock.client.attempt_failed import AttemptFailed, Failure
from penstock.client.calls import Call
from penstock.client.http import HttpResponse
from penstock.client.retry import KEY_LIFE_S, Retry, RetryPolicy
from penstock.errors import ConnectionFailed, InvalidArgument, OutcomeUnknown, Overloaded
from penstock.testing import FakeClock
from penstock.types import TopicConfig

FAILURES = st.sampled_from(Failure)
ROLLS = st.floats(0, 1, exclude_max=True)
SECONDS = st.floats(0, 1e6)
ATTEMPTS = st.integers(1, 10_000)
POLICIES = st.builds(
    RetryPolicy, attempts_max=st.integers(1, 20), base_s=st.floats(0, 10), cap_s=st.floats(0, 100)
)

LOST = AttemptFailed(Failure.LOST, "reset")
NOT_SENT = AttemptFailed(Failure.NOT_SENT, "refused")
BUSY = HttpResponse(503, {"retry-after": "2"}, b'{"error":{"code":"not_ready","message":"busy"}}')
GONE = HttpResponse(502, {}, b"")


@given(POLICIES, ATTEMPTS, SECONDS, SECONDS, ROLLS)
def test_what_may_have_arrived_and_is_not_repeatable_is_never_sent_again(
    policy: RetryPolicy, attempt: int, after: float, left: float, roll: float
) -> None:
    delay = policy.delay_s(
        Failure.LOST,
        attempt=attempt,
        is_repeatable=False,
        retry_after_s=after,
        left_s=left,
        roll=roll,
    )

    assert delay is None


@given(POLICIES, FAILURES, st.booleans(), ATTEMPTS, SECONDS, SECONDS, ROLLS)
def test_a_pause_ends_before_the_deadline_and_not_before_the_server_said(
    policy: RetryPolicy,
    failure: Failure,
    repeatable: bool,
    attempt: int,
    after: float,
    left: float,
    roll: float,
) -> None:
    delay = policy.delay_s(
        failure,
        attempt=attempt,
        is_repeatable=repeatable,
        retry_after_s=after,
        left_s=left,
        roll=roll,
    )

    if delay is not None:
        assert after <= delay < left
        assert delay <= after + policy.cap_s
        assert attempt < policy.attempts_max


@given(FAILURES, st.booleans(), ROLLS)
def test_what_is_safe_is_repeated_while_there_is_time(
    failure: Failure, repeatable: bool, roll: float
) -> None:
    delay = RetryPolicy().delay_s(
        failure, attempt=1, is_repeatable=repeatable, left_s=30.0, roll=roll
    )

    if failure is Failure.UNTRUSTED:
        assert delay is None
    else:
        assert (delay is not None) == (repeatable or failure is not Failure.LOST)


@given(POLICIES, ATTEMPTS, ROLLS)
def test_waits_grow_up_to_their_cap_and_the_jitter_is_full(
    policy: RetryPolicy, attempt: int, roll: float
) -> None:
    ceiling = policy.backoff_s(attempt, 1.0)

    assert policy.backoff_s(attempt, 0.0) == 0.0
    assert 0.0 <= policy.backoff_s(attempt, roll) <= ceiling <= policy.cap_s
    assert policy.backoff_s(attempt + 1, 1.0) >= ceiling


def test_a_key_is_not_used_any_more_before_the_server_forgets_it() -> None:
    assert TopicConfig().idempotency_window_ms > KEY_LIFE_S * 1000


def appending(key: str | None = "k") -> Call[Any]:
    return calls.append(
        "t", [1], tag=None, node=None, options=AppendOptions(idempotency_key=key), headers={}
    )


def retry_of(call: Call[Any], clock: FakeClock | None = None, **policy: Any) -> Retry:
    return Retry(
        call,
        source="http://a",
        policy=RetryPolicy(**policy),
        clock=clock or FakeClock(),
        timeout_s=30.0,
        roll=lambda: 0.5,
    )


def test_a_keyed_append_is_repeated_and_in_the_end_its_outcome_is_unknown() -> None:
    attempts = retry_of(appending(), attempts_max=3)

    assert attempts.after_failure(LOST) > 0
    assert attempts.after_failure(NOT_SENT) > 0
    with pytest.raises(OutcomeUnknown, match="its outcome is unknown") as caught:
        attempts.after_failure(NOT_SENT)

    assert caught.value.idempotency_key == "k"


@pytest.mark.parametrize("call", [appending(key=None), calls.drop("t"), calls.delete("t", 3, "x")])
def test_what_is_not_repeatable_is_not_repeated_once_it_may_have_arrived(call: Call[Any]) -> None:
    attempts = retry_of(call)

    assert attempts.after_failure(NOT_SENT) > 0
    with pytest.raises(OutcomeUnknown) as caught:
        attempts.after_failure(LOST)

    assert caught.value.idempotency_key is None


def test_what_never_left_did_not_happen() -> None:
    with pytest.raises(ConnectionFailed, match="http://a: refused"):
        retry_of(appending(), attempts_max=1).after_failure(NOT_SENT)


def test_a_question_has_no_outcome_that_could_be_unknown() -> None:
    with pytest.raises(ConnectionFailed):
        retry_of(calls.topic("t"), attempts_max=1).after_failure(LOST)


def test_a_refusal_waits_as_long_as_the_server_says_and_is_told_in_the_end() -> None:
    attempts = retry_of(appending(), attempts_max=2)

    assert attempts.after_error(BUSY) >= 2.0
    with pytest.raises(Overloaded) as caught:
        attempts.after_error(BUSY)

    assert type(caught.value) is Overloaded
    assert caught.value.retry_after_ms == 2000


@pytest.mark.parametrize("gone", [LOST, GONE])
def test_a_refusal_after_a_lost_attempt_leaves_the_outcome_unknown(gone: Any) -> None:
    attempts = retry_of(appending(), attempts_max=2)

    if gone is LOST:
        attempts.after_failure(LOST)
    else:
        attempts.after_error(GONE)

    with pytest.raises(OutcomeUnknown):
        attempts.after_error(BUSY)


def test_an_error_that_is_final_is_raised_at_once() -> None:
    with pytest.raises(InvalidArgument):
        retry_of(appending()).after_error(HttpResponse(400, {}, b""))


def test_nothing_is_tried_again_past_the_deadline() -> None:
    clock = FakeClock()
    attempts = retry_of(calls.topic("t"), clock)

    clock.advance(29_990)

    with pytest.raises(Overloaded):
        attempts.after_error(BUSY)


def test_an_append_is_not_repeated_when_its_key_may_be_forgotten() -> None:
    clock = FakeClock()
    attempts = Retry(
        appending(),
        source="http://a",
        policy=RetryPolicy(attempts_max=1000),
        clock=clock,
        timeout_s=10_000.0,
        roll=lambda: 0.5,
    )

    clock.advance(int(KEY_LIFE_S * 1000) - 1000)
    assert attempts.after_failure(LOST) > 0
    clock.advance(1000)

    with pytest.raises(OutcomeUnknown):
        attempts.after_failure(LOST)


def test_the_time_the_server_waits_on_purpose_is_on_top_of_the_deadline() -> None:
    clock = FakeClock()

    plain = retry_of(calls.read("t", calls.ReadRequest()), clock)
    waiting = retry_of(calls.read("t", calls.ReadRequest(wait_s=20)), clock)

    assert waiting.deadline - plain.deadline == pytest.approx(20)


def test_an_answer_is_any_success_and_what_the_call_accepts() -> None:
    plain, accepting = retry_of(calls.topic("t")), retry_of(calls.ready())

    assert all(plain.is_answer(HttpResponse(status, {}, b"")) for status in (200, 201, 204))
    assert not any(
        plain.is_answer(HttpResponse(status, {}, b"")) for status in (199, 301, 404, 503)
    )
    assert accepting.is_answer(HttpResponse(503, {}, b""))
