"""Queues with rules: one job of a group at a time, and rests that grow between deliveries."""

from __future__ import annotations

import pytest

from tests.server.conftest import Start
from tests.server.queues import HOUR_MS, ack, claim, counts, nack, queue, restarted, seqs_in
from tests.server.support import Api, api_of, at_once, holds, refused
from tests.support.serving import eventually

GROUPED = {"group_by": "tag"}


def fill(api: Api, name: str, *tags: str | None) -> None:
    api.write(name, records=[{"data": n, "tag": tag} for n, tag in enumerate(tags)])


def test_one_job_of_a_group_is_out_at_a_time_and_others_go_on(api: Api, topic: str) -> None:
    queue(api, topic, queue=GROUPED)
    fill(api, topic, "a", "a", "b", None, "a", "b", None)

    assert seqs_in(claim(api, topic, 10)) == [1, 3, 4, 7]
    assert counts(api, topic) == (0, 4)
    assert claim(api, topic, 10)["claimed"] == []

    ack(api, topic, 1)
    assert seqs_in(claim(api, topic, 10)) == [2]
    ack(api, topic, 2, 3)
    assert seqs_in(claim(api, topic, 10)) == [5, 6]


def test_a_job_that_comes_back_goes_out_before_those_behind_it(api: Api, topic: str) -> None:
    queue(api, topic, queue=GROUPED)
    fill(api, topic, "a", "a", "b")

    assert seqs_in(claim(api, topic, 1)) == [1]
    nack(api, topic, 1)
    assert seqs_in(claim(api, topic, 10)) == [1, 3]


def test_a_rest_of_one_holds_up_its_group_and_no_other(api: Api, topic: str) -> None:
    queue(api, topic, queue=GROUPED)
    fill(api, topic, "a", "b", "a", "b", "c")
    claim(api, topic, 2)
    nack(api, topic, 1, delay_ms=HOUR_MS)
    nack(api, topic, 2, delay_ms=400)
    found: list[int] = []

    def has_rested() -> bool:
        found.extend(seqs_in(claim(api, topic, 10)))
        return 2 in found

    eventually(has_rested, "the first of the other group")
    assert sorted(found) == [2, 5]


def test_a_delay_at_the_start_holds_up_nobody(api: Api, topic: str) -> None:
    queue(api, topic, queue=GROUPED)
    late = {"records": [{"data": 1, "tag": "a"}], "delay_ms": 3_600_000}
    assert api.post(f"/v0/topics/{topic}", late).status == 200
    fill(api, topic, "a")

    assert seqs_in(claim(api, topic, 10)) == [2]


def test_a_deleted_job_lets_its_group_go_on(api: Api, topic: str) -> None:
    queue(api, topic, queue=GROUPED)
    fill(api, topic, "a", "a", "a", "a")
    claim(api, topic, 1)
    api.post(f"/v0/topics/{topic}/delete", {"seqs": [1, 2]})

    assert seqs_in(claim(api, topic, 10)) == [3]
    ack(api, topic, 3)
    assert seqs_in(claim(api, topic, 10)) == [4]


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_the_order_of_a_group_holds_over_a_restart(start: Start, durable: bool, how: str) -> None:
    server = start()
    api = api_of(server)
    queue(api, "q", queue=GROUPED, leases_durable=durable, lease_ms=3_600_000)
    fill(api, "q", "a", "a", "b", "b")
    assert seqs_in(claim(api, "q", 1)) == [1]

    api = restarted(server, how)

    assert api.get("/v0/topics/q").json["config"]["queue"]["group_by"] == "tag"
    assert seqs_in(claim(api, "q", 10, node="other")) == ([3] if durable else [1, 3])


def test_many_workers_never_hold_two_of_a_group(api: Api, topic: str) -> None:
    queue(api, topic, queue=GROUPED)
    fill(api, topic, *[f"g{n % 7}" for n in range(210)])
    done: list[tuple[str, int]] = []

    def work(number: int) -> int:
        node = f"w{number}"
        count = 0
        while True:
            jobs = claim(api, topic, 3, node=node)["claimed"]
            tags = [job["$tag"] for job in jobs]
            assert len(set(tags)) == len(tags)
            if not jobs:
                if api.state(topic)["count"] == 0:
                    return count
                continue
            done.extend((job["$tag"], job["$seq"]) for job in jobs)
            count += ack(api, topic, *[job["$seq"] for job in jobs], node=node)["acked"]

    assert sum(at_once(4, work)) == 210
    for group in {tag for tag, _ in done}:
        seqs = [seq for tag, seq in done if tag == group]
        assert seqs == sorted(seqs)


def test_rests_grow_with_each_delivery_when_the_queue_says_so(api: Api, topic: str) -> None:
    rules = {"retry_base_ms": 3_600_000, "retry_cap_ms": 86_400_000}
    queue(api, topic, 1, 2, queue=rules)
    claim(api, topic, 2)

    nack(api, topic, 1)
    assert counts(api, topic) == (0, 1)
    assert api.state(topic)["queue"]["delayed"] == 1
    nack(api, topic, 2, delay_ms=0)
    assert seqs_in(claim(api, topic, 5)) == [2]


def test_a_configuration_without_rules_is_as_it_always_was(api: Api, topic: str) -> None:
    queue(api, topic)

    assert "queue" not in api.state(topic)["config"]


@pytest.mark.parametrize(
    "rules",
    [
        {"group_by": "meta"},
        {"retry_base_ms": -1},
        {"retry_cap_ms": 86_400_001},
        {"retry_jitter": 2},
        {"retry_jitter": "some"},
        [],
    ],
)
def test_rules_that_make_no_sense_are_refused(api: Api, topic: str, rules: object) -> None:
    body = {"type": "queue", "queue": rules}
    refused(api.put(f"/v0/topics/{topic}", body), 400, "invalid_request")
    log = {"type": "log", "queue": {"retry_base_ms": 1}}
    refused(api.put(f"/v0/topics/{topic}", log), 400, "invalid_request")


def test_rules_are_shown_whole(api: Api, topic: str) -> None:
    queue(api, topic, queue={"retry_base_ms": 500})

    expected = {"group_by": None, "retry_base_ms": 500, "retry_cap_ms": 300_000}
    assert holds(api.state(topic)["config"]["queue"], expected)
