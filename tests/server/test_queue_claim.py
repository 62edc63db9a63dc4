"""POST /v0/topics/:topic/claim: which jobs a worker gets, in which order, for how long."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.queues import (
    CLOCK_SLACK_MS,
    HOUR_MS,
    ack,
    call,
    check_deadline,
    claim,
    counts,
    deliveries_in,
    leases_in,
    nack,
    queue,
    seqs_in,
)
from tests.server.support import Api, holds, new_name, now_ms
from tests.support.serving import eventually

ENTRY = {"$seq", "lease_id", "deadline", "$ts", "deliveries", "data"}


def test_a_claim_answers_with_the_job_and_its_lease(api: Api, topic: str) -> None:
    api.create(topic, type="queue")
    written = api.write(topic, {"p": 1})
    began = now_ms()

    answer = claim(api, topic)

    assert set(answer) >= {"topic", "claimed", "count", "ready", "performance"}
    assert holds(answer, {"topic": topic, "count": 1, "ready": 0})
    [job] = answer["claimed"]
    assert set(job) >= ENTRY
    assert holds(
        job,
        {
            "$seq": 1,
            "lease_id": "lease_1",
            "$ts": written["ts"],
            "deliveries": 1,
            "data": {"p": 1},
        },
    )
    check_deadline(job["deadline"], 30_000, began)


def test_tag_and_meta_come_with_the_job_and_its_node_does_not(api: Api, topic: str) -> None:
    queue(api, topic)
    full = {"data": 1, "tag": "t", "node": "maker", "meta": {"k": [1]}}
    api.write(topic, records=[full, {"data": None}])

    rich, bare = claim(api, topic, 2)["claimed"]

    assert (rich["$tag"], rich["meta"]) == ("t", {"k": [1]})
    assert "$node" not in rich
    assert bare["data"] is None
    assert not {"$tag", "$node", "meta"} & set(bare)


def test_a_worker_gets_also_jobs_that_it_wrote_itself(api: Api, topic: str) -> None:
    queue(api, topic)
    api.write(topic, 1, 2, node="w")

    assert seqs_in(claim(api, topic, 2, node="w")) == [1, 2]


def test_a_job_that_is_leased_is_given_to_nobody_else(api: Api, topic: str) -> None:
    queue(api, topic, "a", "b")

    found = [seqs_in(claim(api, topic, node=node)) for node in ("one", "two", "one", "three")]

    assert found == [[1], [2], [], []]


# How many.


def test_a_claim_is_for_one_job_unless_it_says_more(api: Api, topic: str) -> None:
    queue(api, topic, *range(5))

    assert seqs_in(call(api, topic, "claim", node="w")) == [1]
    assert seqs_in(claim(api, topic, 0)) == [2]
    assert seqs_in(claim(api, topic, 2)) == [3, 4]


def test_a_claim_says_how_many_are_left(api: Api, topic: str) -> None:
    queue(api, topic, *range(5))

    assert [claim(api, topic, 2)["ready"] for _ in range(3)] == [3, 1, 0]


def test_fewer_jobs_than_asked_for_and_none_at_all_are_no_error(api: Api, topic: str) -> None:
    queue(api, topic)

    assert holds(claim(api, topic, 5), {"claimed": [], "count": 0, "ready": 0})
    api.write(topic, 1, 2)
    assert seqs_in(claim(api, topic, 5)) == [1, 2]
    assert holds(claim(api, topic, 5), {"claimed": [], "count": 0, "ready": 0})


@pytest.mark.parametrize("most", [1000, 1001, 4_000_000_000])
def test_a_claim_gets_at_most_a_thousand_jobs(api: Api, topic: str, most: int) -> None:
    queue(api, topic, *range(1100))

    answer = claim(api, topic, most)

    assert seqs_in(answer) == list(range(1, 1001))
    assert answer["ready"] == 100


# In which order.


def test_jobs_come_in_the_order_they_were_written(api: Api, topic: str) -> None:
    queue(api, topic, "a")
    api.write(topic, "b", "c")

    answer = claim(api, topic, 10)

    assert [job["data"] for job in answer["claimed"]] == ["a", "b", "c"]
    assert seqs_in(answer) == [1, 2, 3]


def test_returned_jobs_come_before_fresh_ones_and_both_ascend(api: Api, topic: str) -> None:
    queue(api, topic, *range(7))
    claim(api, topic, 5)
    nack(api, topic, 4)
    nack(api, topic, 2)

    assert seqs_in(claim(api, topic, 1)) == [2]
    assert seqs_in(claim(api, topic, 10)) == [4, 6, 7]


def test_deleted_jobs_are_passed_over(api: Api, topic: str) -> None:
    queue(api, topic)
    api.tagged(topic, *"abcab")
    api.remove(topic, match="a")

    assert seqs_in(claim(api, topic, 2)) == [2, 3]
    assert seqs_in(claim(api, topic, 2)) == [5]


# For how long.


def test_a_lease_runs_as_long_as_the_queue_says(api: Api, topic: str) -> None:
    queue(api, topic, 1, lease_ms=5000)
    began = now_ms()

    check_deadline(claim(api, topic)["claimed"][0]["deadline"], 5000, began)


@pytest.mark.parametrize(
    ("asked", "given"),
    [(0, 100), (1, 100), (100, 100), (700, 700), (HOUR_MS, HOUR_MS), (90_000_000, 86_400_000)],
)
def test_a_claim_may_ask_for_another_lease_within_bounds(
    api: Api, topic: str, asked: int, given: int
) -> None:
    queue(api, topic, 1)
    began = now_ms()

    check_deadline(claim(api, topic, lease_ms=asked)["claimed"][0]["deadline"], given, began)


def test_a_changed_lease_holds_for_later_claims_only(api: Api, topic: str) -> None:
    queue(api, topic, 1, 2, lease_ms=HOUR_MS)
    began = now_ms()
    [first] = claim(api, topic)["claimed"]

    api.create(topic, type="queue", lease_ms=2 * HOUR_MS)

    check_deadline(claim(api, topic)["claimed"][0]["deadline"], 2 * HOUR_MS, began)
    check_deadline(first["deadline"], HOUR_MS, began)
    assert counts(api, topic) == (0, 2)


def test_a_lease_that_ran_out_frees_the_job_for_anybody(api: Api, topic: str) -> None:
    queue(api, topic, "job")
    [lost] = claim(api, topic, node="slow", lease_ms=100)["claimed"]

    [found] = eventually(lambda: claim(api, topic, node="other")["claimed"], "the job again")

    assert (found["$seq"], found["data"], found["deliveries"]) == (1, "job", 2)
    assert found["lease_id"] != lost["lease_id"]
    assert now_ms() >= lost["deadline"] - CLOCK_SLACK_MS


def test_deliveries_are_counted_for_each_job(api: Api, topic: str) -> None:
    queue(api, topic, 1, 2)

    for time in (1, 2, 3):
        assert deliveries_in(claim(api, topic)) == {1: time}
        nack(api, topic, 1)
    assert deliveries_in(claim(api, topic, 2)) == {1: 4, 2: 1}


# Lease ids.


def test_leases_are_numbered_in_hexadecimal_from_one(api: Api, topic: str) -> None:
    queue(api, topic, *range(17))

    found = leases_in(claim(api, topic, 15)) + leases_in(claim(api, topic, 15))

    assert sorted(found) == sorted(f"lease_{number:x}" for number in range(1, 18))


def test_no_lease_id_is_given_twice(api: Api, topic: str) -> None:
    queue(api, topic, 1, 2)
    found: list[str] = []
    for _ in range(20):
        answer = claim(api, topic, 2)
        nack(api, topic, *seqs_in(answer))
        found += leases_in(answer)

    assert len(set(found)) == 40


# What a claim is not.


def test_reading_a_queue_takes_nothing_from_it(api: Api, topic: str) -> None:
    queue(api, topic, 1, 2)

    assert len(api.diff(topic)["records"]) == 2

    assert counts(api, topic) == (2, 0)
    assert seqs_in(claim(api, topic, 2)) == [1, 2]
    assert len(api.diff(topic)["records"]) == 2


def test_queues_do_not_share_their_leases(api: Api, topic: str) -> None:
    other = new_name()
    queue(api, topic, "a")
    queue(api, other, "b")

    answers: list[Any] = [claim(api, name) for name in (topic, other)]

    assert [leases_in(answer) for answer in answers] == [["lease_1"], ["lease_1"]]
    assert ack(api, topic, 1)["acked"] == 1
    assert counts(api, other) == (0, 1)


def test_a_name_of_128_bytes_is_a_worker_and_unknown_fields_are_passed_over(
    api: Api, topic: str
) -> None:
    queue(api, topic, 1)
    node = "é" * 64

    assert seqs_in(claim(api, topic, node=node, bogus={"x": 1})) == [1]
    assert ack(api, topic, 1, node=node, bogus=True)["acked"] == 1
