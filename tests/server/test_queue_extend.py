"""POST /v0/topics/:topic/extend: more time for a job that is under way, or less."""

from __future__ import annotations

import pytest

from tests.server.queues import (
    HOUR_MS,
    ack,
    check_deadline,
    claim,
    counts,
    deliveries_in,
    extend,
    extended_in_time,
    leases_in,
    nack,
    queue,
    seqs_in,
    wait_for_counts,
)
from tests.server.support import Api, holds, now_ms

EXTEND = {"topic", "extended", "skipped", "deadlines", "performance"}


def test_an_extension_answers_with_the_new_deadlines(api: Api, topic: str) -> None:
    queue(api, topic, *range(3))
    claim(api, topic, 2)
    began = now_ms()

    answer = extend(api, topic, 2, 9, 1, lease_ms=60_000)

    assert set(answer) >= EXTEND
    assert holds(answer, {"topic": topic, "extended": 2, "skipped": [9]})
    assert set(answer["deadlines"]) == {"1", "2"}
    for deadline in answer["deadlines"].values():
        check_deadline(deadline, 60_000, began)


@pytest.mark.parametrize(
    ("asked", "given"), [(0, 100), (99, 100), (100, 100), (90_000_000, 86_400_000)]
)
def test_an_extension_is_held_to_the_bounds_of_a_lease(
    api: Api, topic: str, asked: int, given: int
) -> None:
    queue(api, topic, 1)
    claim(api, topic)
    began = now_ms()

    check_deadline(extend(api, topic, 1, lease_ms=asked)["deadlines"]["1"], given, began)


def test_an_extended_job_is_kept_past_its_first_deadline(api: Api, topic: str) -> None:
    name = extended_in_time(api, topic)

    wait_for_counts(api, name, 1, 1)

    assert seqs_in(claim(api, name, 5, node="other")) == [2]
    assert ack(api, name, 1)["acked"] == 1


def test_an_extension_can_be_extended(api: Api, topic: str) -> None:
    queue(api, topic, 1)
    [job] = claim(api, topic, lease_ms=HOUR_MS)["claimed"]

    first = extend(api, topic, 1, lease_ms=2 * HOUR_MS)["deadlines"]["1"]
    second = extend(api, topic, 1, lease_ms=3 * HOUR_MS)["deadlines"]["1"]

    assert job["deadline"] < first < second


def test_an_extension_counts_from_now_and_so_can_shorten(api: Api, topic: str) -> None:
    queue(api, topic, 1)
    [job] = claim(api, topic, lease_ms=HOUR_MS)["claimed"]

    assert extend(api, topic, 1, lease_ms=100)["deadlines"]["1"] < job["deadline"]

    wait_for_counts(api, topic, 1, 0)
    assert deliveries_in(claim(api, topic, node="other")) == {1: 2}


def test_an_extension_is_no_delivery_and_keeps_the_lease_id(api: Api, topic: str) -> None:
    queue(api, topic, 1)
    [token] = leases_in(claim(api, topic))

    for _ in range(3):
        assert extend(api, topic, 1, lease_ms=60_000, lease_ids=[token])["extended"] == 1

    assert nack(api, topic, 1, lease_ids=[token])["nacked"] == 1
    assert deliveries_in(claim(api, topic)) == {1: 2}


def test_an_extension_of_nothing_has_no_deadlines(api: Api, topic: str) -> None:
    queue(api, topic, 1)

    for seqs in ([], [1]):
        answer = extend(api, topic, *seqs, lease_ms=1000)
        assert (answer["extended"], answer["skipped"], answer["deadlines"]) == (0, seqs, {})
    assert counts(api, topic) == (1, 0)


def test_a_skipped_extension_changes_no_deadline(api: Api, topic: str) -> None:
    queue(api, topic, 1)
    claim(api, topic, lease_ms=1000)

    extend(api, topic, 1, lease_ms=HOUR_MS, node="other")
    extend(api, topic, 1, lease_ms=HOUR_MS, lease_ids=["lease_99"])

    wait_for_counts(api, topic, 1, 0)
