"""Streams of work: who may open one, and what is left when one ends."""

from __future__ import annotations

import pytest

from tests.server.conftest import Start
from tests.server.queues import (
    HOUR_MS,
    ack,
    claim,
    counts,
    deliveries_in,
    extend,
    jobs,
    nack,
    queue,
    restarted,
    seqs_in,
    stays_quiet,
    wait_for_counts,
    work,
)
from tests.server.support import LONG_DRAIN, Api, api_of, refused
from tests.server.wire import Connection
from tests.support.serving import Server, eventually

STREAM = {"Accept": "text/event-stream"}


# Opening.


@pytest.mark.parametrize("accept", ["application/json", "text/html", "text/plain, image/png"])
def test_work_for_who_wants_no_stream_is_not_acceptable(api: Api, topic: str, accept: str) -> None:
    """Looked at first: before the worker, and before the queue."""
    queue(api, topic, 1)

    for target in (f"{topic}/work?node=w", f"{topic}/work", f"{topic}.absent/work"):
        reply = api.get(f"/v0/topics/{target}", {"Accept": accept})
        refused(reply, 406, "not_acceptable")
    assert counts(api, topic) == (1, 0)


@pytest.mark.parametrize("accept", ["text/event-stream", "*/*", "", "text/html, */*;q=0.1", None])
def test_work_for_who_wants_anything_is_given(
    api: Api, shared: Server, topic: str, accept: str | None
) -> None:
    queue(api, topic)
    headers = {} if accept is None else {"Accept": accept}

    with Connection(shared.address) as wire:
        wire.send_request("GET", f"/v0/topics/{topic}/work?node=w", headers=headers)

        assert wire.read_head().status == 200


@pytest.mark.parametrize("query", ["", "?node=", "?max=1", f"?node={'x' * 129}"])
def test_work_is_for_a_named_worker(api: Api, topic: str, query: str) -> None:
    """Which is checked before the queue."""
    api.create(topic)

    for name in (topic, f"{topic}.absent"):
        refused(api.get(f"/v0/topics/{name}/work{query}", STREAM), 400, "invalid_request")


def test_the_worker_in_the_query_is_decoded(api: Api, topic: str) -> None:
    queue(api, topic, 1)

    with work(api, topic, "node=a%20b%2Fc%C3%A9") as stream:
        jobs(stream, 1)

        assert ack(api, topic, 1, node="a b/cé")["acked"] == 1


def test_work_is_of_a_queue(api: Api, topic: str) -> None:
    target = f"/v0/topics/{topic}/work?node=w"

    refused(api.get(target, STREAM), 404, "topic_not_found", {"topic": topic})
    refused(api.get(f"/v0/topics/{topic}"), 404, "topic_not_found")
    api.create(topic)
    refused(api.get(target, STREAM), 409, "not_a_queue", {"topic": topic})


def test_work_is_got_and_nothing_else(api: Api, topic: str) -> None:
    queue(api, topic)

    for method in ("POST", "PUT", "DELETE"):
        reply = api.call(method, f"/v0/topics/{topic}/work?node=w")
        refused(reply, 405, "method_not_allowed")
        assert "GET" in reply.headers["allow"].split(", ")


def test_streams_of_work_count_among_the_open_streams(start: Start) -> None:
    """And the cap is looked at last."""
    api = api_of(start(PENSTOCK_MAX_SSE_CONNECTIONS="1"))
    queue(api, "q")
    api.create("log")

    with work(api, "q") as stream:
        stream.next()
        reply = api.get("/v0/topics/q/work?node=w", STREAM)
        refused(reply, 429, "throttled")
        assert reply.headers["retry-after"] == "1"
        refused(api.get("/v0/topics/q/work", STREAM), 400, "invalid_request")
        refused(api.get("/v0/topics/no/work?node=w", STREAM), 404, "topic_not_found")
        refused(api.get("/v0/topics/log/work?node=w", STREAM), 409, "not_a_queue")

    def is_open() -> bool:
        with work(api, "q") as again:
            return again.reply.status == 200

    eventually(is_open, "a place is free again")


def test_streams_of_work_are_capped_for_each_key_and_hold_no_request(start: Start) -> None:
    server = start(
        PENSTOCK_API_KEYS="ann,bob",
        PENSTOCK_MAX_SSE_CONNECTIONS_PER_KEY="1",
        PENSTOCK_MAX_INFLIGHT_PER_KEY="1",
    )
    ann, bob = api_of(server, "ann"), api_of(server, "bob")
    queue(ann, "q", 1, 2)

    with work(ann, "q") as mine, work(bob, "q") as theirs:
        assert [len(jobs(stream, 1)) for stream in (mine, theirs)] == [1, 1]
        refused(ann.get("/v0/topics/q/work?node=w", STREAM), 429, "throttled")
        assert counts(ann, "q") == (0, 2)


