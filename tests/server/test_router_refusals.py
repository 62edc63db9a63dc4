"""What a PUT of a router refuses, and which check comes first."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.conftest import Start
from tests.server.routers import chain, datas, forwarded, look, names, path, put, remove, route
from tests.server.support import JSON, Api, api_of, at_once, holds, new_name, refused
from tests.server.wire import Reply


@pytest.fixture
def name() -> str:
    return new_name("router")


@pytest.fixture
def ends() -> tuple[str, str]:
    """A source and a destination that do not exist yet."""
    return new_name("source"), new_name("dest")


def fan_in(reply: Reply) -> None:
    refused(reply, 409, "topic_exists_incompatible", {"reason": "router_dest_fan_in"})


def repointed(reply: Reply) -> None:
    refused(reply, 409, "topic_exists_incompatible", {"reason": "router_repoint_forbidden"})


def throttled(reply: Reply, most: int) -> None:
    detail = refused(reply, 429, "throttled")
    assert detail == {"limit": "max_routers", "max": most}
    assert reply.headers["retry-after"] == "1"


def absent(api: Api, *topics: str) -> None:
    for topic in topics:
        refused(api.get(f"/v0/topics/{topic}"), 404, "topic_not_found")


# Bodies and names.

BAD_TOPICS = ["", ".a", "-a", "a b", "a/b", "é", "a\n", "a>b", "a" * 256, "a*"]
BAD_ROUTERS = [".a", "-a", "a b", "a/b", "é", "a\n", "a" * 256, "a*", "a%"]
WRONG = [
    {"source": ...},
    {"dest": ...},
    {"source": None},
    {"dest": None},
    {"source": 5},
    {"dest": ["d"]},
    {"preserve_node": "yes"},
    {"preserve_node": 1},
    {"preserve_tag": "no"},
    {"create_dest": "true"},
    {"allow_cycle": 0},
    {"guarantee": "at_most_once"},
    {"guarantee": ""},
    {"guarantee": 5},
    {"filter": 5},
    {"filter": True},
    {"filter": []},
    {"filter": {"tag": "a"}},
    {"filter": ["tag", "Eq"]},
    {"filter": ["tag", "Eq", "a", "b"]},
    {"filter": ["tag", "Eq", 5]},
    {"filter": ["node", "Eq", "a"]},
    {"filter": ["tag", "eq", "a"]},
    {"filter": ["tag", "Glob", "a"]},
    {"filter": ["tag", "Glob", "a*b"]},
]


@pytest.mark.parametrize("change", WRONG, ids=repr)
def test_a_body_of_wrong_types_is_invalid_and_makes_nothing(
    api: Api, name: str, ends: tuple[str, str], change: dict[str, Any]
) -> None:
    body = {"source": ends[0], "dest": ends[1]} | change
    body = {field: value for field, value in body.items() if value is not ...}

    refused(api.put(path(name), body), 400, "invalid_request")

    refused(api.get(path(name)), 404, "router_not_found")
    absent(api, *ends)


def test_a_body_of_wrong_types_leaves_a_router_as_it_is(
    api: Api, name: str, ends: tuple[str, str]
) -> None:
    put(api, name, *ends, filter="x")

    refused(put(api, name, *ends, filter=5), 400, "invalid_request")

    assert look(api, name)["filter"] == ["tag", "Eq", "x"]


@pytest.mark.parametrize("body", [b"{", b"[]", b"5", b"null", b'"source"', b"\xff"], ids=repr)
def test_broken_json_is_invalid(api: Api, name: str, body: bytes) -> None:
    refused(api.call("PUT", path(name), body, JSON), 400, "invalid_request")


def test_a_body_of_another_type_is_refused_before_it_is_read(api: Api, name: str) -> None:
    for headers in ({"Content-Type": "text/plain"}, {"Content-Type": ""}, {}):
        reply = api.call("PUT", path(name), b"not json", headers)
        refused(reply, 415, "unsupported_media_type")


def test_an_empty_body_is_judged_by_its_type(api: Api, name: str) -> None:
    refused(api.put(path(name)), 415, "unsupported_media_type")
    refused(api.call("PUT", path(name), b"", JSON), 400, "invalid_request")


@pytest.mark.parametrize("topic", BAD_TOPICS, ids=lambda name: repr(name)[:20])
def test_a_bad_name_of_a_topic_is_invalid_at_either_end(api: Api, name: str, topic: str) -> None:
    good = new_name()

    refused(put(api, name, topic, good), 400, "invalid_request")
    refused(put(api, name, good, topic), 400, "invalid_request")

    absent(api, good)
    refused(api.get(path(name)), 404, "router_not_found")


@pytest.mark.parametrize("name", BAD_ROUTERS, ids=lambda name: repr(name)[:20])
def test_a_bad_name_of_a_router_is_invalid(api: Api, ends: tuple[str, str], name: str) -> None:
    refused(put(api, name, *ends), 400, "invalid_request")

    absent(api, *ends)
    assert api.get(path(name)).status in (400, 404)
    reply = api.delete(path(name))
    assert reply.status == 400 or reply.json["deleted"] is False


@pytest.mark.parametrize("end", [">", "->x", "a.b_c:d-e>f"])
def test_a_good_name_of_a_router_is_taken(api: Api, ends: tuple[str, str], end: str) -> None:
    name = new_name("r") + end

    assert put(api, name, *ends).json["router"] == name
    assert look(api, name)["router"] == name


def test_a_name_of_255_characters_is_taken(api: Api, ends: tuple[str, str]) -> None:
    name = new_name("long").ljust(255, ">")

    assert put(api, name, *ends).status == 201
    assert look(api, name)["router"] == name


def test_names_that_differ_in_case_are_different_routers(api: Api) -> None:
    name, (source, one, two) = new_name("Case"), names(3)
    put(api, name, source, one)

    assert put(api, name.swapcase(), source, two).status == 201
    assert look(api, name)["dest"] == one


def test_a_topic_and_a_router_may_have_one_name(api: Api, ends: tuple[str, str]) -> None:
    source, dest = ends

    assert put(api, source, source, dest).status == 201
    assert api.drop(source)["routers_removed"] == [source]


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("PUT", "/v0/routers"),
        ("POST", "/v0/routers"),
        ("DELETE", "/v0/routers"),
        ("PATCH", "/v0/routers"),
        ("POST", "/v0/routers/r"),
        ("PATCH", "/v0/routers/r"),
    ],
)
def test_the_wrong_verb_is_not_allowed(api: Api, method: str, target: str) -> None:
    reply = api.call(method, target)

    refused(reply, 405, "method_not_allowed")
    possible = reply.headers["allow"].split(", ")
    assert "GET" in possible
    assert method not in possible
    for other in possible:
        assert api.call(other, target).status != 405


@pytest.mark.parametrize("target", ["/v0/routers/", "/v0/routers/r/", "/v0/routers/r/diff"])
def test_there_is_nothing_below_a_router(api: Api, target: str) -> None:
    refused(api.get(target), 404, "not_found")


# Refusals, and which comes first.


def test_a_topic_is_not_its_own_dest(api: Api, name: str, topic: str) -> None:
    refused(put(api, name, topic, topic, allow_cycle=True), 400, "invalid_request")

    absent(api, topic)


def test_a_dest_that_may_not_be_made_has_to_be_there(
    api: Api, name: str, ends: tuple[str, str]
) -> None:
    source, dest = ends

    reply = put(api, name, source, dest, create_dest=False)

    refused(reply, 404, "topic_not_found", {"topic": dest})
    refused(api.get(path(name)), 404, "router_not_found", {"router": name})
    absent(api, source, dest)


def test_a_dest_has_one_source(api: Api, name: str, ends: tuple[str, str]) -> None:
    source, dest = ends
    other = new_name()
    route(api, source, dest)

    fan_in(put(api, name, other, dest))

    refused(api.get(path(name)), 404, "router_not_found")
    absent(api, other)


def test_a_dest_may_have_several_routers_from_one_source(api: Api, ends: tuple[str, str]) -> None:
    source, dest = ends
    for tag in ("a", "b"):
        assert put(api, f"{source}.{tag}", source, dest, filter=tag).status == 201

    api.tagged(source, "a", "b", "c", "a")

    assert sorted(datas(api, dest)) == [*"aab"]
    assert [forwarded(api, f"{source}.{tag}") for tag in ("a", "b")] == [2, 1]


def test_a_dest_takes_another_source_when_the_first_has_gone(
    api: Api, name: str, ends: tuple[str, str]
) -> None:
    source, dest = ends
    remove(api, route(api, source, dest))

    assert put(api, name, new_name(), dest).status == 201


def test_a_router_stays_between_its_topics(api: Api, name: str, ends: tuple[str, str]) -> None:
    source, dest = ends
    other = new_name()
    put(api, name, source, dest)

    repointed(put(api, name, source, other))
    repointed(put(api, name, other, dest))
    repointed(put(api, name, dest, source, allow_cycle=True))

    absent(api, other)
    assert holds(look(api, name), {"source": source, "dest": dest, "allow_cycle": False})


@pytest.mark.parametrize("length", [2, 3, 5])
def test_a_loop_is_refused_and_shown(api: Api, name: str, length: int) -> None:
    topics = names(length)
    chain(api, topics)

    reply = put(api, name, topics[-1], topics[0])

    refused(reply, 409, "router_cycle", {"cycle": [topics[-1], *topics]})
    refused(api.get(path(name)), 404, "router_not_found")


def test_a_loop_in_the_middle_of_a_chain_shows_only_itself(api: Api, name: str) -> None:
    a, b, c, d, e = names(5)
    chain(api, [a, b, c, d, e])
    remove(api, f"{a}->{b}")

    refused(put(api, name, d, b), 409, "router_cycle", {"cycle": [d, b, c, d]})


def test_a_loop_is_made_when_it_is_meant(api: Api, name: str) -> None:
    a, b = names(2)
    route(api, a, b)

    assert put(api, name, b, a, allow_cycle=True).status == 201
    assert look(api, name)["allow_cycle"] is True


def test_a_loop_that_is_no_longer_meant_is_refused(api: Api, name: str) -> None:
    a, b = names(2)
    route(api, a, b)
    put(api, name, b, a, allow_cycle=True)

    refused(put(api, name, b, a), 409, "router_cycle", {"cycle": [b, a, b]})

    assert look(api, name)["allow_cycle"] is True
    assert put(api, name, b, a, allow_cycle=True, filter="x").status == 200


def test_a_router_does_not_close_a_loop_with_itself(api: Api) -> None:
    """Put again, its own edge does not count."""
    topics = names(4)
    chain(api, topics)

    for name in chain(api, topics, filter="x"):
        assert look(api, name)["filter"] == ["tag", "Eq", "x"]


def test_a_loop_is_possible_again_when_the_chain_is_cut(api: Api, name: str) -> None:
    a, b, c = names(3)
    [first, _] = chain(api, [a, b, c])

    remove(api, first)

    assert put(api, name, c, a).status == 201


def test_names_are_checked_before_the_dest_is_looked_for(api: Api, ends: tuple[str, str]) -> None:
    source, dest = ends
    name = new_name("r")

    for reply in (
        put(api, ".bad", source, dest, create_dest=False),
        put(api, name, source, source, create_dest=False),
        put(api, name, ".bad", dest, create_dest=False),
        put(api, name, source, ".bad", create_dest=False),
    ):
        refused(reply, 400, "invalid_request")
    absent(api, *ends)


def test_a_missing_dest_comes_before_a_router_pointed_elsewhere(
    api: Api, name: str, ends: tuple[str, str]
) -> None:
    put(api, name, *ends)
    missing = new_name()

    reply = put(api, name, ends[0], missing, create_dest=False)

    refused(reply, 404, "topic_not_found", {"topic": missing})


def test_a_second_source_comes_before_a_router_pointed_elsewhere(api: Api, name: str) -> None:
    a, b, c, d = names(4)
    route(api, a, b)
    put(api, name, c, d)

    fan_in(put(api, name, c, b))

    assert look(api, name)["dest"] == d


def test_a_second_source_comes_before_a_loop(api: Api, name: str) -> None:
    a, b, c = names(3)
    chain(api, [a, b, c])

    fan_in(put(api, name, c, b))


def test_a_router_pointed_elsewhere_comes_before_a_loop(api: Api, name: str) -> None:
    a, b, c, d = names(4)
    route(api, a, b)
    put(api, name, c, d)

    repointed(put(api, name, b, a))


# The cap.


def test_routers_are_capped_and_existing_ones_go_on(start: Start) -> None:
    api = api_of(start(PENSTOCK_MAX_ROUTERS="2"))
    route(api, "a", "b", "one")
    route(api, "a", "c", "two")

    throttled(put(api, "three", "x", "y"), 2)

    absent(api, "x", "y")
    refused(api.get("/v0/routers/three"), 404, "router_not_found")
    assert put(api, "one", "a", "b", filter="tag").status == 200
    assert look(api, "one")["filter"] == ["tag", "Eq", "tag"]
    remove(api, "two")
    assert put(api, "three", "x", "y").status == 201


def test_a_topic_that_goes_makes_room_for_routers(start: Start) -> None:
    api = api_of(start(PENSTOCK_MAX_ROUTERS="1"))
    route(api, "a", "b")
    throttled(put(api, "r", "x", "y"), 1)

    api.drop("a")

    assert put(api, "r", "x", "y").status == 201


def test_the_cap_comes_after_wrong_ends_and_before_a_loop(start: Start) -> None:
    api = api_of(start(PENSTOCK_MAX_ROUTERS="1"))
    route(api, "a", "b", "one")

    refused(put(api, "two", "x", "x"), 400, "invalid_request")
    refused(put(api, "two", "x", "y", create_dest=False), 404, "topic_not_found", {"topic": "y"})
    fan_in(put(api, "two", "x", "b"))
    repointed(put(api, "one", "a", "x"))
    throttled(put(api, "two", "b", "a"), 1)
    throttled(put(api, "two", "b", "a", allow_cycle=True), 1)
    absent(api, "x", "y")


def test_the_routers_of_before_count_after_a_restart(start: Start) -> None:
    server = start(PENSTOCK_MAX_ROUTERS="2")
    chain(api_of(server), ["a", "b", "c"])
    server.kill()
    api = api_of(server.start())

    throttled(put(api, "more", "c", "d"), 2)

    remove(api, "a->b")
    assert put(api, "more", "c", "d").status == 201


def test_no_cap_when_it_is_zero(start: Start) -> None:
    api = api_of(start(PENSTOCK_MAX_ROUTERS="0"))

    assert len(chain(api, [f"t{n}" for n in range(6)])) == 5


def test_a_race_for_the_last_routers_does_not_exceed_the_cap(start: Start) -> None:
    api = api_of(start(PENSTOCK_MAX_ROUTERS="3"))

    statuses = at_once(12, lambda n: put(api, f"r{n}", f"a{n}", f"b{n}").status)

    assert sorted(statuses) == [201] * 3 + [429] * 9
    assert len(api.get("/v0/routers").json["routers"]) == 3
    assert len(api.get("/v0/topics").json["topics"]) == 6


def test_a_router_whose_topics_find_no_room_is_not_stored(start: Start) -> None:
    api = api_of(start(PENSTOCK_MAX_TOPICS="2"))
    api.create("a")

    reply = put(api, "r", "x", "y")

    assert refused(reply, 429, "throttled") == {"limit": "max_topics", "max": 2}
    refused(api.get("/v0/routers/r"), 404, "router_not_found")
    assert len(api.get("/v0/topics").json["topics"]) <= 2
    assert put(api, "r", "a", "b").status in (201, 429)


# At the same time.


def test_one_of_many_sources_gets_the_dest(api: Api, topic: str) -> None:
    sources = names(6)

    statuses = at_once(6, lambda n: put(api, f"{topic}.{n}", sources[n], topic).status)

    assert sorted(statuses) == [201] + [409] * 5


def test_two_routers_against_each_other_do_not_make_a_loop(api: Api) -> None:
    for _ in range(10):
        ends = names(2)

        replies = at_once(2, lambda n, ends=ends: put(api, new_name(), ends[n], ends[1 - n]))

        assert sorted(reply.status for reply in replies) == [201, 409]
        [loser] = [reply for reply in replies if reply.status == 409]
        refused(loser, 409, "router_cycle")
