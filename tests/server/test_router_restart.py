"""What routers still know after their server was stopped or killed: no copy twice, none missing."""

from __future__ import annotations

import contextlib
import itertools
import random
from typing import Any

import pytest

from tests.server.conftest import Start
from tests.server.queues import ack, claim, counts, queue, restarted, seqs_in
from tests.server.routers import (
    chain,
    datas,
    each_end,
    forwarded,
    guaranteed,
    look,
    put,
    records,
    remove,
    ring,
    route,
    walk,
    write_on,
)
from tests.server.support import Api, Later, api_of, compact, refused
from tests.server.wire import Ended
from tests.support.serving import eventually


def picture(api: Api, *topics: str) -> Any:
    """Every record of these topics, with its seq and its time."""
    return [records(api, topic, include_tags=True) for topic in topics]


# What was there.


@each_end
@guaranteed
def test_routers_and_their_copies_are_kept(start: Start, how: str, guarantee: str) -> None:
    server = start()
    api = api_of(server)
    knobs = {"filter": ["tag", "Glob", "x*"], "preserve_node": False, "guarantee": guarantee}
    put(api, "a->b", "a", "b", **knobs)
    api.tagged("a", "x1", "y", "x2", None, "x3")
    before = (look(api, "a->b"), picture(api, "a", "b"))

    api = restarted(server, how)

    after = (look(api, "a->b"), picture(api, "a", "b"))
    assert before[0].pop("performance")
    assert after[0].pop("performance")
    assert after == before
    assert after[0]["forwarded_total"] == 3
    api.tagged("a", "y", "x4")
    assert datas(api, "b") == ["x1", "x2", "x3", "x4"]
    assert [record["$seq"] for record in records(api, "b")] == [1, 2, 3, 4]
    assert forwarded(api, "a->b") == 4


@each_end
@pytest.mark.parametrize(
    ("first", "second"), list(itertools.product(["memory", "disk", "fsync"], repeat=2))
)
def test_copies_that_nobody_read_are_there(start: Start, how: str, first: str, second: str) -> None:
    server = start()
    api = api_of(server)
    api.create("a", durability=first)
    api.create("b", durability=second)
    route(api, "a", "b")
    for n in range(20):
        api.write("a", n)

    api = restarted(server, how)

    copied = datas(api, "b")
    assert copied == datas(api, "a")
    if "memory" not in (first, second) or how == "stop":
        assert copied == list(range(20))
        assert forwarded(api, "a->b") == 20


@each_end
def test_the_order_with_direct_writes_is_kept(start: Start, how: str) -> None:
    server = start()
    api = api_of(server)
    route(api, "a", "b")
    for n in range(10):
        api.write("a", f"copy {n}")
        if n % 3 == 0:
            api.write("b", f"own {n}")
    before = picture(api, "b")

    api = restarted(server, how)

    assert picture(api, "b") == before
    api.write("b", "own")
    api.write("a", "copy")
    assert datas(api, "b")[-2:] == ["own", "copy"]
    assert [record["$seq"] for record in records(api, "b")] == list(range(1, 17))


@each_end
def test_a_copy_that_was_deleted_does_not_come_back(start: Start, how: str) -> None:
    server = start()
    api = api_of(server)
    route(api, "a", "b")
    api.tagged("a", *"abcde")
    assert api.state("b")["count"] == 5
    api.remove("b", match="d")
    api.remove("b", before_seq=3)

    api = restarted(server, how)

    assert datas(api, "b") == ["c", "e"]
    assert datas(api, "a") == [*"abcde"]


@each_end
def test_a_job_that_was_done_does_not_come_back(start: Start, how: str) -> None:
    server = start()
    api = api_of(server)
    queue(api, "q", durability="fsync")
    route(api, "a", "q")
    api.write("a", *range(6))
    claim(api, "q", 4)
    ack(api, "q", 1, 2, 4)

    api = restarted(server, how)

    assert counts(api, "q") == (3, 0)
    assert seqs_in(claim(api, "q", 9)) == [3, 5, 6]


@each_end
def test_a_copy_whose_original_is_gone_is_kept(start: Start, how: str) -> None:
    server = start()
    api = api_of(server)
    api.create("a", cap_records=2)
    route(api, "a", "b")
    for n in range(10):
        api.write("a", n)
        api.state("b")
    api.remove("a", before_seq=100)

    api = restarted(server, how)

    assert api.state("a")["count"] == 0
    assert datas(api, "b") == list(range(10))
    api.write("a", 10)
    assert datas(api, "b") == list(range(11))


