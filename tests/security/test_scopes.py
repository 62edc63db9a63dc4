"""S3: every route of the server with every scope. A route without a row here fails."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from penstock.server.auth import Scope
from tests.security.support import Http2Peer
from tests.server.routes import routes
from tests.server.support import Api, api_of, compact, new_name
from tests.support.serving import Server

SCOPES = ("read", "write", "delete", "admin")
SETS = [
    frozenset(chosen) for count in range(1, 5) for chosen in itertools.combinations(SCOPES, count)
]
PREFIX = "own-"


@dataclass(frozen=True)
class Row:
    """A request that succeeds for who may make it; {} is a topic of the caller's, and {id} the
    event type and the feature table of that topic."""

    needs: frozenset[str]
    body: Any = None
    target: str = ""  # where it is not the template with the topic in it
    is_named: bool = True  # the path names a topic
    has_id: bool = False  # it names an event type or a feature table, whose topic counts


def row(*needs: str, **fields: Any) -> Row:
    return Row(frozenset(needs), **fields)


RECORDS = [{"data": 1}]
JOBS = {"node": "n", "seqs": []}
NODES = {
    "events": [{"name": "{id}", "topic": "{}", "fields": {"id": "str"}}],
    "tables": [
        {"name": "{id}_n", "from": "{id}", "key": ["id"], "features": {"n": {"op": "count"}}}
    ],
}
ROW = {"table": "{id}_n", "key": "a"}
OPEN = {
    ("GET", "/v0/health"),
    ("GET", "/healthz"),
    ("GET", "/v0/ready"),
    ("GET", "/readyz"),
    ("GET", "/v0/openapi.json"),
}
# With a check of their own, tried below.
SPECIAL = {
    ("GET", "/v0/watch/:wid"),
    ("GET", "/v0/ws"),
    ("GET", "/v0/tables/:table/watch"),  # tests/server/test_auth_matrix.py
    ("GET", "/v0/features/watch/:feature_table"),  # tests/server/test_auth_matrix.py
    ("GET", "/v0/topics/:topic/work"),  # tests/server/test_queue_auth.py
    ("GET", "/v0/sender"),  # tests/server/test_sender.py
    ("GET", "/api/v4/write"),  # tests/server/test_auth_matrix.py
    ("GET", "/write/v4"),
}
LOAD = "POST", "/v0/features/load"  # of a snapshot: it is refused below by everybody else
CANCEL = "DELETE", "/v0/topics/:topic/delayed/:delayed_id"  # tests/server/test_auth_matrix.py
MATRIX = {
    ("GET", "/v0/topics"): row("read", is_named=False),
    ("PUT", "/v0/topics/:topic"): row("admin", body={"type": "queue"}),
    ("GET", "/v0/topics/:topic"): row("read"),
    ("DELETE", "/v0/topics/:topic"): row("delete", target="/v0/topics/{}.absent"),
    ("POST", "/v0/topics/:topic"): row("write", body={"records": RECORDS}),
    ("POST", "/v0/topics/:topic/diff"): row("read", body={}),
    ("POST", "/v0/topics/:topic/delete"): row("delete", body={"before_seq": 1}),
    ("POST", "/v0/topics/:topic/claim"): row("read", "write", body={"node": "n"}),
    ("POST", "/v0/topics/:topic/ack"): row("write", body=JOBS),
    ("POST", "/v0/topics/:topic/nack"): row("write", body=JOBS),
    ("POST", "/v0/topics/:topic/extend"): row("write", body=JOBS | {"lease_ms": 1000}),
    ("POST", "/v0/topics/:topic/redrive"): row("write", "delete", body={}),
    ("GET", "/v0/topics/:topic/positions"): row("read"),
    ("PUT", "/v0/topics/:topic/positions/:name"): row("read", body={"seq": 0}),
    ("GET", "/v0/topics/:topic/positions/:name"): row("read"),
    ("DELETE", "/v0/topics/:topic/positions/:name"): row(
        "read", target="/v0/topics/{}/positions/gone"
    ),
    ("GET", "/v0/topics/:topic/schedules"): row("read"),
    ("GET", "/v0/topics/:topic/delayed"): row("read"),
    ("GET", "/v0/routers"): row("read", is_named=False),
    ("PUT", "/v0/routers/:router"): row(
        "admin", target="/v0/routers/{}", body={"source": "{}", "dest": "{}.dest"}
    ),
    ("GET", "/v0/routers/:router"): row("read", target="/v0/routers/{}"),
    ("DELETE", "/v0/routers/:router"): row("delete", target="/v0/routers/{}.absent"),
    ("GET", "/v0/tables"): row("read", is_named=False),
    ("PUT", "/v0/tables/:table"): row("admin", target="/v0/tables/{}", body={"key": "id"}),
    ("GET", "/v0/tables/:table"): row("read", target="/v0/tables/{}"),
    ("DELETE", "/v0/tables/:table"): row("delete", target="/v0/tables/{}.absent"),
    ("POST", "/v0/tables/:table/rebuild"): row("admin", target="/v0/tables/{}/rebuild", body={}),
    ("GET", "/v0/tables/:table/rows"): row("read", target="/v0/tables/{}/rows"),
    ("GET", "/v0/tables/:table/rows/:key"): row("read", target="/v0/tables/{}/rows/a"),
    ("POST", "/v0/features/definition"): row("admin", body=NODES, is_named=False),
    ("GET", "/v0/features/definition"): row("read", is_named=False),
    ("GET", "/v0/features/tables"): row("read", is_named=False),
    ("GET", "/v0/features/tables/:feature_table"): row(
        "read", target="/v0/features/tables/{id}_n", is_named=False, has_id=True
    ),
    ("POST", "/v0/features/push/:event"): row(
        "write",
        target="/v0/features/push/{id}",
        body={"id": "a"},
        is_named=False,
        has_id=True,
    ),
    ("POST", "/v0/features/push_get"): row(
        "read", "write", body={"event": "{id}", "data": {"id": "a"}}, is_named=False, has_id=True
    ),
    ("POST", "/v0/features/get"): row("read", body=ROW, is_named=False, has_id=True),
    ("POST", "/v0/features/batch_get"): row(
        "read", body={"requests": [ROW]}, is_named=False, has_id=True
    ),
    ("POST", "/v0/features/scan"): row(
        "read", body={"table": "{id}_n"}, is_named=False, has_id=True
    ),
    ("POST", "/v0/batch"): row(
        "write", body={"writes": [{"topic": "{}", "records": RECORDS}]}, is_named=False
    ),
    ("POST", "/v0/watch"): row("read", body={"topics": {"{}": {}}}, is_named=False),
    ("GET", "/v0/audit"): row("admin", is_named=False),
    ("POST", "/v0/tickets"): row(body={}, is_named=False),
    ("GET", "/v0/metrics"): row("read", is_named=False),
}
FEATURES = "POST", "/v0/features/definition"
ALL = pytest.mark.parametrize("route", MATRIX, ids=" ".join)


def key_of(scopes: frozenset[str], prefix: str = "") -> str:
    return f"key{prefix}-" + "-".join(sorted(scopes))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    keys = ["everything"]
    for chosen in SETS:
        words = "+".join(sorted(chosen))
        keys += [f"{key_of(chosen)}:{words}", f"{key_of(chosen, PREFIX)}:{words}:{PREFIX}|also-"]
    env = {"PENSTOCK_API_KEYS": ",".join(keys), "PENSTOCK_MAX_WATCH_SESSIONS": "0"}
    server = Server(tmp_path_factory.mktemp("guarded"), env).start()
    yield server
    server.close()


@pytest.fixture
def full(guarded: Server) -> Api:
    return api_of(guarded, "everything")


def made(full: Api, prefix: str) -> str:
    """A queue: it takes every request that a log takes, and those for jobs as well."""
    name = new_name(prefix)
    full.create(name, type="queue")
    assert full.put(f"/v0/topics/{name}/positions/p", {"seq": 0}).status == 200
    ends = {"source": name, "dest": f"{name}.dest"}
    assert full.put(f"/v0/routers/{name}", ends).status == 201
    return name


def made_for(full: Api, route: tuple[str, str], prefix: str) -> str:
    """A topic with what this route needs besides: a table with a row, or features."""
    topic = made(full, prefix)
    if "/tables/:table" in route[1]:
        assert full.put(f"/v0/tables/{topic}", {"key": "id"}).status == 201
        full.write(topic, {"id": "a"})
    if MATRIX[route].has_id:
        nodes = named(compact(NODES), topic).encode()
        reply = full.call(*FEATURES, nodes, {"Content-Type": "application/json"})
        assert reply.status == 200
    return topic


def named(text: str, topic: str) -> str:
    """The text with the topic and its event type in the places for them."""
    identifier = topic.replace("-", "_")
    return text.replace('"{}', f'"{topic}').replace("{id}", identifier)


def request_of(route: tuple[str, str], topic: str) -> tuple[str, str, bytes | None]:
    method, template = route
    entry = MATRIX[route]
    target = entry.target or template.replace(":topic", "{}").replace(":name", "p")
    body = None if entry.body is None else named(compact(entry.body), topic).encode()
    return method, named(target, topic).replace("{}", topic), body


def call(api: Api, route: tuple[str, str], topic: str) -> int:
    method, target, body = request_of(route, topic)
    headers = {} if body is None else {"Content-Type": "application/json"}
    return api.call(method, target, body, headers).status


def test_every_route_of_the_server_is_in_this_file() -> None:
    """S3: a new route needs a row before it is served; a row needs a route."""
    table = {(route.method, route.template) for route in routes()}

    assert table == set(MATRIX) | OPEN | SPECIAL | {LOAD, CANCEL}


def test_the_table_of_the_server_says_what_this_one_says() -> None:
    """S3: scope by scope; what is open is open here and there."""
    for route in routes():
        place = route.method, route.template
        if place in OPEN:
            assert route.is_open
        elif place in MATRIX:
            assert not route.is_open, place
            need = Scope.NONE
            for word in MATRIX[place].needs:
                need |= Scope[word.upper()]
            assert route.scope == need, place
            assert route.is_named != MATRIX[place].has_id or not route.template.count(":"), place
            assert not route.is_stream, place
    streams = {(route.method, route.template) for route in routes() if route.is_stream}
    assert streams == SPECIAL


@ALL
def test_a_key_may_exactly_what_its_scopes_say(
    full: Api, guarded: Server, route: tuple[str, str]
) -> None:
    """S3: fifteen sets of scopes, each cell 2xx or 403."""
    topic = made_for(full, route, "any")
    found = {chosen: call(full.as_key(key_of(chosen)), route, topic) for chosen in SETS}

    for chosen, status in found.items():
        may = MATRIX[route].needs <= chosen
        assert status in ((200, 201) if may else (403,)), (sorted(chosen), status)


@ALL
def test_a_key_may_it_only_within_its_prefixes(full: Api, route: tuple[str, str]) -> None:
    """S3: all scopes and the wrong name is nothing, on every route that names a topic."""
    api = full.as_key(key_of(frozenset(SCOPES), PREFIX))
    own, also, foreign = (made_for(full, route, one) for one in (PREFIX, "also-", "foreign-"))
    entry = MATRIX[route]
    if route == FEATURES:  # of all topics: whoever may use some alone may not register
        assert [call(api, route, topic) for topic in (own, also, foreign)] == [403] * 3
        return
    names_a_topic = entry.is_named or '"{}"' in compact(entry.body)

    assert call(api, route, own) in (200, 201)
    assert call(api, route, also) in (200, 201)
    if names_a_topic:
        assert call(api, route, foreign) == 403
        assert call(api, route, f"x{own}") == 403
        assert call(api, route, PREFIX[:-1]) == 403
        assert call(api, route, own.upper()) == 403
    elif entry.has_id:  # a name that does not exist has no topic
        assert call(api, route, foreign) in (403, 404)


@ALL
def test_nobody_may_anything(full: Api, route: tuple[str, str]) -> None:
    """S3: without a key, with an unknown one, and with one that is nearly right."""
    topic = made(full, "any")
    for key in (None, "", "unknown", "everythin", "Everything", "everything,", "everything:"):
        assert call(full.as_key(key), route, topic) == 401, key


@ALL
def test_the_same_holds_over_http2(full: Api, guarded: Server, route: tuple[str, str]) -> None:
    """S3: one gate for both versions."""
    topic = made_for(full, route, "any")
    method, target, body = request_of(route, topic)
    needs = MATRIX[route].needs
    lacking = key_of((frozenset(SCOPES) - needs) if needs else frozenset({"read"}))

    for key, expected in (
        ("everything", (200, 201)),
        (lacking, (403,) if needs else (200,)),
        ("unknown", (401,)),
    ):
        headers = ("authorization", f"Bearer {key}"), ("content-type", "application/json")
        with Http2Peer(guarded.address) as peer:
            stream = peer.begin(method, target, *headers, end=body is None)
            if body is not None:
                peer.h2.send_data(stream, body, end_stream=True)
            peer.flush()
            assert peer.outcome(stream) in expected


def test_a_snapshot_is_loaded_by_an_administrator_only(full: Api) -> None:
    """S3: and by none that may use some topics alone, unless the table is of one of them."""
    body = {"table": "Absent", "folder": "/absent"}

    for chosen in SETS:
        status = full.as_key(key_of(chosen)).call(*LOAD, body).status
        assert status in ((400, 404) if "admin" in chosen else (403,)), sorted(chosen)


@pytest.mark.parametrize("place", sorted(OPEN), ids=" ".join)
def test_what_is_open_is_open_and_does_not_look_at_keys(full: Api, place: tuple[str, str]) -> None:
    """S3: and it has no other verbs."""
    for key in (None, "unknown", "everything"):
        assert full.as_key(key).get(place[1]).status == 200
    for method in ("POST", "PUT", "DELETE"):
        assert full.as_key(None).call(method, place[1]).status == 401
        assert full.call(method, place[1]).status == 405


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_unknown_paths_tell_strangers_nothing(full: Api, method: str) -> None:
    """S3: deny by default: a stranger cannot find out which paths there are."""
    for path in ("/", "/v0", "/v0/", "/v0/admin", "/v0/topics/x/y/z", "/v1/topics", "/v0/topics/"):
        assert full.as_key(None).call(method, path).status == 401
        assert full.call(method, path).status in (404, 405)


def test_the_name_that_counts_is_the_one_the_path_stands_for(full: Api) -> None:
    """S3: escapes are undone once, before the check; what is checked is what is used."""
    api = full.as_key(key_of(frozenset(SCOPES), PREFIX))
    foreign, own = made(full, "foreign-"), made(full, PREFIX)

    def escaped(name: str) -> str:
        return "".join(f"%{ord(letter):02x}" for letter in name)

    assert api.get(f"/v0/topics/{escaped(foreign)}").status == 403
    assert api.get(f"/v0/topics/{escaped(own)}").json["topic"] == own
    for text in (
        f"{own}/../{foreign}",
        f"{own}%2f..%2f{foreign}",
        f"{own}%00{foreign}",
        f"{PREFIX}%252e%252e",
        f"{own};{foreign}",
        f"{own}?topic={foreign}",
        f"{own}#{foreign}",
        f"{own}%3ftopic={foreign}",
    ):
        reply = api.get(f"/v0/topics/{text}")
        assert foreign not in reply.body.decode() or reply.status in (403, 404)
        if reply.status == 200:
            assert reply.json["topic"] == own


def test_the_stream_of_a_watch_is_for_the_key_that_made_it(full: Api) -> None:
    """S3: a watch keeps to the key that made it; no scope replaces it."""
    topic = made(full, PREFIX)
    reader = full.as_key(key_of(frozenset({"read"})))
    wid = reader.watch([topic])["wid"]

    for chosen in SETS:
        if chosen != {"read"}:
            assert full.as_key(key_of(chosen)).get(f"/v0/watch/{wid}").status == 401
    with reader.stream(wid) as stream:
        assert stream.reply.status == 200


@pytest.mark.parametrize("chosen", SETS, ids=lambda chosen: "+".join(sorted(chosen)))
def test_each_message_of_a_socket_needs_its_scope_and_its_name(
    full: Api, chosen: frozenset[str]
) -> None:
    """S3: the handshake needs a key, every message what its HTTP twin needs."""
    own, foreign = made(full, PREFIX), made(full, "foreign-")

    with full.as_key(key_of(chosen, PREFIX)).socket() as socket:
        for topic, is_own in ((own, True), (foreign, False)):
            heard = socket.ask("subscribe", topic=topic, tail=True)
            assert (heard["op"] == "subscribed") == (is_own and "read" in chosen)
            said = socket.ask("publish", topic=topic, records=RECORDS)
            assert (said["op"] == "ack") == (is_own and "write" in chosen)
            told = socket.ask("publish", topic=topic, records=RECORDS, config={})
            assert (told["op"] == "ack") == (is_own and {"write", "admin"} <= chosen)
    for key in (None, "unknown"):
        with pytest.raises(InvalidStatus):
            full.as_key(key).socket()


def test_scopes_are_checked_before_anything_is_looked_up(full: Api) -> None:
    """S3: a refusal does not depend on what there is or what was sent."""
    reader = full.as_key(key_of(frozenset({"read"})))
    there, absent = made(full, "any"), new_name()

    for name in (there, absent):
        replies = [
            reader.post(f"/v0/topics/{name}", b"{", {"Content-Type": "application/json"}),
            reader.post(f"/v0/topics/{name}", b"", {"Content-Type": "text/html"}),
            reader.delete(f"/v0/topics/{name}"),
            reader.put(f"/v0/topics/{name}", b"["),
        ]
        assert [reply.status for reply in replies] == [403] * 4
        assert len({reply.body for reply in replies}) == 1
