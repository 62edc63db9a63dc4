"""What a router copies: which records, in which order, and what of each."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest

from tests.server.queues import claim, nack, queue
from tests.server.routers import (
    chain,
    datas,
    each_guarantee,
    forwarded,
    names,
    put,
    records,
    route,
)
from tests.server.support import BATCH, JSON, Api, at_once, new_name

KIB = 1024


@pytest.fixture
def ends() -> tuple[str, str]:
    return new_name("source"), new_name("dest")


# A copy.


def test_a_copy_has_its_own_seq_and_the_rest_of_its_original(
    api: Api, ends: tuple[str, str]
) -> None:
    source, dest = ends
    api.write(source, *range(3))
    route(api, source, dest)
    originals: list[Any] = [
        {"data": {"w": 41}, "tag": "flat:7", "node": "gw", "meta": {"k": {"deep": [1]}}},
        {"data": None},
        {"data": [1, "é"], "meta": "text"},
    ]

    api.write(source, records=originals)

    copies = records(api, dest, include_tags=True)
    expected = [
        {"$" * (key in ("tag", "node")) + key: value for key, value in one.items()}
        for one in originals
    ]
    assert [copy.pop("$seq") for copy in copies] == [1, 2, 3]
    times = [copy.pop("$ts") for copy in copies]
    assert copies == expected
    written = records(api, source)[3]["$ts"]
    assert all(time >= written for time in times)


@each_guarantee
def test_payloads_are_copied_byte_for_byte(api: Api, ends: tuple[str, str], guarantee: str) -> None:
    source, dest = ends
    route(api, source, dest, guarantee=guarantee)
    data, meta = b'{"b":1.50,"a":[1e2,"\\u00e9"],"b":2}', b'{"z":0.10,"y":"\\/"}'

    api.post(f"/v0/topics/{source}", b'{"records":[{"data":%b,"meta":%b}]}' % (data, meta), JSON)

    for topic in ends:
        body = api.post(f"/v0/topics/{topic}/diff", {}).body
        assert b'"data":' + data in body
        if guarantee == "at_least_once":
            assert b'"meta":' + meta in body


@pytest.mark.parametrize(
    ("knobs", "keys"),
    [
        ({}, ["$node", "$tag"]),
        ({"preserve_node": False}, ["$tag"]),
        ({"preserve_tag": False}, ["$node"]),
        ({"preserve_node": False, "preserve_tag": False}, []),
    ],
    ids=repr,
)
@each_guarantee
def test_node_and_tag_are_kept_or_dropped(
    api: Api, ends: tuple[str, str], knobs: dict[str, bool], keys: list[str], guarantee: str
) -> None:
    source, dest = ends
    route(api, source, dest, guarantee=guarantee, **knobs)

    api.write(source, records=[{"data": 1, "tag": "t", "node": "n"}])

    [copy] = records(api, dest, include_tags=True)
    assert sorted(set(copy) & {"$node", "$tag"}) == keys
    [original] = records(api, source, include_tags=True)
    assert (original["$tag"], original["$node"]) == ("t", "n")


def test_the_node_of_a_batch_is_that_of_its_copies(api: Api, ends: tuple[str, str]) -> None:
    source, dest = ends
    route(api, source, dest)

    api.write(source, records=[{"data": 1}, {"data": 2, "node": "own"}], node="batch")

    assert [copy["$node"] for copy in records(api, dest)] == ["batch", "own"]


@each_guarantee
def test_a_record_as_large_as_may_be_is_copied(
    api: Api, ends: tuple[str, str], guarantee: str
) -> None:
    source, dest = ends
    route(api, source, dest, guarantee=guarantee)
    meta = {"k": "m" * (16 * KIB - len('{"k":""}'))}
    large = {"data": "x" * (1024 * KIB - 2 - 16 * KIB), "meta": meta, "tag": "t" * 256}

    api.write(source, records=[large | {"node": "n" * 128}])
    api.write(source, "after")

    [copy, after] = records(api, dest, include_tags=True)
    assert (copy["data"], copy["$tag"]) == (large["data"], large["tag"])
    assert meta["k"] in repr(copy["meta"])
    assert after["data"] == "after"


# Exactly once.


def stamped(api: Api, name: str, source: str, copy: Any, seq: int) -> Any:
    """Check the stamp of a copy; the rest of its meta."""
    rest = dict(copy["meta"])
    stamp = rest.pop("_topics_router")
    topic_id, epoch = stamp["source_topic_id"], api.state(source)["epoch"]
    assert stamp == {
        "idempotency_key": f"router:{name}:{topic_id}:{epoch}:{seq}",
        "router": name,
        "source_topic": source,
        "source_topic_id": topic_id,
        "source_epoch": epoch,
        "source_seq": seq,
    }
    return rest


def sixty_three() -> dict[str, int]:
    return {f"k{n}": n for n in range(63)}


@pytest.mark.parametrize(
    ("meta", "rest"),
    [
        (..., {}),
        ({}, {}),
        ({"k": {"deep": 1}}, {"k": {"deep": 1}}),
        (sixty_three(), sixty_three()),
        ({**sixty_three(), "k": 1}, {"_topics_original_meta": {**sixty_three(), "k": 1}}),
        ("text", {"_topics_original_meta": "text"}),
        ([1, {"a": None}], {"_topics_original_meta": [1, {"a": None}]}),
        (5, {"_topics_original_meta": 5}),
        (False, {"_topics_original_meta": False}),
    ],
    ids=lambda meta: repr(meta)[:30],
)
def test_a_copy_made_exactly_once_says_where_it_is_from(
    api: Api, ends: tuple[str, str], meta: Any, rest: Any
) -> None:
    source, dest = ends
    api.write(source, "before", "too")
    name = route(api, source, dest, guarantee="exactly_once")

    api.write(source, records=[{"data": 1} | ({} if meta is ... else {"meta": meta})])

    [copy] = records(api, dest)
    assert copy["data"] == 1
    assert stamped(api, name, source, copy, 3) == rest
    assert records(api, source)[2].get("meta", ...) == meta


def test_each_copy_has_the_stamp_of_its_own_original(api: Api, ends: tuple[str, str]) -> None:
    source, dest = ends
    name = route(api, source, dest, guarantee="exactly_once", filter="b")

    api.tagged(source, "a", "b", "b", None, "b")

    for copy, seq in zip(records(api, dest), (2, 3, 5), strict=True):
        assert stamped(api, name, source, copy, seq) == {}


def test_the_stamp_is_that_of_the_last_router(api: Api) -> None:
    topics = names(3)
    _, last = chain(api, topics, guarantee="exactly_once")

    api.write(topics[0], records=[{"data": 1, "meta": {"own": 1}}])

    [copy] = records(api, topics[2])
    assert stamped(api, last, topics[1], copy, 1)["own"] == 1


def test_a_source_made_anew_has_other_stamps(api: Api, ends: tuple[str, str]) -> None:
    source, dest = ends
    for _ in range(2):
        name = route(api, source, dest, guarantee="exactly_once")
        api.write(source, "same seq")
        stamped(api, name, source, records(api, dest)[-1], 1)
        api.drop(source)

    keys = {copy["meta"]["_topics_router"]["idempotency_key"] for copy in records(api, dest)}
    assert len(keys) == 2


def test_without_that_guarantee_there_is_no_stamp(api: Api, ends: tuple[str, str]) -> None:
    source, dest = ends
    route(api, source, dest)

    api.write(source, records=[{"data": 1, "meta": {"k": 1}}, {"data": 2}])

    assert [copy.get("meta") for copy in records(api, dest)] == [{"k": 1}, None]


def test_the_guarantee_can_be_changed_on_the_way(api: Api, ends: tuple[str, str]) -> None:
    source, dest = ends
    for guarantee in ("at_least_once", "exactly_once", "at_least_once"):
        route(api, source, dest, guarantee=guarantee)
        api.write(source, guarantee)

    copies = records(api, dest)
    assert ["meta" in copy for copy in copies] == [False, True, False]
    assert forwarded(api, f"{source}->{dest}") == 3


# Filters.

TAGS = ["chat-42:a", "chat-420:c", None, "chat-42:b", "x", "chat-42:*"]


@pytest.mark.parametrize(
    ("chosen", "copied"),
    [
        (None, TAGS),
        ("chat-42:a", ["chat-42:a"]),
        ("chat-42:*", ["chat-42:a", "chat-42:b", "chat-42:*"]),
        (["tag", "Glob", "chat-42:*"], ["chat-42:a", "chat-42:b", "chat-42:*"]),
        (["tag", "Eq", "chat-42:*"], ["chat-42:*"]),
        ("*", [tag for tag in TAGS if tag]),
        (["tag", "Glob", "*"], [tag for tag in TAGS if tag]),
        ("chat", []),
        ("CHAT-42:a", []),
    ],
    ids=str,
)
@each_guarantee
def test_a_filter_chooses_by_tag(
    api: Api, ends: tuple[str, str], chosen: Any, copied: list[Any], guarantee: str
) -> None:
    source, dest = ends
    name = route(api, source, dest, filter=chosen, guarantee=guarantee)

    api.tagged(source, *TAGS)

    assert datas(api, dest) == copied
    assert [copy["$seq"] for copy in records(api, dest)] == list(range(1, len(copied) + 1))
    assert forwarded(api, name) == len(copied)


def test_a_dropped_tag_is_not_there_for_the_next_filter(api: Api) -> None:
    a, b, c, d = names(4)
    route(api, a, b, filter="x", preserve_tag=False)
    route(api, b, c, filter="*")
    route(api, b, d)

    api.tagged(a, "x")

    assert (datas(api, b), datas(api, c), datas(api, d)) == (["x"], [], ["x"])


def test_a_changed_filter_holds_for_what_is_written_then(api: Api, ends: tuple[str, str]) -> None:
    source, dest = ends
    for chosen in ("a", "b", None, "c"):
        route(api, source, dest, filter=chosen)
        api.tagged(source, "a", "b", None)

    assert datas(api, dest) == ["a", "b", "a", "b", None]


# Which writes.


def by_call(api: Api, source: str, data: str) -> None:
    api.write(source, data)


def by_batch(api: Api, source: str, data: str) -> None:
    writes = [{"topic": topic, "records": [{"data": data}]} for topic in (source, new_name())]
    assert api.post("/v0/batch", {"writes": writes}).status == 200


def by_frames(api: Api, source: str, data: str) -> None:
    text = f'"{data}"'.encode()
    head, lengths = b"PSB1" + struct.pack("<I", 2), struct.pack("<IIHH", len(text), 0, 0, 0)
    body = head + b"{}" + struct.pack("<I", 1) + lengths + text
    assert api.post(f"/v0/topics/{source}", body, {"Content-Type": BATCH}).status == 200


def by_socket(api: Api, source: str, data: str) -> None:
    with api.socket() as socket:
        assert socket.ask("publish", topic=source, records=[{"data": data}])["op"] == "ack"


def by_death(api: Api, source: str, data: str) -> None:
    jobs = new_name("jobs")
    queue(api, jobs, data, max_deliveries=1, dead_letter=source)
    claim(api, jobs)
    nack(api, jobs, 1)
    assert claim(api, jobs)["claimed"] == []


@pytest.mark.parametrize("write", [by_call, by_batch, by_frames, by_socket, by_death])
def test_a_record_is_copied_however_it_was_written(
    api: Api, ends: tuple[str, str], write: Callable[[Api, str, str], None]
) -> None:
    source, dest = ends
    route(api, source, dest)

    for data in ("one", "two"):
        write(api, source, data)

    assert datas(api, dest) == ["one", "two"]


def test_one_batch_over_both_ends_is_in_the_dest_twice(api: Api, ends: tuple[str, str]) -> None:
    source, dest = ends
    route(api, source, dest)

    writes = [{"topic": topic, "records": [{"data": topic}]} for topic in ends]
    assert api.post("/v0/batch", {"writes": writes}).status == 200

    assert sorted(datas(api, dest)) == sorted(ends)
    assert datas(api, source) == [source]


def test_a_write_that_is_repeated_is_copied_once(api: Api, ends: tuple[str, str]) -> None:
    source, dest = ends
    route(api, source, dest)

    for _ in range(3):
        api.write(source, "once", idempotency_key="k")

    assert datas(api, dest) == ["once"]


def test_a_write_that_is_refused_is_not_copied(api: Api, ends: tuple[str, str]) -> None:
    source, dest = ends
    api.create(source, cap_records=2, discard="reject")
    route(api, source, dest)
    api.write(source, 1, 2)

    assert api.post(f"/v0/topics/{source}", {"records": [{"data": 3}]}).status == 422

    assert datas(api, dest) == [1, 2]


# Several at once.


def test_every_dest_gets_every_record(api: Api, ends: tuple[str, str]) -> None:
    source, _ = ends
    dests = names(5)
    for dest in dests:
        route(api, source, dest)

    api.write(source, *range(10))

    assert [datas(api, dest) for dest in dests] == [list(range(10))] * 5


@each_guarantee
def test_the_order_of_the_source_is_that_of_the_dest(
    api: Api, ends: tuple[str, str], guarantee: str
) -> None:
    source, dest = ends
    name = route(api, source, dest, guarantee=guarantee)

    def work(worker: int) -> None:
        for n in range(15):
            api.write(source, f"{worker}.{n}a", f"{worker}.{n}b")
            if worker == 0:
                api.state(dest)

    at_once(6, work)

    assert len(datas(api, source)) == 6 * 30
    assert datas(api, dest) == datas(api, source)
    assert [copy["$seq"] for copy in records(api, dest)] == list(range(1, 181))
    assert forwarded(api, name) == 180


@each_guarantee
def test_a_dest_takes_direct_writes_in_between(
    api: Api, ends: tuple[str, str], guarantee: str
) -> None:
    source, dest = ends
    route(api, source, dest, guarantee=guarantee)

    def work(worker: int) -> None:
        for n in range(20):
            api.write(ends[worker % 2], [worker, n])

    at_once(6, work)

    found = datas(api, dest)
    assert [data for data in found if data[0] % 2 == 0] == datas(api, source)
    for worker in (1, 3, 5):
        assert [n for who, n in found if who == worker] == list(range(20))
    assert [copy["$seq"] for copy in records(api, dest)] == list(range(1, 121))


def test_direct_writes_and_copies_take_turns(api: Api, ends: tuple[str, str]) -> None:
    source, dest = ends
    route(api, source, dest)

    for n in range(5):
        api.write(source, f"copy {n}")
        api.state(dest)
        assert api.write(dest, f"own {n}")["first_seq"] == 2 * n + 2

    assert datas(api, dest) == [f"{kind} {n}" for n in range(5) for kind in ("copy", "own")]


def test_a_router_made_while_others_write_copies_a_whole_rest(
    api: Api, ends: tuple[str, str]
) -> None:
    source, dest = ends
    api.create(source)

    def work(worker: int) -> None:
        if worker == 0:
            put(api, new_name(), source, dest)
            return
        for n in range(20):
            api.write(source, [worker, n])

    at_once(4, work)
    api.write(source, "last")

    everything, copied = datas(api, source), datas(api, dest)
    assert len(everything) == 61
    assert copied
    assert copied == everything[-len(copied) :]
