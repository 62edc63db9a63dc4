"""Loops of routers: a record never comes back to where it was. Chains, which end after eight hops,
and mirrors, where each node reads what the others wrote."""

from __future__ import annotations

import itertools

import pytest

from tests.server.routers import (
    chain,
    datas,
    each_guarantee,
    forwarded,
    names,
    put,
    records,
    remove,
    ring,
    route,
)
from tests.server.sse import seqs_in
from tests.server.support import Api, at_once, new_name

HOPS_MAX = 8


def counted(api: Api, topics: list[str]) -> list[int]:
    return [api.state(topic)["count"] for topic in topics]


@each_guarantee
@pytest.mark.parametrize("length", [2, 3, 5, 9])
def test_one_write_is_once_in_every_topic_of_a_ring(api: Api, length: int, guarantee: str) -> None:
    topics = names(length)
    ring(api, topics, guarantee=guarantee)

    api.write(topics[0], "one")

    assert counted(api, topics) == [1] * length
    assert [datas(api, topic) for topic in topics] == [["one"]] * length
    assert counted(api, topics) == [1] * length


def test_the_router_that_would_close_the_loop_copies_nothing(api: Api) -> None:
    topics = names(3)
    routers = ring(api, topics)

    api.write(topics[0], 1, 2)

    assert [forwarded(api, name) for name in routers] == [2, 2, 0]


@each_guarantee
def test_writes_everywhere_are_everywhere_once(api: Api, guarantee: str) -> None:
    topics = names(4)
    ring(api, topics, guarantee=guarantee)

    for n, topic in enumerate(topics * 3):
        api.write(topic, n)

    for topic in topics:
        assert sorted(datas(api, topic)) == list(range(12))


@each_guarantee
def test_writes_everywhere_at_once_are_everywhere_once(api: Api, guarantee: str) -> None:
    topics = names(3)
    ring(api, topics, guarantee=guarantee)

    def work(worker: int) -> None:
        for n in range(15):
            api.write(topics[worker % 3], [worker, n])

    at_once(6, work)

    expected = [[worker, n] for worker in range(6) for n in range(15)]
    for topic in topics:
        assert sorted(datas(api, topic)) == expected


def test_a_record_written_again_is_another_record(api: Api) -> None:
    """It is the record that does not come back, not what it says."""
    a, b = names(2)
    ring(api, [a, b])

    api.write(a, "same")
    api.write(b, "same")
    api.write(a, "same")

    assert counted(api, [a, b]) == [3, 3]


@pytest.mark.parametrize("knobs", [{"preserve_node": False}, {"preserve_tag": False}], ids=repr)
def test_what_a_copy_drops_does_not_matter_for_loops(api: Api, knobs: dict[str, bool]) -> None:
    topics = names(3)
    ring(api, topics, **knobs)

    api.write(topics[1], records=[{"data": 1, "tag": "t", "node": "n"}])

    assert counted(api, topics) == [1, 1, 1]


def test_a_filter_opens_a_loop_where_it_holds(api: Api) -> None:
    a, b, c = names(3)
    chain(api, [a, b, c], allow_cycle=True)
    route(api, c, a, allow_cycle=True, filter="back")

    api.tagged(b, "back", "stay")

    assert (datas(api, a), datas(api, b), datas(api, c)) == (
        ["back"],
        ["back", "stay"],
        ["back", "stay"],
    )


def test_a_branch_of_a_loop_gets_each_record_once(api: Api) -> None:
    a, b, c, d, e = names(5)
    ring(api, [a, b, c])
    chain(api, [b, d, e])

    api.write(a, 1)
    api.write(c, 2)

    assert [datas(api, topic) for topic in (d, e)] == [[1, 2], [1, 2]]
    assert counted(api, [a, b, c]) == [2, 2, 2]


def test_two_routers_side_by_side_do_not_make_a_loop_larger(api: Api) -> None:
    a, b = names(2)
    for tag in ("x", "y"):
        put(api, f"{a}.{tag}", a, b, filter=tag, allow_cycle=True)
        put(api, f"{b}.{tag}", b, a, filter=tag, allow_cycle=True)

    api.tagged(a, "x", "y")
    api.tagged(b, "y", "z")

    assert sorted(datas(api, a)) == ["x", "y", "y"]
    assert sorted(datas(api, b)) == ["x", "y", "y", "z"]


def test_a_loop_closed_late_brings_nothing_back(api: Api) -> None:
    a, b = names(2)
    route(api, a, b)
    api.write(a, "early")

    closing = route(api, b, a, allow_cycle=True)
    api.write(a, "late")

    assert (datas(api, a), datas(api, b)) == (["early", "late"], ["early", "late"])
    remove(api, closing)
    api.write(b, "cut")
    assert datas(api, a) == ["early", "late"]


# Chains.


