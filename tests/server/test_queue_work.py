"""GET /v0/topics/:topic/work: jobs are pushed, and never more than a worker wants at a time."""

from __future__ import annotations

import itertools

import pytest

from tests.server.queues import (
    HOUR_MS,
    ack,
    check_deadline,
    claim,
    counts,
    extend,
    jobs,
    nack,
    queue,
    seqs_in,
    stays_quiet,
    wait_for_counts,
    work,
)
from tests.server.support import Api, holds, now_ms

ENTRY = {"topic", "$seq", "lease_id", "deadline", "$ts", "deliveries", "data"}


def test_a_stream_of_work_starts_with_retry(api: Api, topic: str) -> None:
    queue(api, topic)

    with work(api, topic) as stream:
        first = stream.next()

    assert stream.reply.status == 200
    assert stream.reply.headers["content-type"].startswith("text/event-stream")
    assert first is not None
    assert first.raw == "retry: 2000"


def test_the_text_of_a_job(api: Api, topic: str) -> None:
    api.create(topic, type="queue")
    api.write(topic, 0, 0)
    api.remove(topic, before_seq=3)
    written = api.write(topic, records=[{"data": {"p": 1}, "tag": "t", "node": "n", "meta": "m"}])
    began = now_ms()

    with work(api, topic) as stream:
        frame = stream.one("job")

    lines = frame.raw.split("\n")
    assert lines[:2] == ["id: 3", "event: job"]
    assert lines[2].startswith("data: {")
    assert len(lines) == 3
    for literal in (f'"topic":"{topic}"', '"$seq":3', '"deliveries":1', '"data":{"p":1}'):
        assert literal in frame.raw
    job = frame.json
    assert set(job) >= ENTRY
    assert holds(job, {"topic": topic, "$ts": written["ts"], "$tag": "t", "meta": "m"})
    assert holds(job, {"lease_id": "lease_1"})
    assert "$node" not in job
    check_deadline(job["deadline"], 30_000, began)


def test_a_job_has_neither_tag_nor_meta_when_it_was_given_none(api: Api, topic: str) -> None:
    queue(api, topic, None)

    with work(api, topic) as stream:
        [job] = jobs(stream, 1)

    assert job["data"] is None
    assert not {"$tag", "$node", "meta"} & set(job)


# How many.


@pytest.mark.parametrize("query", ["", "&max=1", "&max=0", "&max=many", "&max=-3", "&max="])
def test_one_job_at_a_time_unless_told(api: Api, topic: str, query: str) -> None:
    queue(api, topic, 1, 2)

    with work(api, topic, f"node=w{query}") as stream:
        assert [job["$seq"] for job in jobs(stream, 1)] == [1]
        stays_quiet(stream)
        assert counts(api, topic) == (1, 1)


def test_never_more_than_max_are_under_way(api: Api, topic: str) -> None:
    queue(api, topic, *range(10))

    with work(api, topic, "node=w&max=3") as stream:
        assert [job["$seq"] for job in jobs(stream, 3)] == [1, 2, 3]
        stays_quiet(stream)
        api.write(topic, "more")
        stays_quiet(stream)

        assert counts(api, topic) == (8, 3)


def test_a_stream_has_at_most_a_thousand_jobs_under_way(api: Api, topic: str) -> None:
    queue(api, topic, *range(1100))

    with work(api, topic, "node=w&max=5000") as stream:
        assert len(jobs(stream, 1000)) == 1000
        stays_quiet(stream)
        assert counts(api, topic) == (100, 1000)


# Refills.


def test_an_ack_makes_room_for_the_next_job(api: Api, topic: str) -> None:
    queue(api, topic, *range(6))

    with work(api, topic, "node=w&max=2") as stream:
        under_way = [job["$seq"] for job in jobs(stream, 2)]
        for seq in (3, 4, 5, 6):
            assert ack(api, topic, under_way.pop(0))["acked"] == 1
            under_way += [job["$seq"] for job in jobs(stream, 1)]
            assert under_way[-1] == seq
            assert counts(api, topic) == (6 - seq, 2)


def test_a_job_that_is_written_is_pushed(api: Api, topic: str) -> None:
    queue(api, topic)

    with work(api, topic, "node=w&max=50") as stream:
        for n in range(20):
            api.write(topic, n)
            assert [job["data"] for job in jobs(stream, 1)] == [n]


