"""Jobs that were delivered too often go to the dead-letter topic, and none is lost on the way."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.queues import (
    HOUR_MS,
    ack,
    claim,
    counts,
    dead_lettered,
    deliveries_in,
    jobs,
    nack,
    queue,
    seqs_in,
    stays_quiet,
    wait_for_counts,
    work,
)
from tests.server.support import CONFIG, Api, at_once, datas_of, holds, new_name, refused, seqs_of
from tests.support.serving import eventually


@pytest.fixture
def dead() -> str:
    return new_name("dead")


def fail(api: Api, topic: str, times: int) -> None:
    """A worker takes the first job this often and gives it back."""
    for time in range(1, times + 1):
        assert deliveries_in(claim(api, topic)) == {1: time}
        nack(api, topic, 1)


def meta_of(api: Api, dead: str) -> Any:
    [record] = api.diff(dead)["records"]
    return record["meta"]


def test_a_job_delivered_too_often_is_moved_and_not_delivered(
    api: Api, topic: str, dead: str
) -> None:
    queue(api, topic, {"p": 1}, max_deliveries=2, dead_letter=dead)
    fail(api, topic, 2)
    assert counts(api, topic) == (1, 0)

    answer = claim(api, topic)

    assert holds(answer, {"claimed": [], "count": 0, "ready": 0})
    assert datas_of(api.diff(dead)) == [{"p": 1}]
    state = api.state(topic)
    assert state["count"] == 0
    assert holds(state["queue"], {"ready": 0, "in_flight": 0, "dead_lettered": 1})
    assert holds(claim(api, topic), {"claimed": []})
    assert api.state(dead)["count"] == 1


def test_data_tag_and_node_are_kept_and_the_meta_tells_where_from(
    api: Api, topic: str, dead: str
) -> None:
    queue(api, topic, max_deliveries=1, dead_letter=dead)
    job = {"data": [1, {"a": None}], "tag": "t", "node": "maker", "meta": {"k": {"deep": 1}}}
    api.write(topic, records=[job])
    fail(api, topic, 1)
    claim(api, topic)

    [record] = api.diff(dead, include_tags=True)["records"]

    assert record["data"] == job["data"]
    assert (record["$seq"], record["$tag"], record["$node"]) == (1, "t", "maker")
    assert record["meta"] == {
        "k": {"deep": 1},
        "$dead_letter_from": topic,
        "$dead_letter_deliveries": "1",
        "$dead_letter_src_seq": "1",
    }


def test_the_numbers_in_the_meta_are_texts(api: Api, topic: str, dead: str) -> None:
    queue(api, topic, *range(12), max_deliveries=3, dead_letter=dead)
    claim(api, topic, 11)
    ack(api, topic, *range(1, 12))
    for _ in range(3):
        assert seqs_in(claim(api, topic)) == [12]
        nack(api, topic, 12)
    claim(api, topic)

    assert meta_of(api, dead) == {
        "$dead_letter_from": topic,
        "$dead_letter_deliveries": "3",
        "$dead_letter_src_seq": "12",
    }


@pytest.mark.parametrize("meta", [[1, 2], "text", 5, True], ids=repr)
def test_a_meta_that_is_no_object_is_replaced(api: Api, topic: str, dead: str, meta: Any) -> None:
    queue(api, topic, max_deliveries=1, dead_letter=dead)
    api.write(topic, records=[{"data": 1, "meta": meta}])
    fail(api, topic, 1)
    claim(api, topic)

    found = meta_of(api, dead)
    assert set(found) == {
        "$dead_letter_from",
        "$dead_letter_deliveries",
        "$dead_letter_src_seq",
    }


def test_a_full_meta_does_not_keep_a_job_from_being_moved(api: Api, topic: str, dead: str) -> None:
    queue(api, topic, max_deliveries=1, dead_letter=dead)
    meta = {f"k{n}": n for n in range(64)}
    api.write(topic, records=[{"data": 1, "meta": meta}])
    fail(api, topic, 1)
    claim(api, topic)

    assert holds(meta_of(api, dead), {**meta, "$dead_letter_from": topic})
    assert api.state(topic)["count"] == 0


def test_a_job_that_was_dead_before_tells_of_its_last_death(api: Api, topic: str) -> None:
    """A dead-letter topic may be a queue with one of its own."""
    first, second = new_name("dead"), new_name("dead")
    queue(api, first, max_deliveries=1, dead_letter=second)
    queue(api, topic, "job", max_deliveries=1, dead_letter=first)
    fail(api, topic, 1)
    claim(api, topic)
    fail(api, first, 1)
    claim(api, first)

    assert holds(meta_of(api, second), {"$dead_letter_from": first, "$dead_letter_src_seq": "1"})
    assert (dead_lettered(api, topic), dead_lettered(api, first)) == (1, 1)


# The topic.


def test_the_dead_letter_topic_is_made_with_the_first_dead_job(
    api: Api, topic: str, dead: str
) -> None:
    queue(api, topic, 1, max_deliveries=1, dead_letter=dead)
    fail(api, topic, 1)
    refused(api.get(f"/v0/topics/{dead}"), 404, "topic_not_found")

    claim(api, topic)

    assert api.state(dead)["config"] == CONFIG


def test_a_dead_letter_topic_that_is_there_is_used_as_it_is(
    api: Api, topic: str, dead: str
) -> None:
    api.create(dead, cap_records=5, durability="fsync")
    api.write(dead, "before")
    queue(api, topic, "job", max_deliveries=1, dead_letter=dead)
    fail(api, topic, 1)
    claim(api, topic)

    assert datas_of(api.diff(dead)) == ["before", "job"]
    assert holds(api.state(dead)["config"], {"cap_records": 5, "durability": "fsync"})


def test_a_full_dead_letter_topic_keeps_the_job_in_its_queue(
    api: Api, topic: str, dead: str
) -> None:
    api.create(dead, discard="reject", cap_records=1)
    api.write(dead, "before")
    queue(api, topic, "job", max_deliveries=1, dead_letter=dead)
    fail(api, topic, 1)

    assert seqs_in(claim(api, topic)) == []

    assert (counts(api, topic), dead_lettered(api, topic)) == ((1, 0), 0)
    api.remove(dead, before_seq=2)
    eventually(lambda: claim(api, topic)["ready"] == 0, "the job is moved")
    assert datas_of(api.diff(dead)) == ["job"]
    assert dead_lettered(api, topic) == 1


# What counts as a delivery.


def test_leases_that_ran_out_count(api: Api, topic: str, dead: str) -> None:
    queue(api, topic, "job", max_deliveries=1, dead_letter=dead)
    claim(api, topic, lease_ms=100)

    def is_moved() -> bool:
        assert claim(api, topic, node="other")["claimed"] == []
        return dead_lettered(api, topic) == 1

    eventually(is_moved, "the job is moved")
    assert datas_of(api.diff(dead)) == ["job"]


def test_nothing_is_moved_while_its_last_delivery_runs(api: Api, topic: str, dead: str) -> None:
    queue(api, topic, "job", max_deliveries=1, dead_letter=dead)
    claim(api, topic)

    assert claim(api, topic, node="other")["claimed"] == []

    assert counts(api, topic) == (0, 1)
    assert ack(api, topic, 1)["acked"] == 1
    refused(api.get(f"/v0/topics/{dead}"), 404, "topic_not_found")


def test_a_delay_is_waited_for_also_before_the_end(api: Api, topic: str, dead: str) -> None:
    queue(api, topic, 1, max_deliveries=1, dead_letter=dead)
    claim(api, topic)
    nack(api, topic, 1, delay_ms=HOUR_MS)

    assert claim(api, topic)["claimed"] == []

    assert dead_lettered(api, topic) == 0
    assert api.state(topic)["count"] == 1


@pytest.mark.parametrize("has_topic", [False, True])
def test_without_a_number_or_a_topic_jobs_are_delivered_for_ever(
    api: Api, topic: str, dead: str, has_topic: bool
) -> None:
    queue(api, topic, 1, **({"dead_letter": dead} if has_topic else {"max_deliveries": 2}))

    fail(api, topic, 6)

    assert dead_lettered(api, topic) == 0


def test_only_the_worn_out_jobs_are_moved(api: Api, topic: str, dead: str) -> None:
    queue(api, topic, *"abc", max_deliveries=1, dead_letter=dead)
    claim(api, topic, 2)
    nack(api, topic, 1, 2)
    found: list[int] = []

    eventually(lambda: found.extend(seqs_in(claim(api, topic, 5))) or found, "the fresh job")

    assert found == [3]
    assert datas_of(api.diff(dead)) == ["a", "b"]
    assert (dead_lettered(api, topic), counts(api, topic)) == (2, (0, 1))


def test_a_stream_of_work_moves_worn_out_jobs(api: Api, topic: str, dead: str) -> None:
    queue(api, topic, "job", max_deliveries=2, dead_letter=dead)

    with work(api, topic) as stream:
        for time in (1, 2):
            assert [job["deliveries"] for job in jobs(stream, 1)] == [time]
            nack(api, topic, 1)
        eventually(lambda: dead_lettered(api, topic) == 1, "the job is moved")
        stays_quiet(stream)
        assert datas_of(api.diff(dead)) == ["job"]
        api.write(topic, "next")
        assert [job["data"] for job in jobs(stream, 1)] == ["next"]


def test_streams_that_broke_off_count(api: Api, topic: str, dead: str) -> None:
    queue(api, topic, "job", max_deliveries=1, dead_letter=dead)
    with work(api, topic) as stream:
        jobs(stream, 1)
    wait_for_counts(api, topic, 1, 0)

    assert claim(api, topic)["claimed"] == []
    assert datas_of(api.diff(dead)) == ["job"]


def test_a_race_moves_each_job_once(api: Api, topic: str, dead: str) -> None:
    queue(api, topic, *range(30), max_deliveries=1, dead_letter=dead)
    claim(api, topic, 30)
    nack(api, topic, *range(1, 31))

    found = at_once(8, lambda n: seqs_in(claim(api, topic, 30, node=f"w{n}")))

    assert found == [[]] * 8
    eventually(lambda: not claim(api, topic, 30)["ready"], "all are moved")
    assert sorted(datas_of(api.diff(dead))) == list(range(30))
    assert seqs_of(api.diff(dead)) == list(range(1, 31))
    assert dead_lettered(api, topic) == 30
