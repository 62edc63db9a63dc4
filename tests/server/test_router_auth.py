"""Who may make, see and remove routers: scopes, and the names of a router and of both its ends."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.server.routers import datas, look, path, put, remove, route
from tests.server.support import Api, api_of, new_name, refused
from tests.support.serving import Server

SCOPES = ("read", "write", "delete", "admin")
SETS = [
    frozenset(chosen) for count in range(1, 5) for chosen in itertools.combinations(SCOPES, count)
]


def key_of(*scopes: str) -> str:
    return "key-" + "-".join(sorted(scopes))


@dataclass(frozen=True)
class Call:
    """A request about a router that exists, and the scope it needs."""

    method: str
    needs: str
    is_list: bool = False

    def make(self, api: Api, name: str) -> Any:
        body = {"source": f"{name}.in", "dest": f"{name}.out"} if self.method == "PUT" else None
        return api.call(self.method, "/v0/routers" if self.is_list else path(name), body)


CALLS = [
    Call("GET", "read", is_list=True),
    Call("GET", "read"),
    Call("PUT", "admin"),
    Call("DELETE", "delete"),
]
each_call = pytest.mark.parametrize(
    "call", CALLS, ids=lambda call: f"{call.method}{' list' * call.is_list}"
)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    keys = ["full", "ann::a:|shared."]
    keys += [f"{key_of(*chosen)}:{'+'.join(sorted(chosen))}" for chosen in SETS]
    server = Server(tmp_path_factory.mktemp("routers"), {"PENSTOCK_API_KEYS": ",".join(keys)})
    server.start()
    full = api_of(server, "full")
    route(full, "a:1", "a:2", "a:inside")
    route(full, "a:1", "shared.x", "shared.inside")
    route(full, "b:1", "a:3", "a:from-outside")
    route(full, "a:1", "b:2", "a:to-outside")
    route(full, "a:1", "a:4", "named-outside")
    route(full, "b:1", "b:3", "b:all-outside")
    yield server
    server.close()


@pytest.fixture
def full(secured: Server) -> Api:
    return api_of(secured, "full")


@pytest.fixture
def ann(secured: Server) -> Api:
    return api_of(secured, "ann")


@pytest.fixture
def existing(full: Api) -> str:
    name = new_name("r")
    return route(full, f"{name}.in", f"{name}.out", name)


# Scopes.


@each_call
def test_a_call_is_open_to_exactly_the_keys_that_hold_its_scope(
    full: Api, existing: str, call: Call
) -> None:
    for chosen in SETS:
        reply = call.make(full.as_key(key_of(*chosen)), existing)

        if call.needs in chosen:
            assert reply.status == 200, chosen
        else:
            refused(reply, 403, "forbidden")


@each_call
@pytest.mark.parametrize("key", [None, "unknown", "", "key-rea", "key-read-"], ids=repr)
def test_a_call_is_closed_without_a_known_key(
    full: Api, existing: str, call: Call, key: str | None
) -> None:
    refused(call.make(full.as_key(key), existing), 401, "unauthorized")

    assert look(full, existing)["router"] == existing


def test_an_admin_makes_a_router_and_its_topics(full: Api) -> None:
    name = new_name("r")

    reply = put(full.as_key(key_of("admin")), name, f"{name}.in", f"{name}.out")

    assert reply.status == 201
    assert full.state(f"{name}.in")["count"] == 0


def test_the_scope_is_checked_before_anything_else_of_the_request(full: Api, existing: str) -> None:
    reader = full.as_key(key_of("read"))

    for name in (existing, ".bad", new_name("absent")):
        refused(reader.put(path(name), b"not json"), 403, "forbidden")
        refused(reader.delete(path(name)), 403, "forbidden")


def test_a_key_in_the_query_is_worth_nothing(full: Api, existing: str) -> None:
    nobody = full.as_key(None)

    refused(nobody.get(f"{path(existing)}?token=full"), 401, "unauthorized")
    refused(nobody.get("/v0/routers?token=full"), 401, "unauthorized")
    refused(nobody.delete(f"{path(existing)}?token=full"), 401, "unauthorized")


def test_who_may_only_write_reaches_the_dest_through_the_router(full: Api, existing: str) -> None:
    """A router works with the powers of who made it, not of who writes."""
    full.as_key(key_of("write")).write(f"{existing}.in", "through")

    assert datas(full, f"{existing}.out") == ["through"]


# Names.


@pytest.mark.parametrize(
    "name", ["named-outside", "b:all-outside", "nobodys", "a", "A:inside", "shared"]
)
def test_routers_named_outside_are_forbidden_whether_they_exist_or_not(ann: Api, name: str) -> None:
    refused(ann.get(path(name)), 403, "forbidden")
    refused(ann.delete(path(name)), 403, "forbidden")
    refused(put(ann, name, "a:1", "a:new"), 403, "forbidden")
    refused(ann.put(path(name), b"not json"), 403, "forbidden")


@pytest.mark.parametrize("name", ["a:from-outside", "a:to-outside"])
def test_routers_with_an_end_outside_are_forbidden(ann: Api, full: Api, name: str) -> None:
    refused(ann.get(path(name)), 403, "forbidden")
    refused(ann.delete(path(name)), 403, "forbidden")

    assert look(full, name)["router"] == name


@pytest.mark.parametrize("target", ["a:inside", "a%3Ainside", "%61:inside", "shared.inside"])
def test_routers_inside_are_open(ann: Api, target: str) -> None:
    assert ann.get(f"/v0/routers/{target}").status == 200


def test_a_router_inside_can_be_made_changed_and_removed(ann: Api) -> None:
    name = f"a:{new_name()}"

    assert put(ann, name, "a:1", f"shared.{name}").status == 201
    assert put(ann, name, "a:1", f"shared.{name}", filter="x").status == 200
    assert remove(ann, name)
    refused(ann.get(path(name)), 404, "router_not_found", {"router": name})
    assert not remove(ann, name)


@pytest.mark.parametrize(
    ("source", "dest", "outside"),
    [("b:1", "a:new", "b:1"), ("a:1", "b:new", "b:new"), ("a:1", "a", "a")],
)
def test_an_end_outside_is_forbidden_and_named(
    ann: Api, full: Api, source: str, dest: str, outside: str
) -> None:
    name = f"a:{new_name()}"

    refused(put(ann, name, source, dest), 403, "forbidden", {"topic": outside})

    refused(full.get(path(name)), 404, "router_not_found")
    refused(full.get(f"/v0/topics/{dest}"), 404, "topic_not_found")


def test_both_ends_outside_are_forbidden(ann: Api) -> None:
    detail = refused(put(ann, f"a:{new_name()}", "b:1", "b:new"), 403, "forbidden")

    assert detail["topic"] in ("b:1", "b:new")


def test_an_end_outside_comes_before_every_other_refusal(ann: Api) -> None:
    """It would otherwise be told what exists behind the name."""
    fresh = f"a:{new_name()}"

    for reply in (
        put(ann, "a: bad", "b:1", "a:2"),
        put(ann, fresh, "b:1", "b:1"),
        put(ann, fresh, "b:.bad", "b: bad"),
        put(ann, fresh, "a:1", "b:absent", create_dest=False),
        put(ann, fresh, "b:1", "a:2"),
        put(ann, "a:inside", "a:1", "b:2"),
        put(ann, "a:to-outside", "a:1", "b:2"),
        put(ann, fresh, "b:2", "a:1"),
    ):
        refused(reply, 403, "forbidden")
    refused(put(ann, "a: bad", "a:1", "a:2"), 400, "invalid_request")


def test_a_router_that_ends_outside_cannot_be_pointed_inside(ann: Api, full: Api) -> None:
    """The ends in the body may be inside: the router is not theirs to know."""
    reply = put(ann, "a:to-outside", "a:1", "a:elsewhere")

    assert reply.status in (403, 409)
    assert "b:2" not in reply.body.decode()
    assert look(full, "a:to-outside")["dest"] == "b:2"


def test_a_second_source_is_not_told_about_the_first(ann: Api) -> None:
    reply = put(ann, f"a:{new_name()}", "a:2", "a:3")

    detail = {"reason": "router_dest_fan_in"}
    refused(reply, 409, "topic_exists_incompatible", detail)
    assert "b:1" not in reply.body.decode()


# The list.


def listed(api: Api, query: str = "") -> list[str]:
    return [item["router"] for item in api.get(f"/v0/routers{query}").json["routers"]]


def test_the_list_shows_routers_that_are_inside_with_both_ends(ann: Api, full: Api) -> None:
    hidden = {"a:from-outside", "a:to-outside", "named-outside", "b:all-outside"}

    assert listed(ann) == ["a:inside", "shared.inside"]
    assert set(listed(full)) >= hidden | {"a:inside", "shared.inside"}
    for query in ("?source=b:1", "?dest=b:2", "?prefix=b:", "?prefix=named", "?dest=a:3"):
        assert listed(ann, query) == [], query


def test_paging_through_a_filtered_list_skips_nothing(ann: Api) -> None:
    found, cursor = [], ""
    for _ in range(10):
        page = ann.get(f"/v0/routers?page_size=1&cursor={cursor}").json
        found += [item["router"] for item in page["routers"]]
        cursor = page.get("next_cursor", "")
        if not cursor:
            break

    assert found == ["a:inside", "shared.inside"]