# The reader goes.


def test_a_stream_that_ends_gives_its_jobs_back_at_once(api: Api, topic: str) -> None:
    queue(api, topic, 1, 2, 3, lease_ms=HOUR_MS)
    with work(api, topic, "node=w&max=2") as stream:
        jobs(stream, 2)
        assert counts(api, topic) == (1, 2)

    wait_for_counts(api, topic, 3, 0)

    assert deliveries_in(claim(api, topic, 5, node="other")) == {1: 2, 2: 2, 3: 1}


def test_a_stream_gives_back_its_own_jobs_only(api: Api, topic: str) -> None:
    """Not those that the same worker claimed, nor those of its other stream."""
    queue(api, topic, *range(4), lease_ms=HOUR_MS)
    assert seqs_in(claim(api, topic)) == [1]
    with work(api, topic) as other:
        assert [job["$seq"] for job in jobs(other, 1)] == [2]
        with work(api, topic) as stream:
            assert [job["$seq"] for job in jobs(stream, 1)] == [3]

        wait_for_counts(api, topic, 2, 2)

        assert seqs_in(claim(api, topic, 5, node="late")) == [3, 4]
        assert ack(api, topic, 1, 2)["acked"] == 2


def test_a_stream_does_not_give_back_what_is_no_longer_its_own(api: Api, topic: str) -> None:
    """A job that it had was given back, and the same worker claimed it elsewhere."""
    queue(api, topic, 1, 2, lease_ms=HOUR_MS)
    with work(api, topic) as stream:
        assert [job["$seq"] for job in jobs(stream, 1)] == [1]
        for delay_ms in (500, 5_000, 50_000):
            nack(api, topic, 1, delay_ms=delay_ms)
            [job] = jobs(stream, 1)
            if job["$seq"] == 2:
                break  # else 1 was back before the stream looked: once more, with more time
        assert job["$seq"] == 2
        wait_for_counts(api, topic, 1, 1)
        assert seqs_in(claim(api, topic)) == [1]

    wait_for_counts(api, topic, 1, 1)
    assert ack(api, topic, 2, 1)["skipped"] == [2]


def test_an_extended_job_is_given_back_too(api: Api, topic: str) -> None:
    queue(api, topic, 1)
    with work(api, topic) as stream:
        jobs(stream, 1)
        extend(api, topic, 1, lease_ms=HOUR_MS)

    wait_for_counts(api, topic, 1, 0)


def test_jobs_of_a_stream_that_ended_go_to_the_next(api: Api, topic: str) -> None:
    queue(api, topic, 1, lease_ms=HOUR_MS)
    with work(api, topic, "node=b") as waiting:
        [first] = jobs(waiting, 1)
        with work(api, topic, "node=a") as stream:
            stays_quiet(stream)
            waiting.close()
            [again] = jobs(stream, 1)

    assert (first["deliveries"], again["deliveries"]) == (1, 2)


# The queue goes.


def test_a_deleted_queue_ends_its_streams(api: Api, topic: str) -> None:
    queue(api, topic, 1)
    with work(api, topic) as stream:
        jobs(stream, 1)

        api.drop(topic)
        last = stream.rest()[-1]

    assert last.event == "error"
    assert last.json["code"] == 409
    assert last.json["topic"] == topic
    assert last.json["error"]


def test_a_queue_that_became_a_log_ends_its_streams(api: Api, topic: str) -> None:
    queue(api, topic)
    with work(api, topic) as stream:
        stream.next()

        api.drop(topic)
        api.write(topic, "record")
        found = stream.rest()

    assert [frame.event for frame in found] == ["error"]
    assert (found[0].json["code"], found[0].json["topic"]) == (409, topic)


# The server goes.


def test_a_stream_is_told_that_the_server_stops(start: Start) -> None:
    server = start(**LONG_DRAIN)
    api = api_of(server)
    queue(api, "q", 1)
    with work(api, "q") as stream:
        jobs(stream, 1)

        server.terminate()
        last = stream.rest()[-1]
        code = server.wait()

    assert code == 0
    assert last.event == "error"
    assert last.json["code"] == "server_shutting_down"
    assert '"code":"server_shutting_down"' in last.raw


def test_the_jobs_of_a_stream_are_there_for_the_next_server(start: Start) -> None:
    server = start()
    queue(api_of(server), "q", 1, 2)
    with work(api_of(server), "q", "node=w&max=5") as stream:
        jobs(stream, 2)
        api = restarted(server, "kill")

    with work(api, "q", "node=w&max=5") as stream:
        assert [(job["$seq"], job["deliveries"]) for job in jobs(stream, 2)] == [(1, 2), (2, 2)]