@each_guarantee
def test_a_record_travels_eight_hops(api: Api, guarantee: str) -> None:
    topics = names(10)
    routers = chain(api, topics, guarantee=guarantee)

    api.write(topics[0], "far")

    assert counted(api, topics) == [1] * 9 + [0]
    assert [datas(api, topic) for topic in topics] == [["far"]] * 9 + [[]]
    assert [forwarded(api, name) for name in routers] == [1] * HOPS_MAX + [0]


@pytest.mark.parametrize("first", [1, 2, 5])
def test_the_hops_count_from_where_a_record_was_written(api: Api, first: int) -> None:
    topics = names(12)
    chain(api, topics)

    api.write(topics[first], "from here")

    reached = range(first, min(first + HOPS_MAX, 11) + 1)
    assert counted(api, topics) == [int(n in reached) for n in range(12)]


def test_a_record_too_far_does_not_hold_up_the_next(api: Api) -> None:
    topics = names(10)
    chain(api, topics)

    api.write(topics[0], "too far")
    api.write(topics[1], "near enough")
    api.write(topics[9], "there already")

    assert sorted(datas(api, topics[9])) == ["near enough", "there already"]


def test_a_ring_of_more_topics_than_hops_ends_as_well(api: Api) -> None:
    topics = names(11)
    ring(api, topics)

    api.write(topics[4], "round")

    reached = {(4 + hop) % 11 for hop in range(HOPS_MAX + 1)}
    assert counted(api, topics) == [int(n in reached) for n in range(11)]


# Nodes.


def test_a_reader_of_the_dest_does_not_get_its_own(api: Api) -> None:
    source, dest = names(2)
    route(api, source, dest)
    api.write(source, "mine", node="me")
    api.write(source, "yours", node="you")
    api.write(source, "nobody's")
    assert api.state(dest)["head_seq"] == 3
    api.write(dest, "mine, direct", node="me")

    assert datas(api, dest, node="me") == ["yours", "nobody's"]
    assert datas(api, dest, node=["me", "you"]) == ["nobody's"]
    with api.follow([dest], node="me") as stream:
        assert seqs_in(stream.until("caught-up")) == [2, 3]
    with api.socket() as socket:
        socket.ask("subscribe", topic=dest, node="me")
        assert [record["data"] for record in socket.records(2)] == ["yours", "nobody's"]


def test_a_reader_gets_its_own_when_the_node_is_dropped(api: Api) -> None:
    source, dest = names(2)
    route(api, source, dest, preserve_node=False)

    api.write(source, "mine", node="me")

    assert datas(api, dest, node="me") == ["mine"]


def test_a_dest_that_does_not_filter_by_node_shows_all(api: Api) -> None:
    source, dest = names(2)
    api.create(dest, dedupe_node=False)
    route(api, source, dest)

    api.write(source, "mine", node="me")

    assert datas(api, dest, node="me") == ["mine"]


@each_guarantee
def test_each_node_of_a_mirror_reads_what_the_others_wrote_once(api: Api, guarantee: str) -> None:
    """Three nodes, each with a topic of its own to write and to read, and a ring between them."""
    topics, nodes = names(3), ["n0", "n1", "n2"]
    ring(api, topics, guarantee=guarantee)

    def work(worker: int) -> list[str]:
        seen: list[str] = []
        cursor = 0
        for n in itertools.count():
            if n < 10:
                api.write(topics[worker], f"{nodes[worker]}.{n}", node=nodes[worker])
            answer = api.diff(
                topics[worker], from_seq=cursor, node=nodes[worker], wait_ms=100 * (n >= 10)
            )
            seen += [record["data"] for record in answer["records"]]
            cursor = answer["next_from_seq"]
            if n >= 10 and len(seen) >= 20:
                return seen
            assert n < 1000, seen
        return seen

    for worker, seen in enumerate(at_once(3, work)):
        others = [node for node in nodes if node != nodes[worker]]
        assert sorted(seen) == sorted(f"{node}.{n}" for node in others for n in range(10))
        for node in others:
            own = [data for data in seen if data.startswith(node)]
            assert own == [f"{node}.{n}" for n in range(10)]
    for topic, node in zip(topics, nodes, strict=True):
        assert not [r for r in records(api, topic, node=node) if r["$node"] == node]
        assert len(records(api, topic)) == 30


def test_the_streams_of_a_mirror_are_quiet_about_ones_own(api: Api) -> None:
    topics, nodes = names(3), [new_name("n") for _ in range(3)]
    ring(api, topics)

    with (
        api.follow([topics[0]], node=nodes[0]) as one,
        api.follow([topics[1]], node=nodes[1]) as two,
        api.follow([topics[2]], node=nodes[2]) as three,
    ):
        for n in range(5):
            for topic, node in zip(topics, nodes, strict=True):
                api.write(topic, n, node=node)
        got = [stream.records(10) for stream in (one, two, three)]

    for node, seen in zip(nodes, got, strict=True):
        expected = [(other, n) for other in nodes if other != node for n in range(5)]
        assert sorted((record["$node"], record["data"]) for record in seen) == sorted(expected)
