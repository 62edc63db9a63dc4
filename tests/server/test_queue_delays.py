"""Jobs that are put off when they are written: `deliver_at` and `delay_ms`."""

from __future__ import annotations

import time

import pytest

from tests.server.conftest import Start
from tests.server.queues import claim, counts, queue, restarted, seqs_in
from tests.server.support import Api, Later, api_of, refused
from tests.support.serving import eventually

HOUR_MS = 3_600_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.mark.parametrize("how", ["delay_ms", "deliver_at"])
def test_a_job_is_handed_out_no_earlier_than_it_was_put_off_to(
    api: Api, topic: str, how: str
) -> None:
    queue(api, topic, "now")
    begun = now_ms()
    for delay_ms in (HOUR_MS, 400):
        when = delay_ms if how == "delay_ms" else begun + delay_ms
        body = {"records": [{"data": 1}], how: when}
        assert api.post(f"/v0/topics/{topic}", body).status == 200
    found: list[int] = []

    def is_ready() -> bool:
        found.extend(seqs_in(claim(api, topic, 5)))
        assert 3 not in found or now_ms() - begun >= 400
        return 3 in found

    eventually(is_ready, "the job is ready")
    assert found == [1, 3]
    assert api.state(topic)["queue"]["delayed"] == 1


def test_who_waits_for_a_job_gets_it_when_its_time_has_come(api: Api, topic: str) -> None:
    queue(api, topic)
    api.post(f"/v0/topics/{topic}", {"records": [{"data": 1}], "delay_ms": 300})

    asked = {"node": "w", "wait_ms": 30_000}
    with Later(lambda: api.post(f"/v0/topics/{topic}/claim", asked)) as waiting:
        assert seqs_in(waiting.result().json) == [1]


@pytest.mark.parametrize("durability", ["memory", "disk", "fsync"])
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_what_was_put_off_stays_so_over_a_restart(start: Start, durability: str, how: str) -> None:
    server = start()
    api = api_of(server)
    queue(api, "q", durability=durability)
    api.post("/v0/topics/q", {"records": [{"data": 1}, {"data": 2}], "delay_ms": HOUR_MS})
    api.write("q", 3)

    api = restarted(server, how)

    assert seqs_in(claim(api, "q", 5)) == [3]
    assert api.state("q")["queue"]["delayed"] == 2


def test_a_deleted_job_is_cancelled(api: Api, topic: str) -> None:
    queue(api, topic)
    api.post(f"/v0/topics/{topic}", {"records": [{"data": 1}, {"data": 2}], "delay_ms": 200})

    removed = api.post(f"/v0/topics/{topic}/delete", {"seqs": [1]}).json

    assert removed["deleted"] == 1
    eventually(lambda: seqs_in(claim(api, topic, 5)) == [2], "the other is ready")
    assert counts(api, topic) == (0, 1)


def test_a_time_that_has_passed_is_now(api: Api, topic: str) -> None:
    queue(api, topic)
    for late in ({"deliver_at": 1}, {"deliver_at": now_ms() - 1}, {"delay_ms": 0}):
        assert api.post(f"/v0/topics/{topic}", {"records": [{"data": 1}], **late}).status == 200

    assert seqs_in(claim(api, topic, 5)) == [1, 2, 3]


def test_records_of_a_log_become_visible_later(api: Api, topic: str) -> None:
    api.create(topic)
    api.post(f"/v0/topics/{topic}", {"records": [{"data": "now"}]})
    body = {"records": [{"data": 1}, {"data": 2}], "delay_ms": 300}

    answer = api.post(f"/v0/topics/{topic}", body).json

    assert (answer["first_seq"], answer["last_seq"], answer["count"]) == (0, 0, 2)
    assert (answer["head_seq"], answer["delayed_id"] > 0, "seqs" in answer) == (1, True, False)
    eventually(lambda: api.state(topic)["head_seq"] == 3, "their time has come")


def test_only_jobs_recur(api: Api, topic: str) -> None:
    api.create(topic)
    body = {"records": [{"data": 1}], "cron": "* * * * *"}

    refused(api.post(f"/v0/topics/{topic}", body), 409, "not_a_queue", {"topic": topic})
    assert api.state(topic)["head_seq"] == 0


def test_one_time_is_enough_and_none_may_be_too_far(api: Api, topic: str) -> None:
    queue(api, topic)
    year_ms = 366 * 86_400_000
    for wrong in (
        {"delay_ms": 1, "deliver_at": now_ms() + 1000},
        {"delay_ms": year_ms + 1},
        {"delay_ms": -1},
        {"deliver_at": "tomorrow"},
    ):
        reply = api.post(f"/v0/topics/{topic}", {"records": [{"data": 1}], **wrong})
        refused(reply, 400, "invalid_request")
    part = {"topic": topic, "records": [{"data": 1}], "delay_ms": 5}
    refused(api.post("/v0/batch", {"writes": [part]}), 400, "invalid_request")
    assert api.state(topic)["head_seq"] == 0
