"""A copy is seen at once: by every way of reading, over several hops, and by those who wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.server.queues import ack, claim, counts, jobs, queue, work
from tests.server.routers import (
    chain,
    datas,
    each_distance,
    each_guarantee,
    forwarded,
    names,
    records,
    ring,
    route,
)
from tests.server.sse import seqs_in
from tests.server.support import Api, Later, at_once, datas_of, refused, seqs_of

LONG_MS = 30_000  # the most there is


def by_state(api: Api, topic: str) -> int:
    state = api.state(topic)
    assert state["head_seq"] == state["count"] == state["next_seq"] - 1
    return int(state["count"])


def by_list(api: Api, topic: str) -> int:
    items = api.get(f"/v0/topics?prefix={topic}").json["topics"]
    [item] = [item for item in items if item["topic"] == topic]
    assert item["head_seq"] == item["count"]
    return int(item["count"])


def by_diff(api: Api, topic: str) -> int:
    answer = api.diff(topic)
    assert answer["caught_up"]
    assert answer["head_seq"] == len(answer["records"])
    return len(answer["records"])


def by_strong_diff(api: Api, topic: str) -> int:
    return len(api.diff(topic, consistency="strong")["records"])


def by_session(api: Api, topic: str) -> int:
    return int(api.watch([topic])["topics"][topic]["head_seq"])


def by_tail(api: Api, topic: str) -> int:
    return int(api.watch({topic: {"tail": True}})["topics"][topic]["from_seq"])


def by_stream(api: Api, topic: str) -> int:
    with api.follow([topic]) as stream:
        frames = stream.until("caught-up")
    assert frames[-1].json["head_seq"] == len(seqs_in(frames))
    return len(seqs_in(frames))


def by_socket(api: Api, topic: str) -> int:
    found: list[Any] = []
    with api.socket() as socket:
        answer = socket.ask("subscribe", topic=topic)
        while (message := socket.next())["op"] != "caught_up":
            found += message["records"]
    assert answer["topics"][topic]["head_seq"] == message["head_seq"] == len(found)
    return len(found)


def by_position(api: Api, topic: str) -> int:
    answer = api.put(f"/v0/topics/{topic}/positions/p", {"seq": 0}).json
    assert answer["head_seq"] == answer["lag_records"]
    return int(answer["lag_records"])


READS = [
    by_state,
    by_list,
    by_diff,
    by_strong_diff,
    by_session,
    by_tail,
    by_stream,
    by_socket,
    by_position,
]


@pytest.mark.parametrize("read", READS)
@each_distance
def test_a_read_right_after_the_write_sees_the_copy(
    api: Api, read: Callable[[Api, str], int], hops: int
) -> None:
    topics = names(hops + 1)
    chain(api, topics)

    for n in range(1, 6):
        api.write(topics[0], n)

        assert read(api, topics[-1]) == n


@each_guarantee
@pytest.mark.parametrize("durability", ["ephemeral", "memory", "disk", "fsync"])
def test_that_holds_for_every_class_and_guarantee(
    api: Api, durability: str, guarantee: str
) -> None:
    topics = names(3)
    for topic in topics:
        api.create(topic, durability=durability)
    chain(api, topics, guarantee=guarantee)

    for n in range(1, 6):
        api.write(topics[0], n)

        assert datas_of(api.diff(topics[-1])) == list(range(1, n + 1))


@each_distance
def test_a_claim_right_after_the_write_gets_the_copy(api: Api, hops: int) -> None:
    topics = names(hops + 1)
    queue(api, topics[-1])
    chain(api, topics)

    for n in range(1, 6):
        api.write(topics[0], records=[{"data": n, "tag": "t"}])

        [job] = claim(api, topics[-1], 5)["claimed"]
        assert (job["$seq"], job["data"], job["$tag"], job["deliveries"]) == (n, n, "t", 1)
    assert counts(api, topics[-1]) == (0, 5)


@each_distance
def test_the_counters_of_a_queue_know_the_copies(api: Api, hops: int) -> None:
    topics = names(hops + 1)
    queue(api, topics[-1])
    chain(api, topics)

    api.write(topics[0], 1, 2, 3)

    assert counts(api, topics[-1]) == (3, 0)


@each_distance
def test_the_count_of_a_router_is_up_to_date(api: Api, hops: int) -> None:
    last = chain(api, topics := names(hops + 1))[-1]

    api.write(topics[0], 1)
    api.write(topics[0], 2)

    assert forwarded(api, last) == 2


def test_a_dest_with_an_unseen_copy_is_not_empty(api: Api) -> None:
    source, dest = names(2)
    route(api, source, dest)
    api.write(source, 1)

    reply = api.delete(f"/v0/topics/{dest}?if_empty=true")

    refused(reply, 409, "topic_not_empty", {"count": 1})


def test_a_delete_right_after_the_write_takes_the_copy(api: Api) -> None:
    """What every reader would see is there to be deleted."""
    topics = names(3)
    chain(api, topics)

    for n in range(10):
        api.tagged(topics[0], "x", "y")
        gone = api.remove(topics[2], match="x")
        assert (gone["deleted"], gone["count"]) == (1, n + 1)

    assert datas(api, topics[2]) == ["y"] * 10


@pytest.mark.parametrize("count", [1025, 5000])
def test_many_records_are_seen_at_once_as_well(api: Api, count: int) -> None:
    topics = names(3)
    chain(api, topics)

    api.write(topics[0], *range(count))

    assert api.state(topics[2])["head_seq"] == count
    assert datas(api, topics[2]) == list(range(count))
    assert [record["$seq"] for record in records(api, topics[1])] == list(range(1, count + 1))


def test_large_records_are_seen_at_once_as_well(api: Api) -> None:
    topics = names(3)
    chain(api, topics)
    large = ["x" * 900_000 + str(n) for n in range(12)]

    api.write(topics[0], *large)

    assert api.state(topics[2])["count"] == 12
    assert datas(api, topics[2], max_batch_bytes=8 << 20) == large


def test_every_writer_sees_its_own_copy(api: Api) -> None:
    """While others write too."""
    topics = names(3)
    chain(api, topics)

    def work_(worker: int) -> None:
        for n in range(10):
            api.write(topics[0], [worker, n])
            assert [worker, n] in datas(api, topics[2])

    at_once(6, work_)

    assert datas(api, topics[2]) == datas(api, topics[0])


def test_every_topic_of_a_ring_is_up_to_date(api: Api) -> None:
    topics = names(3)
    ring(api, topics)

    for n in range(1, 10):
        api.write(topics[n % 3], n)

        assert by_list(api, topics[(n + 2) % 3]) == n
        assert by_diff(api, topics[(n + 1) % 3]) == n


# Those who wait.


@each_distance
def test_a_waiting_reader_gets_the_copy(api: Api, hops: int) -> None:
    topics = names(hops + 1)
    chain(api, topics)

    for n in range(5):
        with Later(lambda n=n: api.diff(topics[-1], from_seq=n, wait_ms=LONG_MS)) as waiting:
            api.write(topics[0], n)

            assert datas_of(waiting.result()) == [n]


@each_distance
def test_an_open_stream_gets_the_copies(api: Api, hops: int) -> None:
    topics = names(hops + 1)
    chain(api, topics)

    with api.follow([topics[-1]], heartbeat_ms=60_000) as stream:
        stream.until("caught-up")
        for n in range(20):
            api.write(topics[0], n)

            frame = stream.one("record")
            assert (datas_of(frame.json), frame.seqs) == ([n], [n + 1])


@each_distance
def test_an_open_socket_gets_the_copies(api: Api, hops: int) -> None:
    """Also those of what it publishes itself."""
    topics = names(hops + 1)
    chain(api, topics)

    with api.socket() as socket:
        socket.ask("subscribe", topic=topics[-1])
        for n in range(20):
            assert socket.ask("publish", topic=topics[0], records=[{"data": n}])["op"] == "ack"

            [record] = socket.records(1)
            assert (record["data"], record["$seq"]) == (n, n + 1)


@each_distance
def test_an_open_stream_of_work_gets_the_copies(api: Api, hops: int) -> None:
    topics = names(hops + 1)
    queue(api, topics[-1])
    chain(api, topics)

    with work(api, topics[-1]) as stream:
        for n in range(5):
            api.write(topics[0], n)

            [job] = jobs(stream, 1)
            assert job["data"] == n
            assert ack(api, topics[-1], job["$seq"])["acked"] == 1


def test_a_stream_of_all_topics_of_a_chain_gets_each_copy(api: Api) -> None:
    topics = names(4)
    chain(api, topics)

    with api.follow(topics, heartbeat_ms=60_000) as stream:
        for n in range(10):
            api.write(topics[0], n)

            got = {}
            while len(got) < 4:
                frame = stream.one("record")
                got[frame.json["topic"]] = datas_of(frame.json)
            assert got == {topic: [n] for topic in topics}


def test_a_claim_that_waits_gets_the_copy(api: Api) -> None:
    topics = names(3)
    queue(api, topics[-1])
    chain(api, topics)

    with Later(lambda: claim(api, topics[-1], wait_ms=LONG_MS)) as waiting:
        api.write(topics[0], "job")

        [job] = waiting.result()["claimed"]
    assert job["data"] == "job"


def test_a_reader_between_two_writes_misses_nothing(api: Api) -> None:
    """Readers of the dest with long polls, while writers fill the source."""
    source, dest = names(2)
    route(api, source, dest)

    def work_(worker: int) -> list[int]:
        if worker < 2:
            for n in range(30):
                api.write(source, [worker, n])
            return list(range(1, 61))
        seen: list[int] = []
        while len(seen) < 60:
            answer = api.diff(dest, from_seq=len(seen), wait_ms=LONG_MS)
            assert answer["records"]
            seen += seqs_of(answer)
        return seen

    assert at_once(5, work_) == [list(range(1, 61))] * 5
