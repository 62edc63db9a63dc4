"""When a call is made again: the laws."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.client.retry_policy import KEY_LIFE_S, Failure, RetryPolicy
from penstock.types import TopicConfig

FAILURES = st.sampled_from(Failure)
ROLLS = st.floats(0, 1, exclude_max=True)
SECONDS = st.floats(0, 1e6)
ATTEMPTS = st.integers(1, 10_000)
POLICIES = st.builds(
    RetryPolicy, attempts_max=st.integers(1, 20), base_s=st.floats(0, 10), cap_s=st.floats(0, 100)
)


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