def test_a_whole_batch_is_pushed(api: Api, topic: str) -> None:
    queue(api, topic)

    with work(api, topic, "node=w&max=10") as stream:
        stream.next()
        api.write(topic, *range(8))

        assert [job["$seq"] for job in jobs(stream, 8)] == list(range(1, 9))


def test_a_job_given_back_is_pushed_again(api: Api, topic: str) -> None:
    queue(api, topic, 1)

    with work(api, topic) as stream:
        [first] = jobs(stream, 1)
        nack(api, topic, 1)
        [again] = jobs(stream, 1)

    assert (again["$seq"], again["deliveries"]) == (1, 2)
    assert again["lease_id"] != first["lease_id"]


def test_a_job_whose_lease_ran_out_is_pushed_again(api: Api, topic: str) -> None:
    queue(api, topic, 1)

    with work(api, topic, "node=w&lease_ms=200") as stream:
        found = jobs(stream, 3)

    assert [(job["$seq"], job["deliveries"]) for job in found] == [(1, 1), (1, 2), (1, 3)]


def test_a_job_that_somebody_else_lost_is_pushed(api: Api, topic: str) -> None:
    """Nothing is written then: the stream looks for itself."""
    queue(api, topic, 1, 2)
    claim(api, topic, node="later")
    claim(api, topic, node="gone", lease_ms=300)
    nack(api, topic, 1, node="later", delay_ms=300)

    with work(api, topic, "node=w&max=2") as stream:
        found = jobs(stream, 2)

    assert sorted((job["$seq"], job["deliveries"]) for job in found) == [(1, 2), (2, 2)]


def test_a_deleted_job_makes_room(api: Api, topic: str) -> None:
    queue(api, topic, 1, 2)

    with work(api, topic) as stream:
        jobs(stream, 1)
        api.remove(topic, before_seq=2)

        assert [job["$seq"] for job in jobs(stream, 1)] == [2]


# Leases.


@pytest.mark.parametrize(
    ("query", "given"),
    [
        ("", 5000),
        ("&lease_ms=60000", 60_000),
        ("&lease_ms=1", 100),
        ("&lease_ms=90000000", 86_400_000),
        ("&lease_ms=long", 5000),
    ],
)
def test_a_stream_may_ask_for_its_lease(api: Api, topic: str, query: str, given: int) -> None:
    queue(api, topic, 1, lease_ms=5000)
    began = now_ms()

    with work(api, topic, f"node=w{query}") as stream:
        [job] = jobs(stream, 1)

    check_deadline(job["deadline"], given, began)


def test_the_lease_of_a_stream_is_like_any_other(api: Api, topic: str) -> None:
    queue(api, topic, 1, 2, 3)

    with work(api, topic, "node=w&max=2") as stream:
        one, two = jobs(stream, 2)
        assert seqs_in(claim(api, topic, 5, node="other")) == [3]
        assert ack(api, topic, 1, node="other")["skipped"] == [1]
        extended = extend(api, topic, 1, lease_ms=HOUR_MS, lease_ids=[one["lease_id"]])
        assert extended["extended"] == 1
        assert ack(api, topic, 2, lease_ids=[two["lease_id"]])["acked"] == 1
        wait_for_counts(api, topic, 0, 2)


def test_several_streams_share_a_queue(api: Api, topic: str) -> None:
    queue(api, topic, *range(4))

    with work(api, topic, "node=a&max=2") as one, work(api, topic, "node=b&max=2") as two:
        shares = [[job["$seq"] for job in jobs(stream, 2)] for stream in (one, two)]
        stays_quiet(one)

    assert sorted(itertools.chain(*shares)) == [1, 2, 3, 4]


def test_streams_of_one_worker_have_each_their_own_room(api: Api, topic: str) -> None:
    queue(api, topic, *range(4))
    claim(api, topic)

    with work(api, topic) as one, work(api, topic) as two:
        shares = [[job["$seq"] for job in jobs(stream, 1)] for stream in (one, two)]
        stays_quiet(one)
        stays_quiet(two)

        assert sorted(itertools.chain(*shares)) == [2, 3]
        assert counts(api, topic) == (1, 3)


def test_an_idle_stream_has_a_heartbeat(api: Api, topic: str) -> None:
    queue(api, topic)

    with work(api, topic) as stream:
        while (frame := stream.next()) is not None and frame.comment is None:
            continue

    assert frame is not None
    assert ": hb" in frame.raw