@each_end
def test_copies_outlive_the_source_and_its_router(start: Start, how: str) -> None:
    server = start()
    api = api_of(server)
    route(api, "a", "b")
    api.write("a", 1, 2)
    assert datas(api, "b") == [1, 2]
    assert api.drop("a")["routers_removed"] == ["a->b"]

    api = restarted(server, how)

    assert datas(api, "b") == [1, 2]
    refused(api.get("/v0/routers/a-%3Eb"), 404, "router_not_found")
    api.write("a", "anew")
    assert datas(api, "b") == [1, 2]


@each_end
def test_a_router_that_was_removed_stays_away(start: Start, how: str) -> None:
    server = start()
    api = api_of(server)
    chain(api, "abc")
    api.write("a", 1)
    assert datas(api, "c") == [1]
    remove(api, "b->c")

    api = restarted(server, how)

    assert [item["router"] for item in api.get("/v0/routers").json["routers"]] == ["a->b"]
    api.write("a", 2)
    assert (datas(api, "b"), datas(api, "c")) == ([1, 2], [1])


@each_end
def test_a_new_router_does_not_begin_earlier_after_a_restart(start: Start, how: str) -> None:
    server = start()
    api = api_of(server)
    api.write("a", "old")
    route(api, "a", "b")

    api = restarted(server, how)

    assert datas(api, "b") == []
    api.write("a", "new")
    assert datas(api, "b") == ["new"]


@each_end
def test_knobs_that_were_changed_stay_changed(start: Start, how: str) -> None:
    server = start()
    api = api_of(server)
    route(api, "a", "b")
    api.tagged("a", "x", "y")
    route(api, "a", "b", filter="y", guarantee="exactly_once", preserve_tag=False)

    api = restarted(server, how)

    found = look(api, "a->b")
    assert (found["filter"], found["guarantee"]) == (["tag", "Eq", "y"], "exactly_once")
    assert (found["preserve_tag"], found["forwarded_total"]) == (False, 2)
    api.tagged("a", "x", "y")
    assert datas(api, "b") == ["x", "y", "y"]


@each_end
def test_refusals_hold_afterwards(start: Start, how: str) -> None:
    server = start()
    chain(api_of(server), "abc")

    api = restarted(server, how)

    refused(put(api, "r", "c", "a"), 409, "router_cycle", {"cycle": ["c", "a", "b", "c"]})
    detail = {"reason": "router_dest_fan_in"}
    refused(put(api, "r", "x", "b"), 409, "topic_exists_incompatible", detail)
    assert put(api, "a->b", "a", "b").status == 200


@each_end
def test_the_copies_of_a_ring_are_not_made_again(start: Start, how: str) -> None:
    server = start()
    api = api_of(server)
    topics = ["a", "b", "c"]
    ring(api, topics)
    for n in range(9):
        api.write(topics[n % 3], n)
    before = picture(api, *topics)

    api = restarted(server, how)

    assert picture(api, *topics) == before
    api.write("b", 9)
    assert [sorted(datas(api, topic)) for topic in topics] == [list(range(10))] * 3


def test_over_many_servers_nothing_is_copied_twice_or_missing(start: Start) -> None:
    server = start()
    api = api_of(server)
    chain(api, "abc", guarantee="exactly_once")
    route(api, "a", "d")
    expected: list[int] = []

    for n, how in enumerate(["stop", "kill", "kill", "stop", "stop", "kill"]):
        api.write("a", *range(10 * n, 10 * n + 10))
        expected += range(10 * n, 10 * n + 10)
        if n % 2:
            api.state("c")
        api = restarted(server, how)

        for topic in "abcd":
            assert datas(api, topic) == expected
            seqs = [record["$seq"] for record in records(api, topic)]
            assert seqs == list(range(1, len(expected) + 1))
        assert forwarded(api, "b->c") == forwarded(api, "a->d") == len(expected)


# Classes that do not keep records.


@each_end
def test_an_ephemeral_source_goes_on_and_its_copies_stay(start: Start, how: str) -> None:
    """After a kill nobody knows how many it had, and the dest may say so."""
    server = start()
    api = api_of(server)
    api.create("a", durability="ephemeral")
    route(api, "a", "b")
    api.write("a", 1, 2, 3)
    assert datas(api, "b") == [1, 2, 3]

    api = restarted(server, how)

    api.write("a", 4)
    found, lost = walk(api, "b")
    assert [record["data"] for record in found] == [1, 2, 3, 4]
    assert {gap["reason"] for gap in lost} <= {"source_trim"}
    if how == "stop":
        assert lost == []


