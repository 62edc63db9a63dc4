"""PUT, GET and DELETE of a router: what they answer, and what goes with a topic."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from tests.server.conftest import Start
from tests.server.routers import (
    chain,
    datas,
    each_guarantee,
    forwarded,
    look,
    names,
    path,
    put,
    remove,
    ring,
    route,
)
from tests.server.support import CONFIG, Api, api_of, at_once, holds, new_name, refused

KNOBS = {
    "preserve_node": True,
    "preserve_tag": True,
    "filter": None,
    "allow_cycle": False,
    "guarantee": "at_least_once",
}
FIELDS = {"router", "source", "dest", "performance", *KNOBS}


@pytest.fixture
def name() -> str:
    return new_name("router")


@pytest.fixture
def ends() -> tuple[str, str]:
    """A source and a destination that do not exist yet."""
    return new_name("source"), new_name("dest")


# What is answered.


def test_a_new_router_says_what_it_is(api: Api, name: str, ends: tuple[str, str]) -> None:
    source, dest = ends

    reply = put(api, name, source, dest)

    assert reply.status == 201
    assert set(reply.json) >= FIELDS | {"created"}
    assert holds(
        reply.json, {"router": name, "created": True, "source": source, "dest": dest, **KNOBS}
    )


def test_a_router_is_given_back_with_its_count(api: Api, name: str, ends: tuple[str, str]) -> None:
    source, dest = ends
    knobs = {
        "preserve_node": False,
        "preserve_tag": False,
        "filter": ["tag", "Eq", "x"],
        "allow_cycle": True,
        "guarantee": "exactly_once",
    }
    put(api, name, source, dest, **knobs)

    found = look(api, name)

    assert set(found) >= FIELDS | {"forwarded_total"}
    assert holds(
        found, {"router": name, "source": source, "dest": dest, "forwarded_total": 0, **knobs}
    )


def test_the_count_is_that_of_the_moment(api: Api, name: str, ends: tuple[str, str]) -> None:
    source, dest = ends
    put(api, name, source, dest)

    api.write(source, "one")
    api.write(source, "two")

    assert forwarded(api, name) == 2
    api.write(source, *range(5))
    assert forwarded(api, name) == 7


def test_missing_topics_are_made_with_the_default_config(api: Api, ends: tuple[str, str]) -> None:
    route(api, *ends)

    for topic in ends:
        state = api.state(topic)
        assert state["config"] == CONFIG
        assert (state["head_seq"], state["count"]) == (0, 0)


def test_existing_topics_stay_as_they_are(api: Api, ends: tuple[str, str]) -> None:
    source, dest = ends
    api.create(source, cap_records=7)
    api.create(dest, type="queue", lease_ms=5000)
    before = [api.state(topic) for topic in ends]

    route(api, source, dest, create_dest=False)

    after = [api.state(topic) for topic in ends]
    assert [state["config"] for state in after] == [state["config"] for state in before]
    assert [state["epoch"] for state in after] == [state["epoch"] for state in before]


def test_a_missing_source_is_made_also_when_the_dest_may_not_be(
    api: Api, ends: tuple[str, str]
) -> None:
    source, dest = ends
    api.create(dest)

    route(api, source, dest, create_dest=False)

    assert api.state(source)["config"] == CONFIG


def test_a_router_put_again_is_the_same_one(api: Api, name: str, ends: tuple[str, str]) -> None:
    first = put(api, name, *ends)

    again = put(api, name, *ends)

    assert (first.status, again.status) == (201, 200)
    assert again.json["created"] is False
    assert holds(again.json, {"router": name, "source": ends[0], "dest": ends[1], **KNOBS})


def test_knobs_that_are_left_out_go_back_to_their_defaults(
    api: Api, name: str, ends: tuple[str, str]
) -> None:
    put(api, name, *ends, preserve_node=False, filter="x", guarantee="exactly_once")

    put(api, name, *ends)

    assert holds(look(api, name), KNOBS)
    assert look(api, name)["filter"] is None


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (None, None),
        ("flat:*", ["tag", "Glob", "flat:*"]),
        ("flat:7", ["tag", "Eq", "flat:7"]),
        ("*", ["tag", "Glob", "*"]),
        (["tag", "Eq", "flat:*"], ["tag", "Eq", "flat:*"]),
        (["tag", "Glob", "flat:*"], ["tag", "Glob", "flat:*"]),
    ],
    ids=repr,
)
def test_a_filter_is_shown_in_its_full_form(
    api: Api, name: str, ends: tuple[str, str], given: Any, shown: Any
) -> None:
    assert put(api, name, *ends, filter=given).json["filter"] == shown
    assert look(api, name)["filter"] == shown


@each_guarantee
def test_both_guarantees_are_known(
    api: Api, name: str, ends: tuple[str, str], guarantee: str
) -> None:
    assert put(api, name, *ends, guarantee=guarantee).json["guarantee"] == guarantee


def test_unknown_fields_are_passed_over(api: Api, name: str, ends: tuple[str, str]) -> None:
    assert put(api, name, *ends, colour="blue", nested={"deep": [1]}).status == 201


def test_an_arrow_in_a_name_may_be_percent_encoded(api: Api) -> None:
    source, dest = names(2)
    name = f"{source}->{dest}"
    body = {"source": source, "dest": dest}

    assert api.put(f"/v0/routers/{source}-%3E{dest}", body).json["router"] == name
    assert api.put(f"/v0/routers/{source}-%3e{dest}", body).status == 200
    assert api.get(f"/v0/routers/{source}-%3E{dest}").json["router"] == name
    assert remove(api, name)


def test_a_missing_router_is_not_found(api: Api, name: str) -> None:
    for _ in range(2):
        refused(api.get(path(name)), 404, "router_not_found", {"router": name})


def test_a_deleted_router_is_gone(api: Api, name: str, ends: tuple[str, str]) -> None:
    put(api, name, *ends)

    reply = api.delete(path(name))

    assert holds(reply.json, {"router": name, "deleted": True})
    refused(api.get(path(name)), 404, "router_not_found", {"router": name})
    assert [api.state(topic)["count"] for topic in ends] == [0, 0]


def test_deleting_what_is_not_there_is_fine(api: Api, name: str) -> None:
    reply = api.delete(path(name))

    assert reply.status == 200
    assert holds(reply.json, {"router": name, "deleted": False})


def test_one_of_many_makes_the_router(api: Api, name: str, ends: tuple[str, str]) -> None:
    replies = at_once(8, lambda _: put(api, name, *ends))

    assert sorted(reply.status for reply in replies) == [200] * 7 + [201]
    assert [reply.json["created"] for reply in replies].count(True) == 1


# The end of a topic takes its routers with it.


def test_the_routers_of_a_topic_go_with_it_and_are_named(api: Api) -> None:
    before, topic, one, two, other = names(5)
    there = route(api, before, topic)
    gone = [there, route(api, topic, two), route(api, topic, one), route(api, topic, other, "A>b")]
    kept = route(api, one, new_name())

    answer = api.drop(topic)

    assert holds(answer, {"topic": topic, "deleted": True})
    assert answer["routers_removed"] == sorted(gone)
    for name in gone:
        refused(api.get(path(name)), 404, "router_not_found", {"router": name})
    assert look(api, kept)["source"] == one


@pytest.mark.parametrize("end", [0, 1])
def test_a_topic_made_anew_has_no_routers(api: Api, ends: tuple[str, str], end: int) -> None:
    source, dest = ends
    name = route(api, source, dest)
    assert api.drop(ends[end])["routers_removed"] == [name]

    api.create(ends[end])
    api.write(source, "later")

    assert datas(api, dest) == []
    assert put(api, name, dest, source).json["created"] is True


def test_a_topic_that_stays_keeps_its_routers(api: Api, ends: tuple[str, str]) -> None:
    source, dest = ends
    name = route(api, source, dest)
    api.write(source, 1)

    reply = api.delete(f"/v0/topics/{source}?if_empty=true")

    refused(reply, 409, "topic_not_empty", {"count": 1})
    assert forwarded(api, name) == 1
    assert api.drop(new_name())["routers_removed"] == []


def test_both_routers_of_a_loop_go_with_either_topic(api: Api) -> None:
    topics = names(2)
    both = ring(api, topics)

    assert api.drop(topics[1])["routers_removed"] == sorted(both)
    assert api.drop(topics[0])["routers_removed"] == []


# Told elsewhere.


def test_routers_are_counted_in_the_metrics(start: Start) -> None:
    api = api_of(start())

    def counted() -> int:
        tree = api.get("/v0/metrics", {"Accept": "application/json"}).json
        lines = api.get("/v0/metrics").body.decode().splitlines()
        [line] = [line for line in lines if line.startswith("penstock_routers ")]
        assert float(line.split()[1]) == tree["routers"]
        return int(tree["routers"])

    assert counted() == 0
    chain(api, "abcd")
    put(api, "a->b", "a", "b", filter="x")
    assert counted() == 3
    remove(api, "c->d")
    assert counted() == 2
    api.drop("b")
    assert counted() == 0


def test_the_routes_are_in_the_document(api: Api) -> None:
    paths = api.get("/v0/openapi.json").json["paths"]
    found = {
        target.partition("{")[0]: set(verbs) & {"get", "put", "post", "delete"}
        for target, verbs in paths.items()
        if target.startswith("/v0/routers")
    }

    assert found == {"/v0/routers": {"get"}, "/v0/routers/": {"get", "put", "delete"}}


def test_a_router_is_addressed_by_the_name_it_means(api: Api, ends: tuple[str, str]) -> None:
    name = route(api, *ends)
    everything = "".join(f"%{byte:02X}" for byte in name.encode())

    assert api.get(f"/v0/routers/{everything}").json["router"] == name
    assert api.get(f"/v0/routers/{quote(quote(name))}").status in (400, 404)
