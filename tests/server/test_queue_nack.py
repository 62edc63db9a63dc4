"""POST /v0/topics/:topic/nack: a job goes back, at once or after a while."""

from __future__ import annotations

import pytest

from tests.server.queues import (
    CLOCK_SLACK_MS,
    HOUR_MS,
    ack,
    claim,
    counts,
    deliveries_in,
    each_settling,
    nack,
    queue,
    seqs_in,
    settle,
    wait_for_counts,
)
from tests.server.support import Api, holds, now_ms
from tests.support.serving import eventually

NACK = {"topic", "nacked", "skipped", "ready", "in_flight", "performance"}


def test_a_nack_answers_with_what_it_did(api: Api, topic: str) -> None:
    queue(api, topic, *range(4))
    claim(api, topic, 3)

    answer = nack(api, topic, 1, 9)

    assert set(answer) >= NACK
    expected = {"topic": topic, "nacked": 1, "skipped": [9], "ready": 2, "in_flight": 2}
    assert holds(answer, expected)
    assert api.state(topic)["count"] == 4


@pytest.mark.parametrize("fields", [{}, {"delay_ms": 0}], ids=repr)
def test_a_job_given_back_is_at_once_for_anybody(
    api: Api, topic: str, fields: dict[str, int]
) -> None:
    queue(api, topic, 1)
    claim(api, topic, node="one")

    nack(api, topic, 1, node="one", **fields)

    assert deliveries_in(claim(api, topic, node="two")) == {1: 2}


def test_a_nack_of_nothing_does_nothing(api: Api, topic: str) -> None:
    queue(api, topic, 1)
    claim(api, topic)

    assert holds(nack(api, topic), {"nacked": 0, "skipped": [], "ready": 0, "in_flight": 1})


# Delays.


def test_a_delayed_job_is_neither_ready_nor_in_flight(api: Api, topic: str) -> None:
    queue(api, topic, 1, 2, 3)
    claim(api, topic, 2)

    answer = nack(api, topic, 1, delay_ms=HOUR_MS)

    assert holds(answer, {"nacked": 1, "ready": 1, "in_flight": 1})
    assert counts(api, topic) == (1, 1)
    assert api.state(topic)["count"] == 3
    assert seqs_in(claim(api, topic, 5)) == [3]


def test_a_delayed_job_comes_back_in_its_time(api: Api, topic: str) -> None:
    queue(api, topic, 1)
    claim(api, topic)
    began = now_ms()
    nack(api, topic, 1, delay_ms=300)

    found = eventually(lambda: deliveries_in(claim(api, topic, node="other")), "the job again")

    assert found == {1: 2}
    assert now_ms() - began >= 300 - CLOCK_SLACK_MS


def test_a_delay_that_is_over_counts_as_ready_before_any_claim(api: Api, topic: str) -> None:
    queue(api, topic, 1, 2)
    claim(api, topic, 2)
    nack(api, topic, 1, 2, delay_ms=200)

    wait_for_counts(api, topic, 2, 0)


def test_jobs_come_back_each_after_its_own_delay(api: Api, topic: str) -> None:
    queue(api, topic, 1, 2, 3)
    claim(api, topic, 3)
    nack(api, topic, 1, delay_ms=HOUR_MS)
    nack(api, topic, 2, delay_ms=100)

    wait_for_counts(api, topic, 1, 1)
    assert seqs_in(claim(api, topic, 5)) == [2]


def test_a_job_whose_delay_is_over_comes_before_fresh_ones(api: Api, topic: str) -> None:
    queue(api, topic, *range(4))
    claim(api, topic, 2)
    nack(api, topic, 2, 1, delay_ms=100)
    wait_for_counts(api, topic, 4, 0)

    assert seqs_in(claim(api, topic, 3)) == [1, 2, 3]


@pytest.mark.parametrize("delay", [86_400_000, 86_400_001, (1 << 63) - 1])
def test_a_delay_longer_than_a_day_is_a_day(api: Api, topic: str, delay: int) -> None:
    """Which nobody waits for here: it is taken, and the job is not there."""
    queue(api, topic, 1)
    claim(api, topic)

    assert nack(api, topic, 1, delay_ms=delay)["nacked"] == 1
    assert counts(api, topic) == (0, 0)


@each_settling
def test_a_delayed_job_is_held_by_nobody(api: Api, topic: str, verb: str) -> None:
    queue(api, topic, 1)
    claim(api, topic)
    nack(api, topic, 1, delay_ms=HOUR_MS)

    assert settle(api, topic, verb, 1) == 0
    assert counts(api, topic) == (0, 0)


def test_a_delay_is_for_the_job_and_not_for_the_queue(api: Api, topic: str) -> None:
    queue(api, topic, 1)
    claim(api, topic)
    nack(api, topic, 1, delay_ms=HOUR_MS)

    api.write(topic, 2)

    assert seqs_in(claim(api, topic, 5)) == [2]
    assert ack(api, topic, 2)["acked"] == 1
