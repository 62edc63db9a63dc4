"""What a queue says of itself, and what becomes of jobs that vanish under their workers."""

from __future__ import annotations

import pytest

from tests.server.conftest import Start
from tests.server.queues import (
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
    work,
)
from tests.server.support import Api, api_of, holds
from tests.support.serving import eventually


def test_a_fresh_queue_has_nothing(api: Api, topic: str) -> None:
    queue(api, topic)

    state = api.state(topic)

    assert state["type"] == state["config"]["type"] == "queue"
    assert holds(state["queue"], {"ready": 0, "in_flight": 0, "dead_lettered": 0})


def test_each_job_is_ready_or_in_flight_or_delayed(api: Api, topic: str) -> None:
    queue(api, topic, *range(6))
    assert counts(api, topic) == (6, 0)
    claim(api, topic, 4)
    assert counts(api, topic) == (2, 4)
    nack(api, topic, 1, delay_ms=HOUR_MS)
    nack(api, topic, 2)
    ack(api, topic, 3)

    assert counts(api, topic) == (3, 1)
    assert api.state(topic)["count"] == 5


def test_a_lease_that_ran_out_counts_as_ready_before_any_claim(api: Api, topic: str) -> None:
    queue(api, topic, 1, 2)
    claim(api, topic, lease_ms=100)

    wait_for_counts(api, topic, 2, 0)


def test_a_log_has_no_counters(api: Api, topic: str) -> None:
    api.write(topic, 1)

    assert "queue" not in api.state(topic)


# Jobs that are evicted or deleted.


def test_a_job_evicted_under_its_lease_leaves_the_counts(api: Api, topic: str) -> None:
    queue(api, topic, 1, 2, cap_records=2)
    claim(api, topic, 1)
    assert counts(api, topic) == (1, 1)

    api.write(topic, 3)

    assert counts(api, topic) == (2, 0)
    assert seqs_in(claim(api, topic, 5)) == [2, 3]


def test_a_job_deleted_under_its_lease_leaves_the_counts(api: Api, topic: str) -> None:
    queue(api, topic)
    api.tagged(topic, *"abc")
    claim(api, topic, 2)

    api.remove(topic, match="b")
    assert counts(api, topic) == (1, 1)
    api.remove(topic, before_seq=2)

    assert counts(api, topic) == (1, 0)


def test_a_job_expired_under_its_lease_leaves_the_counts(api: Api, topic: str) -> None:
    queue(api, topic, 1, 2, ttl_ms=1500)
    claim(api, topic)

    wait_for_counts(api, topic, 0, 0)

    assert api.state(topic)["count"] == 0
    assert seqs_in(claim(api, topic, 5)) == []


@each_settling
def test_the_lease_of_a_vanished_job_is_gone_with_it(api: Api, topic: str, verb: str) -> None:
    queue(api, topic)
    api.tagged(topic, "a", "b")
    claim(api, topic, 2)
    api.remove(topic, match="a")

    assert settle(api, topic, verb, 1) == 0
    assert settle(api, topic, verb, 2) == 1


def test_vanished_jobs_do_not_come_back(api: Api, topic: str) -> None:
    """Neither one that was given back, nor a delayed one, nor one whose lease runs out."""
    queue(api, topic)
    api.tagged(topic, *"abcd")
    claim(api, topic, 3, lease_ms=1000)
    nack(api, topic, 1)
    nack(api, topic, 2, delay_ms=1000)
    for tag in "abc":
        api.remove(topic, match=tag)
    assert counts(api, topic) == (1, 0)
    clock = f"{topic}.clock"
    queue(api, clock, 1)
    claim(api, clock, lease_ms=1500)
    wait_for_counts(api, clock, 1, 0)

    assert counts(api, topic) == (1, 0)
    assert seqs_in(claim(api, topic, 5)) == [4]


def test_a_tighter_cap_takes_jobs_under_way(api: Api, topic: str) -> None:
    queue(api, topic, *range(4))
    claim(api, topic, 3)

    api.create(topic, type="queue", cap_records=2)

    assert counts(api, topic) == (1, 1)
    assert settle(api, topic, "ack", 1, 2, 3) == 1


def test_a_full_queue_takes_a_job_again_when_one_is_done(api: Api, topic: str) -> None:
    queue(api, topic, 1, 2, cap_records=2, discard="reject")
    body = {"records": [{"data": 3}]}
    claim(api, topic)
    assert api.post(f"/v0/topics/{topic}", body).status == 422

    ack(api, topic, 1)

    assert api.post(f"/v0/topics/{topic}", body).status == 200
    assert counts(api, topic) == (2, 0)


def test_a_queue_made_anew_knows_nothing_of_the_old_one(api: Api, topic: str) -> None:
    queue(api, topic, "old", "old", dead_letter=f"{topic}.dead", max_deliveries=1)
    claim(api, topic, 2)
    nack(api, topic, 1)
    claim(api, topic)
    api.drop(topic)

    queue(api, topic, "new", "new")

    expected = {"ready": 2, "in_flight": 0, "dead_lettered": 0}
    assert holds(api.state(topic)["queue"], expected)
    assert ack(api, topic, 2)["skipped"] == [2]
    assert deliveries_in(claim(api, topic, 2)) == {1: 1, 2: 1}


# Metrics.


def scrape(api: Api) -> dict[str, float]:
    lines = api.get("/v0/metrics").body.decode().splitlines()
    pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in pairs if name}


def test_the_metrics_know_queues(start: Start) -> None:
    api = api_of(start())
    queue(api, "one", 1, 2, 3)
    queue(api, "two", 1, 2)
    api.write("log", 1)
    claim(api, "one", 2)
    claim(api, "two", 1)

    found = scrape(api)

    expected = {
        "penstock_queue_topics": 2,
        "penstock_queue_leases_in_flight": 3,
        'penstock_topic_queue_ready{topic="one"}': 1,
        'penstock_topic_queue_in_flight{topic="one"}': 2,
        'penstock_topic_queue_ready{topic="two"}': 1,
        'penstock_topic_queue_in_flight{topic="two"}': 1,
        'penstock_topic_queue_ready{topic="log"}': None,
        'penstock_topic_queue_in_flight{topic="log"}': None,
    }
    assert {name: found.get(name) for name in expected} == expected
    as_json = api.get("/v0/metrics", {"Accept": "application/json"}).json
    assert holds(as_json, {"queue_topics": 2, "queue_leases_in_flight": 3})


def test_the_metrics_count_streams_of_work(start: Start) -> None:
    api = api_of(start())
    queue(api, "q")

    with work(api, "q") as stream:
        stream.next()
        assert scrape(api)["penstock_sse_connections"] == 1
    eventually(lambda: scrape(api)["penstock_sse_connections"] == 0, "the stream is gone")


@pytest.mark.parametrize("query", ["", "?touch=false"])
def test_looking_at_a_queue_changes_nothing(api: Api, topic: str, query: str) -> None:
    queue(api, topic, 1, 2)
    claim(api, topic)

    for _ in range(3):
        assert holds(api.state(topic, query)["queue"], {"ready": 1, "in_flight": 1})
