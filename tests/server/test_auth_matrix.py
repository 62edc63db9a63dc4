"""Every route with every set of scopes: allowed exactly where the table says so."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from tests.server.sse import EventStream
from tests.server.support import BATCH, Api, api_of, new_name, refused
from tests.support.qwp import Client
from tests.support.serving import Server

SCOPES = ("read", "write", "delete", "admin")
SETS = [
    frozenset(chosen) for count in range(1, 5) for chosen in itertools.combinations(SCOPES, count)
]
FULL = "full-access-key"


def key_of(scopes: frozenset[str]) -> str:
    return "key-" + "-".join(sorted(scopes))


@dataclass(frozen=True)
class Route:
    """A request that succeeds for who may make it. `{}` in the path is an existing topic."""

    method: str
    path: str
    needs: frozenset[str]
    body: Any = None
    query: str = ""

    def call(self, api: Api, topic: str) -> int:
        reply = api.call(self.method, self.path.replace("{}", topic, 1) + self.query, self.body)
        if reply.status == 403:
            refused(reply, 403, "forbidden")
        return reply.status


def needs(*scopes: str) -> frozenset[str]:
    return frozenset(scopes)


RECORDS = {"records": [{"data": 1}]}
DEFINITION = {
    "events": [{"name": "Ride", "topic": "rides", "fields": {"rider": "str"}}],
    "tables": [
        {"name": "Riders", "from": "Ride", "key": ["rider"], "features": {"n": {"op": "count"}}}
    ],
}
EVENT = {"rider": "ana"}
ROW = {"table": "Riders", "key": "ana"}
ROUTES = [
    Route("GET", "/v0/topics", needs("read"), query="?prefix=zzz"),
    Route("GET", "/v0/topics/{}", needs("read")),
    Route("POST", "/v0/topics/{}/diff", needs("read"), {}),
    Route("POST", "/v0/topics/{}", needs("write"), RECORDS),
    Route("POST", "/v0/topics/{}/delete", needs("delete"), {"before_seq": 1}),
    Route("DELETE", "/v0/topics/{}", needs("delete"), query="-absent"),
    Route("PUT", "/v0/topics/{}", needs("admin"), {}),
    Route("POST", "/v0/watch", needs("read"), {"topics": {"known": {}}}),
    Route("GET", "/v0/metrics", needs("read")),
    Route("POST", "/v0/batch", needs("write"), {"writes": [{"topic": "known", **RECORDS}]}),
    Route("GET", "/v0/topics/{}/positions", needs("read")),
    Route("PUT", "/v0/topics/{}/positions/p", needs("read"), {"seq": 0}),
    Route("GET", "/v0/topics/{}/positions/kept", needs("read")),
    Route("DELETE", "/v0/topics/{}/positions/p", needs("read")),
    Route("GET", "/v0/topics/{}/delayed", needs("read")),
    Route("POST", "/v0/topics/{}/redrive", needs("write", "delete"), {}),
    Route("GET", "/v0/tables", needs("read"), query="?prefix=zzz"),
    Route("GET", "/v0/tables/{}", needs("read")),
    Route("PUT", "/v0/tables/{}", needs("admin"), {"key": "id"}),
    Route("DELETE", "/v0/tables/{}", needs("delete"), query="-absent"),
    Route("POST", "/v0/tables/{}/rebuild", needs("admin"), {}),
    Route("GET", "/v0/tables/{}/rows", needs("read")),
    Route("GET", "/v0/tables/{}/rows/a", needs("read")),
    Route("GET", "/v0/features/definition", needs("read")),
    Route("POST", "/v0/features/definition", needs("admin"), DEFINITION),
    Route("GET", "/v0/features/tables", needs("read")),
    Route("GET", "/v0/features/tables/Riders", needs("read")),
    Route("POST", "/v0/features/get", needs("read"), ROW),
    Route("POST", "/v0/features/scan", needs("read"), {"table": "Riders"}),
    Route("POST", "/v0/features/batch_get", needs("read"), {"requests": [ROW]}),
    Route("POST", "/v0/features/push/Ride", needs("write"), EVENT),
    Route(
        "POST", "/v0/features/push_get", needs("read", "write"), {"event": "Ride", "data": EVENT}
    ),
    Route("GET", "/v0/audit", needs("admin")),
    Route("POST", "/v0/tickets", needs(), {}),
]
OPEN = ["/v0/health", "/healthz", "/v0/ready", "/readyz", "/v0/openapi.json"]

# Routes with a check of their own, tried elsewhere in this folder.
SPECIAL = {
    ("DELETE", "/v0/topics/{}/delayed/{}"),
    ("GET", "/v0/ws"),
    ("GET", "/v0/watch/{}"),
    ("GET", "/v0/tables/{}/watch"),
    ("GET", "/v0/features/watch/{}"),
    ("POST", "/v0/features/load"),
    ("GET", "/v0/sender"),
    ("GET", "/api/v4/write"),
    ("GET", "/write/v4"),
}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    keys = [FULL, *(f"{key_of(chosen)}:{'+'.join(sorted(chosen))}" for chosen in SETS)]
    server = Server(tmp_path_factory.mktemp("secured"), {"PENSTOCK_API_KEYS": ",".join(keys)})
    server.start()
    api = api_of(server, FULL)
    api.create("known")
    assert api.post("/v0/features/definition", DEFINITION).status == 200
    yield server
    server.close()


@pytest.fixture
def full(secured: Server) -> Api:
    return api_of(secured, FULL)


@pytest.fixture
def existing(full: Api) -> str:
    name = new_name("matrix")
    full.create(name)
    assert full.put(f"/v0/topics/{name}/positions/kept", {"seq": 0}).status == 200
    assert full.put(f"/v0/tables/{name}", {"key": "id"}).status == 201
    full.write(name, {"id": "a"})
    return name


each_route = pytest.mark.parametrize("route", ROUTES, ids=lambda r: f"{r.method} {r.path}")


@each_route
def test_a_route_is_open_to_exactly_the_keys_that_hold_its_scopes(
    full: Api, existing: str, route: Route
) -> None:
    statuses = {chosen: route.call(full.as_key(key_of(chosen)), existing) for chosen in SETS}

    allowed = {chosen for chosen, status in statuses.items() if status in (200, 201)}
    denied = {chosen for chosen, status in statuses.items() if status == 403}
    assert allowed == {chosen for chosen in SETS if route.needs <= chosen}
    assert denied == set(SETS) - allowed


@each_route
@pytest.mark.parametrize("key", [None, "unknown", "", "key-rea", "key-read-"], ids=repr)
def test_a_route_is_closed_without_a_known_key(
    full: Api, existing: str, route: Route, key: str | None
) -> None:
    reply = full.as_key(key).call(
        route.method, route.path.replace("{}", existing, 1) + route.query, route.body
    )

    refused(reply, 401, "unauthorized")


@each_route
def test_a_key_without_scopes_has_them_all(full: Api, existing: str, route: Route) -> None:
    assert route.call(full, existing) in (200, 201)


@pytest.mark.parametrize("path", OPEN)
def test_probes_and_the_document_need_no_key(full: Api, path: str) -> None:
    assert full.as_key(None).get(path).status == 200
    assert full.as_key("unknown").get(path).status == 200


def test_every_route_of_the_document_is_in_this_file(full: Api) -> None:
    """Routers and queues come with tables of their own."""
    later = re.compile(r"^/v0/(routers.*|topics/\{\}/(claim|ack|nack|extend|work|schedules))$")
    known = {(route.method, blank(route.path)) for route in ROUTES} | SPECIAL
    known |= {("GET", path) for path in OPEN}

    declared = {
        (method.upper(), path)
        for target, verbs in full.get("/v0/openapi.json").json["paths"].items()
        if not later.match(path := re.sub(r"\{[^}]*\}", "{}", target))
        for method in verbs
        if method in ("get", "put", "post", "delete", "patch", "head", "options")
    }

    assert declared == known


def blank(path: str) -> str:
    path = re.sub(r"/(positions|rows)/\w+", r"/\1/{}", path)
    return re.sub(r"/features/(push|tables)/\w+", r"/features/\1/{}", path)


# What a route decides besides.


def test_a_config_for_a_new_topic_needs_admin(full: Api, existing: str) -> None:
    writer = full.as_key(key_of(needs("write")))
    fresh = new_name("fresh")
    body = {**RECORDS, "config": {"cap_records": 5}}

    refused(writer.post(f"/v0/topics/{fresh}", body), 403, "forbidden", {"topic": fresh})

    refused(full.get(f"/v0/topics/{fresh}"), 404, "topic_not_found")
    assert writer.post(f"/v0/topics/{existing}", body).status == 200
    assert writer.post(f"/v0/topics/{fresh}", RECORDS).status == 201
    admin = full.as_key(key_of(needs("write", "admin")))
    assert admin.post(f"/v0/topics/{new_name()}", body).status == 201


def test_a_config_for_a_new_topic_in_a_batch_needs_admin(full: Api) -> None:
    writer = full.as_key(key_of(needs("write")))
    fresh = new_name("fresh")
    body = {"writes": [{"topic": fresh, **RECORDS, "config": {"cap_records": 5}}]}

    refused(writer.post("/v0/batch", body), 403, "forbidden", {"topic": fresh})

    refused(full.get(f"/v0/topics/{fresh}"), 404, "topic_not_found")


def test_an_unknown_branch_of_a_topic_needs_write(full: Api, existing: str) -> None:
    target = f"/v0/topics/{existing}/frobnicate"

    refused(full.as_key(key_of(needs("read"))).post(target, {}), 403, "forbidden")
    refused(full.as_key(key_of(needs("write"))).post(target, {}), 404, "not_found")


def test_the_scope_is_checked_before_the_topic(full: Api) -> None:
    reader = full.as_key(key_of(needs("read")))

    refused(reader.delete(f"/v0/topics/{new_name()}"), 403, "forbidden")
    refused(reader.post(f"/v0/topics/{new_name()}", b"not json"), 403, "forbidden")


def test_a_binary_write_needs_write_too(full: Api, existing: str) -> None:
    reader = full.as_key(key_of(needs("read")))

    reply = reader.post(f"/v0/topics/{existing}", b"PSB1", {"Content-Type": BATCH})

    refused(reply, 403, "forbidden")


def test_to_cancel_a_delayed_append_needs_delete(full: Api, existing: str) -> None:
    for chosen in SETS:
        delayed_id = full.write(existing, 1, delay_ms=3_600_000)["delayed_id"]
        reply = full.as_key(key_of(chosen)).delete(f"/v0/topics/{existing}/delayed/{delayed_id}")
        if "delete" in chosen:
            assert reply.status == 200
        else:
            refused(reply, 403, "forbidden")
    target = f"/v0/topics/{existing}/delayed/{delayed_id}"
    refused(full.as_key("unknown").delete(target), 401, "unauthorized")


def test_a_stream_of_a_row_or_of_a_table_needs_read(full: Api, existing: str) -> None:
    for chosen in SETS:
        for target in ("/v0/features/watch/Riders?key=a", f"/v0/tables/{existing}/watch"):
            if "read" in chosen:
                with EventStream(full.address, target, full.as_key(key_of(chosen)).headers()):
                    pass
            else:
                refused(full.as_key(key_of(chosen)).get(target), 403, "forbidden")
    refused(full.as_key("unknown").get("/v0/features/watch/Riders"), 401, "unauthorized")


def test_to_load_a_snapshot_needs_admin(full: Api) -> None:
    body = {"table": "Riders", "folder": "/nowhere"}
    for chosen in SETS:
        reply = full.as_key(key_of(chosen)).post("/v0/features/load", body)
        if "admin" in chosen:
            refused(reply, 400, "invalid_request")
        else:
            refused(reply, 403, "forbidden")
    refused(full.as_key("unknown").post("/v0/features/load", body), 401, "unauthorized")


# Sockets and streams.


def test_a_socket_needs_a_key_but_no_scope(full: Api) -> None:
    for chosen in SETS:
        with full.as_key(key_of(chosen)).socket() as socket:
            assert socket.ask("ping")["op"] == "pong"
    for key in (None, "unknown"):
        with pytest.raises(InvalidStatus) as caught:
            full.as_key(key).socket()
        assert caught.value.response.status_code == 401


@pytest.mark.parametrize("path", ["/api/v4/write", "/write/v4"])
def test_ingestion_over_qwp_needs_write(full: Api, path: str) -> None:
    for chosen in SETS:
        headers = full.as_key(key_of(chosen)).headers()
        if "write" in chosen:
            Client(full.address, path, headers).__exit__()
        else:
            assert _status_of(full, path, headers) == 403
    for key in (None, "unknown"):
        assert _status_of(full, path, full.as_key(key).headers()) == 401


def _status_of(full: Api, path: str, headers: dict[str, str]) -> int:
    with pytest.raises(InvalidStatus) as caught:
        Client(full.address, path, headers)
    return caught.value.response.status_code


def test_each_message_of_a_socket_needs_its_scope(full: Api, existing: str) -> None:
    """And a refusal keeps the socket open."""
    for chosen in SETS:
        with full.as_key(key_of(chosen)).socket() as socket:
            heard = socket.ask("subscribe", topic=existing, tail=True)
            said = socket.ask("publish", topic=existing, **RECORDS)
            told = socket.ask("publish", topic=existing, config={}, **RECORDS)

            assert _allowed(heard, "subscribed") == ("read" in chosen)
            assert _allowed(said, "ack") == ("write" in chosen)
            assert _allowed(told, "ack") == ({"write", "admin"} <= chosen)
            assert socket.ask("ping")["op"] == "pong"


def _allowed(message: Any, op: str) -> bool:
    assert message["op"] in (op, "error"), message
    if message["op"] == "error":
        assert message["code"] == "forbidden", message
    return bool(message["op"] == op)


def test_a_stream_opens_only_for_the_key_that_made_the_session(full: Api, existing: str) -> None:
    reader = full.as_key(key_of(needs("read")))
    wid = reader.watch([existing])["wid"]

    for other in (full, full.as_key(None), full.as_key("unknown")):
        refused(other.get(f"/v0/watch/{wid}"), 401, "unauthorized")
    with reader.stream(wid) as stream:
        assert stream.reply.status == 200


def test_an_unknown_session_is_not_found_whoever_asks(full: Api) -> None:
    for key in (FULL, None, "unknown"):
        reply = full.as_key(key).get("/v0/watch/wid_AAAAAAAAAAAAAAAAAAAAAA")

        refused(reply, 404, "not_found")
