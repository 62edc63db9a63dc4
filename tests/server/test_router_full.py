"""A dest that refuses when it is full: the router waits, and goes on by itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.server.conftest import Start
from tests.server.queues import ack, claim, jobs, queue, restarted, work
from tests.server.routers import (
    chain,
    datas,
    each_end,
    each_guarantee,
    forwarded,
    gap,
    names,
    records,
    reluctant,
    ring,
    route,
    seqs_lost,
    wait_for_datas,
    walk,
)
from tests.server.support import Api, api_of, datas_of, new_name, refused
from tests.support.serving import eventually


@pytest.fixture
def ends() -> tuple[str, str]:
    return new_name("source"), new_name("dest")


# Waiting for room.


@each_guarantee
def test_a_full_dest_takes_what_fits_and_the_source_keeps_the_rest(
    api: Api, ends: tuple[str, str], guarantee: str
) -> None:
    source, dest = ends
    name = reluctant(api, source, dest, guarantee=guarantee)

    api.write(source, *range(5))
    api.write(source, 5)

    assert datas(api, dest) == [0, 1]
    assert datas(api, source) == list(range(6))
    assert forwarded(api, name) == 2
    assert (api.state(dest)["count"], api.state(dest)["head_seq"]) == (2, 2)


def by_diff(api: Api, topic: str) -> int:
    return len(api.diff(topic)["records"])


def by_state(api: Api, topic: str) -> int:
    return int(api.state(topic)["count"])


def by_claim(api: Api, topic: str) -> int:
    return int(claim(api, topic, 9)["count"])


@pytest.mark.parametrize("read", [by_diff, by_state, by_claim])
@pytest.mark.parametrize("hops", [1, 2])
def test_a_read_right_after_the_write_sees_what_has_room(
    api: Api, read: Callable[[Api, str], int], hops: int
) -> None:
    for _ in range(30):
        topics = names(hops + 1)
        queue(api, topics[-1], cap_records=2, discard="reject")
        chain(api, topics)

        api.write(topics[0], *range(5))

        assert read(api, topics[-1]) == 2


@each_guarantee
def test_a_router_goes_on_when_there_is_room(
    api: Api, ends: tuple[str, str], guarantee: str
) -> None:
    source, dest = ends
    name = reluctant(api, source, dest, guarantee=guarantee)
    api.write(source, *range(7))

    seen: list[int] = []
    while len(seen) < 7:
        page = api.diff(dest, from_seq=len(seen))
        assert page["tombstone"] is None
        seen += datas_of(page)
        api.remove(dest, before_seq=page["next_from_seq"] + 1)
        wait_for_datas(api, dest, list(range(7))[len(seen) : len(seen) + 2])

    assert seen == list(range(7))
    assert forwarded(api, name) == 7
    assert api.state(dest)["head_seq"] == 7


def test_a_router_goes_on_one_by_one(api: Api, ends: tuple[str, str]) -> None:
    source, dest = ends
    reluctant(api, source, dest)
    api.tagged(source, *"abcd")
    assert datas(api, dest) == ["a", "b"]

    api.remove(dest, match="a")
    wait_for_datas(api, dest, ["b", "c"])
    api.remove(dest, match="c")

    wait_for_datas(api, dest, ["b", "d"])
    assert [record["$seq"] for record in records(api, dest)] == [2, 4]


def test_a_larger_cap_is_room(api: Api, ends: tuple[str, str]) -> None:
    source, dest = ends
    reluctant(api, source, dest)
    api.write(source, *range(6))

    api.create(dest, cap_records=4, discard="reject")
    wait_for_datas(api, dest, list(range(4)))
    api.create(dest)

    wait_for_datas(api, dest, list(range(6)))


def test_a_dest_that_no_longer_refuses_takes_all(api: Api, ends: tuple[str, str]) -> None:
    source, dest = ends
    reluctant(api, source, dest)
    api.write(source, *range(6))
    assert datas(api, dest) == [0, 1]

    api.create(dest, cap_records=2, discard="old")
    api.write(source, 6)

    answer = api.diff(dest)
    assert datas_of(answer) == [5, 6]
    assert gap(answer) == (1, 5, "cap")


def test_age_makes_room(api: Api, ends: tuple[str, str]) -> None:
    source, dest = ends
    api.create(dest, cap_records=2, discard="reject", ttl_ms=1)
    name = route(api, source, dest)

    api.write(source, *range(5))

    def is_done() -> bool:
        return forwarded(api, name) == 5

    eventually(is_done, "all were copied, two at a time")
    assert api.state(dest)["head_seq"] == 5


def test_bytes_count_as_records_do(api: Api, ends: tuple[str, str]) -> None:
    source, dest = ends
    api.create(dest, cap_bytes=100, discard="reject")
    route(api, source, dest)
    texts = [letter * 38 for letter in "abcde"]

    api.write(source, *texts)

    assert datas(api, dest) == texts[:2]
    api.remove(dest, before_seq=2)
    wait_for_datas(api, dest, texts[1:3])
    api.remove(dest, before_seq=10)
    wait_for_datas(api, dest, texts[3:])


def test_a_record_larger_than_the_dest_waits_or_is_told_of(api: Api, ends: tuple[str, str]) -> None:
    """It can never fit; what matters is that it does not go in silence."""
    source, dest = ends
    api.create(dest, cap_bytes=100, discard="reject")
    route(api, source, dest)
    large = "x" * 200

    for data in ("small", large, "after"):
        api.write(source, data)

    found, lost = walk(api, dest)
    if not lost:
        assert [record["data"] for record in found] == ["small"]
        api.create(dest, cap_bytes=1000, discard="reject")
        wait_for_datas(api, dest, ["small", large, "after"])
        return
    assert [record["data"] for record in found] == ["small", "after"]
    assert (seqs_lost(lost), lost[0]["reason"]) == ([2], "source_trim")


def test_a_full_dest_does_not_hold_up_others(api: Api, ends: tuple[str, str]) -> None:
    source, dest = ends
    before, after = names(2)
    route(api, source, before)
    reluctant(api, source, dest, cap=1)
    route(api, source, after)

    api.write(source, *range(5))
    api.write(source, 5)

    assert datas(api, before) == datas(api, after) == list(range(6))
    assert datas(api, dest) == [0]


def test_what_the_filter_leaves_out_needs_no_room(api: Api, ends: tuple[str, str]) -> None:
    source, dest = ends
    reluctant(api, source, dest, filter="a*")

    api.tagged(source, "a1", "b", "a2", "b", "a3")

    assert datas(api, dest) == ["a1", "a2"]
    api.remove(dest, match="a1")
    wait_for_datas(api, dest, ["a2", "a3"])


def test_direct_writes_compete_for_the_room(api: Api, ends: tuple[str, str]) -> None:
    source, dest = ends
    reluctant(api, source, dest)
    api.write(dest, "own")
    api.write(source, 1, 2)

    assert datas(api, dest) == ["own", 1]
    reply = api.post(f"/v0/topics/{dest}", {"records": [{"data": "more"}]})
    refused(reply, 422, "topic_full", {"topic": dest})
    api.remove(dest, before_seq=3)

    wait_for_datas(api, dest, [2])
    assert api.write(dest, "now")["first_seq"] == 4


def test_a_full_topic_in_the_middle_stops_a_chain_there(api: Api) -> None:
    a, b, c = names(3)
    reluctant(api, a, b)
    route(api, b, c)
    api.write(a, *range(5))

    assert (datas(api, b), datas(api, c)) == ([0, 1], [0, 1])
    api.remove(b, before_seq=3)

    wait_for_datas(api, c, [0, 1, 2, 3])
    assert datas(api, b) == [2, 3]


def test_a_router_put_again_keeps_what_it_waits_with(api: Api, ends: tuple[str, str]) -> None:
    source, dest = ends
    name = reluctant(api, source, dest, cap=1)
    api.write(source, *range(3))

    route(api, source, dest, preserve_node=False)
    assert (datas(api, dest), forwarded(api, name)) == ([0], 1)
    api.create(dest)

    wait_for_datas(api, dest, [0, 1, 2])


def test_a_loop_goes_on_when_there_is_room_and_still_ends(api: Api) -> None:
    a, b, c = names(3)
    ring(api, [a, b, c])
    api.create(c, cap_records=1, discard="reject")

    api.write(a, *range(3))
    assert datas(api, c) == [0]
    api.create(c)

    wait_for_datas(api, c, [0, 1, 2])
    assert [datas(api, topic) for topic in (a, b)] == [[0, 1, 2]] * 2


# By itself: whoever waits is served without anybody asking.


def test_an_open_stream_gets_what_had_to_wait(api: Api, ends: tuple[str, str]) -> None:
    source, dest = ends
    reluctant(api, source, dest, cap=1)

    with api.follow([dest], heartbeat_ms=60_000) as stream:
        api.write(source, *range(5))
        for n in range(5):
            frame = stream.one("record")
            assert (datas_of(frame.json), frame.seqs) == ([n], [n + 1])
            api.remove(dest, before_seq=n + 2)


def test_a_small_queue_hands_out_every_job(api: Api, ends: tuple[str, str]) -> None:
    source, dest = ends
    queue(api, dest, cap_records=1, discard="reject")
    route(api, source, dest)

    with work(api, dest) as stream:
        api.write(source, *range(8))
        for n in range(8):
            [job] = jobs(stream, 1)
            assert (job["data"], job["$seq"]) == (n, n + 1)
            ack(api, dest, job["$seq"])


def test_claims_and_acks_make_room_in_a_queue(api: Api, ends: tuple[str, str]) -> None:
    source, dest = ends
    queue(api, dest, cap_records=2, discard="reject")
    name = route(api, source, dest)
    api.write(source, *range(6))

    done: list[int] = []
    while len(done) < 6:
        taken = claim(api, dest, 5, wait_ms=30_000)["claimed"]
        assert 1 <= len(taken) <= 2
        done += [job["data"] for job in taken]
        ack(api, dest, *(job["$seq"] for job in taken))

    assert done == list(range(6))
    assert forwarded(api, name) == 6


# And over a restart.


@each_end
@each_guarantee
def test_a_router_that_waits_goes_on_waiting(start: Start, how: str, guarantee: str) -> None:
    server = start()
    api = api_of(server)
    reluctant(api, "a", "b", guarantee=guarantee)
    api.write("a", *range(6))
    assert datas(api, "b") == [0, 1]

    api = restarted(server, how)

    assert (datas(api, "b"), forwarded(api, "a->b")) == ([0, 1], 2)
    api.remove("b", before_seq=3)
    wait_for_datas(api, "b", [2, 3])
    api = restarted(server, how)
    api.create("b")
    wait_for_datas(api, "b", [2, 3, 4, 5])
    assert [record["$seq"] for record in records(api, "b")] == [3, 4, 5, 6]


@each_end
def test_a_loop_that_waited_over_a_restart_still_ends(start: Start, how: str) -> None:
    """What is known of a copy is where it has been, also afterwards."""
    server = start()
    api = api_of(server)
    topics = ["a", "b", "c"]
    ring(api, topics)
    api.create("c", cap_records=1, discard="reject")
    api.write("a", *range(3))
    assert api.state("b")["count"] == 3
    api.write("b", 3)
    assert datas(api, "c") == [0]

    api = restarted(server, how)
    api.create("c")

    wait_for_datas(api, "c", [0, 1, 2, 3])
    assert (datas(api, "a"), datas(api, "b")) == ([0, 1, 2, 3], [0, 1, 2, 3])


@each_end
def test_a_chain_that_waited_over_a_restart_is_whole(start: Start, how: str) -> None:
    server = start()
    api = api_of(server)
    topics = [f"t{n}" for n in range(6)]
    chain(api, topics)
    api.create("t3", cap_records=1, discard="reject")
    api.write("t0", *range(3))
    assert datas(api, "t5") == [0]

    api = restarted(server, how)
    api.create("t3")

    wait_for_datas(api, "t5", [0, 1, 2])