@each_end
def test_an_ephemeral_dest_goes_on(start: Start, how: str) -> None:
    server = start()
    api = api_of(server)
    api.create("b", durability="ephemeral")
    route(api, "a", "b")
    api.write("a", 1, 2, 3)
    head = api.state("b")["head_seq"]

    api = restarted(server, how)
    api.write("a", 4)

    answer = api.diff("b", from_seq=head)
    assert [record["data"] for record in answer["records"]][-1:] == [4]
    assert all(record["$seq"] > head for record in answer["records"])


@each_end
@guaranteed
@pytest.mark.parametrize("first", ["disk", "fsync"])
def test_what_came_through_an_ephemeral_topic_is_not_copied_twice(
    start: Start, how: str, guarantee: str, first: str
) -> None:
    """What is gone in the middle may be copied there again, but not on from there."""
    server = start()
    api = api_of(server)
    api.create("a", durability=first)
    api.create("b", durability="ephemeral")
    chain(api, "abc", guarantee=guarantee)
    api.write("a", *range(10))
    assert datas(api, "c") == list(range(10))

    api = restarted(server, how)

    assert [record["data"] for record in walk(api, "c")[0]] == list(range(10))
    api.write("a", 10)
    assert [record["data"] for record in walk(api, "c")[0]] == list(range(11))


# In the middle of it.


def read_on(api: Api, topic: str) -> None:
    with contextlib.suppress(Ended, OSError):
        while True:
            api.diff(topic, limit=1)


@guaranteed
def test_a_kill_in_the_middle_costs_no_copy_and_makes_none_twice(
    start: Start, guarantee: str
) -> None:
    server = start()
    api = api_of(server)
    chain(api, "abc", guarantee=guarantee)
    answered: list[Any] = []
    chance = random.Random(7)

    for turn in range(4):
        enough = len(answered) + chance.randrange(20, 120)
        with (
            Later(lambda t=turn: write_on(server, "a", answered, f"{t}a")) as one,
            Later(lambda t=turn: write_on(server, "a", answered, f"{t}b")) as two,
            Later(lambda a=api: read_on(a, "c")),
        ):
            eventually(lambda most=enough: len(answered) > most, "some writes")
            server.kill()
            one.result()
            two.result()
        api = api_of(server.start())

        everything = datas(api, "a")
        assert all(data in everything for data in answered)
        for topic in "bc":
            assert datas(api, topic) == everything
            seqs = [record["$seq"] for record in records(api, topic)]
            assert seqs == list(range(1, len(everything) + 1))
        assert forwarded(api, "a->b") == forwarded(api, "b->c") == len(everything)


def test_a_kill_in_the_middle_of_a_ring_leaves_it_even(start: Start) -> None:
    """With writers at every topic of it; each record is once in each."""
    server = start()
    api = api_of(server)
    topics = ["a", "b", "c"]
    ring(api, topics)
    answered: list[Any] = []

    for turn in range(3):
        enough = len(answered) + 60
        with (
            Later(lambda t=turn: write_on(server, "a", answered, f"{t}a")) as one,
            Later(lambda t=turn: write_on(server, "b", answered, f"{t}b")) as two,
            Later(lambda t=turn: write_on(server, "c", answered, f"{t}c")) as three,
        ):
            eventually(lambda most=enough: len(answered) > most, "some writes")
            server.kill()
            for writer in (one, two, three):
                writer.result()
        api = api_of(server.start())

        found = [sorted(datas(api, topic)) for topic in topics]
        assert found[0] == found[1] == found[2]
        assert len({compact(data) for data in found[0]}) == len(found[0])
        assert all(data in found[0] for data in answered)


def test_a_stop_in_the_middle_is_like_any_other(start: Start) -> None:
    server = start()
    api = api_of(server)
    chain(api, "ab")
    answered: list[Any] = []

    def write_until_refused() -> None:
        with contextlib.suppress(Ended, OSError, AssertionError):
            write_on(server, "a", answered, "w")

    with Later(write_until_refused) as writer:
        eventually(lambda: len(answered) > 50, "some writes")
        assert server.stop() == 0
        writer.result()
    api = api_of(server.start())

    everything = datas(api, "a")
    assert all(data in everything for data in answered)
    assert datas(api, "b") == everything
