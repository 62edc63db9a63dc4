"""POST /v0/topics/:topic/ack: done jobs are gone, and only their holder says so."""

from __future__ import annotations

import pytest

from tests.server.queues import (
    BODIES,
    ack,
    call,
    claim,
    counts,
    each_settling,
    leases_in,
    nack,
    queue,
    seqs_in,
    settle,
    wait_for_counts,
)
from tests.server.support import Api, holds, seqs_of
from tests.support.serving import eventually

ACK = {"topic", "acked", "skipped", "ready", "in_flight", "performance"}


def test_an_ack_answers_with_what_it_did(api: Api, topic: str) -> None:
    queue(api, topic, *range(4))
    claim(api, topic, 3)

    answer = ack(api, topic, 1, 3)

    assert set(answer) >= ACK
    expected = {"topic": topic, "acked": 2, "skipped": [], "ready": 1, "in_flight": 1}
    assert holds(answer, expected)


def test_an_acked_job_is_gone_in_silence(api: Api, topic: str) -> None:
    queue(api, topic, "a", "b", "c")
    claim(api, topic, 2)

    ack(api, topic, 2)

    assert api.state(topic)["count"] == 2
    answer = api.diff(topic)
    assert seqs_of(answer) == [1, 3]
    assert answer["tombstone"] is None
    assert api.state(topic)["head_seq"] == 3


def test_a_queue_goes_on_after_its_last_job(api: Api, topic: str) -> None:
    queue(api, topic, 1)
    claim(api, topic)
    ack(api, topic, 1)

    state = api.state(topic)
    assert (state["count"], state["bytes"], state["earliest_seq"]) == (0, 0, 2)
    assert api.write(topic, 2)["seqs"] == [2]
    assert seqs_in(claim(api, topic)) == [2]


def test_an_ack_of_nothing_does_nothing(api: Api, topic: str) -> None:
    queue(api, topic, 1)
    claim(api, topic)

    expected = {"acked": 0, "skipped": [], "ready": 0, "in_flight": 1}
    assert holds(ack(api, topic), expected)
    assert holds(ack(api, topic, lease_ids=[]), expected)


@pytest.mark.parametrize(("durability", "syncs"), [("disk", False), ("fsync", True)])
def test_an_ack_tells_the_cost_of_a_sync_when_there_was_one(
    api: Api, topic: str, durability: str, syncs: bool
) -> None:
    queue(api, topic, 1, durability=durability)
    claim(api, topic)

    cost = ack(api, topic, 1)["performance"]

    assert ("fsync_ms" in cost) == syncs
    assert cost.get("fsync_ms", 1) > 0


# What is skipped, in the same way for nack and extend.


@each_settling
def test_what_is_not_leased_to_the_worker_is_skipped_in_order(
    api: Api, topic: str, verb: str
) -> None:
    queue(api, topic, *range(5))
    claim(api, topic, 1, node="other")
    claim(api, topic, 2)

    most = (1 << 64) - 1
    answer = call(api, topic, verb, **(BODIES[verb] | {"seqs": [99, 2, 5, 1, 3, 0, most]}))

    assert answer["skipped"] == [99, 5, 1, 0, most]
    assert api.state(topic)["count"] == (3 if verb == "ack" else 5)


@each_settling
def test_the_lease_of_another_worker_stays(api: Api, topic: str, verb: str) -> None:
    queue(api, topic, 1)
    [token] = leases_in(claim(api, topic, node="holder"))

    assert settle(api, topic, verb, 1, node="thief") == 0
    assert settle(api, topic, verb, 1, node="thief", lease_ids=[token]) == 0

    assert counts(api, topic) == (0, 1)
    assert ack(api, topic, 1, node="holder")["acked"] == 1


def test_a_job_is_acked_once(api: Api, topic: str) -> None:
    queue(api, topic, 1, 2)
    claim(api, topic, 2)

    assert holds(ack(api, topic, 1, 1), {"acked": 1, "skipped": [1]})
    assert holds(ack(api, topic, 2, 1), {"acked": 1, "skipped": [1]})
    assert holds(ack(api, topic, 1, 2), {"acked": 0, "skipped": [1, 2]})


@each_settling
def test_a_job_given_back_is_no_longer_held(api: Api, topic: str, verb: str) -> None:
    queue(api, topic, 1)
    claim(api, topic)
    nack(api, topic, 1)

    assert settle(api, topic, verb, 1) == 0
    assert counts(api, topic) == (1, 0)


# Leases that ran out.


@each_settling
def test_after_its_time_a_worker_is_too_late(api: Api, topic: str, verb: str) -> None:
    queue(api, topic, 1)
    [token] = leases_in(claim(api, topic, lease_ms=100))
    wait_for_counts(api, topic, 1, 0)

    assert settle(api, topic, verb, 1) == 0
    assert settle(api, topic, verb, 1, lease_ids=[token]) == 0

    assert counts(api, topic) == (1, 0)
    assert seqs_in(claim(api, topic, node="other")) == [1]


def test_a_late_ack_is_skipped_also_when_nobody_looked_before(api: Api, topic: str) -> None:
    """The ack itself finds that the time is over: it does not win by being the first call."""
    queue(api, topic, 1, 2)
    claim(api, topic, 2, lease_ms=100)
    other = f"{topic}.clock"
    queue(api, other, 1)
    claim(api, other, lease_ms=100)
    wait_for_counts(api, other, 1, 0)

    assert holds(ack(api, topic, 1, 2), {"acked": 0, "skipped": [1, 2], "ready": 2})


# Fences.


@each_settling
def test_the_right_lease_id_lets_through(api: Api, topic: str, verb: str) -> None:
    queue(api, topic, 1, 2)
    one, two = leases_in(claim(api, topic, 2))

    assert settle(api, topic, verb, 2, 1, lease_ids=[two, one]) == 2


@each_settling
def test_another_lease_id_skips(api: Api, topic: str, verb: str) -> None:
    queue(api, topic, 1, 2)
    one, two = leases_in(claim(api, topic, 2))

    assert settle(api, topic, verb, 1, 2, lease_ids=[two, one]) == 0
    assert settle(api, topic, verb, 1, 2, lease_ids=["lease_ff", two]) == 1
    assert api.state(topic)["count"] == (1 if verb == "ack" else 2)


@each_settling
def test_an_empty_lease_id_is_no_fence_for_its_job(api: Api, topic: str, verb: str) -> None:
    queue(api, topic, 1, 2, 3)
    _, two, _ = leases_in(claim(api, topic, 3))

    assert settle(api, topic, verb, 1, 2, 3, lease_ids=["", two, "lease_fff"]) == 2


@each_settling
def test_an_old_lease_of_the_same_worker_is_fenced_off(api: Api, topic: str, verb: str) -> None:
    """The worker hung, its lease ran out, and it has the job again in another thread."""
    queue(api, topic, 1)
    [old] = leases_in(claim(api, topic, lease_ms=100))
    [new] = leases_in(eventually(lambda: _some(claim(api, topic)), "the job again"))

    assert settle(api, topic, verb, 1, lease_ids=[old]) == 0
    assert counts(api, topic) == (0, 1)
    assert settle(api, topic, verb, 1, lease_ids=[new]) == 1


def _some(answer: dict[str, object]) -> dict[str, object] | None:
    return answer if answer["count"] else None


def test_without_a_fence_the_worker_alone_counts(api: Api, topic: str) -> None:
    queue(api, topic, 1)
    claim(api, topic, lease_ms=100)
    eventually(lambda: _some(claim(api, topic)), "the job again")

    assert ack(api, topic, 1)["acked"] == 1
