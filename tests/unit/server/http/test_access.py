"""What every request passes before its handler, in which order, and what it leaves behind."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
from typing import Any

import pytest

from penstock.errors import LogFailed
from penstock.server.errors import ApiError
from penstock.server.http.connection_limits import SCREEN_BYTES, SMALL_BODY_BYTES
from penstock.server.http.message import Request
from tests.unit.server.support import FakeExchange, Site, on_loop, request_of, settled, until

KEYS = "boss,reader:read,writer:write,eu:rw:eu.,cleaner:delete"
RECORDS = {"records": [{"data": 1}]}
GZIP = {b"content-encoding": b"gzip", b"content-type": b"application/json"}


def keyed(**settings: Any) -> Site:
    return Site(api_keys=KEYS, **settings)


# The order of the checks.


@on_loop
async def test_host_comes_before_everything() -> None:
    site = keyed()

    answer = await site.call("GET", "/no/such/path", headers={b"host": b"evil.example"})

    assert (answer.status, answer.code) == (421, "misdirected_request")


@on_loop
async def test_a_page_of_another_origin_is_refused_before_its_key_is_looked_at() -> None:
    site = keyed()

    answer = await site.call(
        "GET", "/v0/topics", token="boss", headers={b"origin": b"https://evil.example"}
    )

    assert (answer.status, answer.code) == (403, "forbidden")


@pytest.mark.parametrize("path", ["/v0/topics", "/v0/nothing", "/v0/topics/a/nothing", "/"])
@on_loop
async def test_strangers_learn_nothing_about_paths(path: str) -> None:
    site = keyed()

    for token in (None, "wrong"):
        answer = await site.call("GET", path, token=token)
        assert (answer.status, answer.code) == (401, "unauthorized")


@pytest.mark.parametrize(
    ("token", "method", "path", "status"),
    [
        ("boss", "GET", "/v0/nothing", 404),
        ("boss", "PATCH", "/v0/topics", 405),
        ("boss", "PUT", "/v0/topics/a", 201),
        ("reader", "GET", "/v0/topics", 200),
        ("reader", "PUT", "/v0/topics/a", 403),
        ("reader", "POST", "/v0/topics/a", 403),
        ("reader", "POST", "/v0/topics/a/nothing", 403),
        ("writer", "POST", "/v0/topics/a/nothing", 404),
        ("writer", "GET", "/v0/topics/a", 403),
        ("cleaner", "DELETE", "/v0/topics/a", 200),
        ("eu", "GET", "/v0/topics/us.orders", 403),
        ("eu", "GET", "/v0/topics/eu.orders", 404),
        ("eu", "GET", "/v0/topics/%65u.orders", 404),
        ("eu", "GET", "/v0/topics/eu%2eorders", 404),
        ("eu", "GET", "/v0/topics/%75s", 403),
    ],
)
@on_loop
async def test_a_key_opens_what_its_scopes_and_prefixes_say(
    token: str, method: str, path: str, status: int
) -> None:
    site = keyed()

    assert (await site.call(method, path, token=token)).status == status


@on_loop
async def test_a_server_without_keys_asks_for_none() -> None:
    site = Site()

    assert (await site.call("PUT", "/v0/topics/a")).status == 201
    assert (await site.call("PUT", "/v0/topics/b", token="whatever")).status == 201


@on_loop
async def test_probes_are_open_unless_told_otherwise() -> None:
    open_, shut = keyed(), keyed(probe_auth=True)

    for path in ("/v0/health", "/healthz", "/v0/ready", "/readyz"):
        assert (await open_.call("GET", path)).status == 200
        assert (await shut.call("GET", path)).status == 401
        assert (await shut.call("GET", path, token="reader")).status == 200
    assert (await shut.call("GET", "/v0/openapi.json")).status == 200


# Requests under way.


@on_loop
async def test_a_key_has_only_so_many_requests_under_way(wait_ms: int) -> None:
    site = keyed(max_inflight_per_key=3)
    await site.call("PUT", "/v0/topics/a", token="boss")
    polls = [
        site.send("POST", "/v0/topics/a/diff", {"wait_ms": wait_ms}, token="boss") for _ in range(3)
    ]

    refused = await site.call("GET", "/v0/topics", token="boss")
    others = await site.call("GET", "/v0/topics", token="reader")
    await site.call("POST", "/v0/topics/a", RECORDS, token="writer")
    await until(lambda: all(poll.is_answered for poll in polls))
    await settled()

    assert (refused.status, refused.code, refused.detail) == (429, "throttled", None)
    assert refused.headers[b"retry-after"] == b"1"
    assert others.status == 200
    assert (await site.call("GET", "/v0/topics", token="boss")).status == 200


@on_loop
async def test_what_is_under_way_is_counted_off_however_it_ends() -> None:
    site = keyed(max_inflight_per_key=1)
    calls: list[tuple[str, str, Any]] = [
        ("POST", "/v0/topics/eu.a", RECORDS),
        ("POST", "/v0/topics/eu.a", RECORDS),
        ("POST", "/v0/topics/eu.a", {"records": []}),
        ("POST", "/v0/topics/eu.a", {**RECORDS, "expected_seq": 99}),
        ("POST", "/v0/topics/eu.none", {**RECORDS, "create": False}),
        ("POST", "/v0/topics/eu.none/diff", {}),
        ("POST", "/v0/topics/eu.a/diff", {"from_ts": 1}),
        ("GET", "/v0/topics/eu.a", None),
        ("POST", "/v0/batch", {"writes": [{"topic": "eu.a", **RECORDS, "expected_seq": 99}]}),
        ("POST", "/v0/watch", {"topics": {"eu.none": {}}}),
    ]

    for method, path, body in calls * 2:
        answer = await site.call(method, path, body, token="eu")
        await settled()
        assert answer.status != 429, (method, path, answer)


@on_loop
async def test_a_delete_is_counted_off_and_audited_however_it_ends() -> None:
    """It is answered by callback, or by a thread that reads files first."""
    site = keyed(max_inflight_per_key=1)
    await site.call("POST", "/v0/topics/a", RECORDS, token="boss")
    await site.call("PUT", "/v0/topics/old", {"ttl_ms": 1000}, token="boss")
    body: Any = {"before_seq": 1}
    packed = gzip.compress(json.dumps(body).encode())
    calls: list[tuple[str, Any, dict[bytes, bytes], int]] = [
        ("a", body, {}, 200),
        ("a", packed, GZIP, 200),
        ("old", body, {}, 200),
        ("none", body, {}, 404),
        ("none", packed, GZIP, 404),
        ("a", {}, {}, 400),
    ]

    found = []
    for topic, given, headers, _ in calls * 2:
        path = f"/v0/topics/{topic}/delete"
        answer = await site.call("POST", path, given, token="cleaner", headers=headers)
        await settled()
        found.append(answer.status)
    acts = json.loads(site.log.core.audit.read(0, 100).records)
    site.fs.fail("sync")
    failed = [
        await site.call("POST", "/v0/topics/a/delete", body, token="cleaner") for _ in range(2)
    ]

    assert found == [status for *_, status in calls * 2]
    deletes = [one["data"] for one in acts if one["data"]["act"] == "records.delete"]
    assert [act["status"] for act in deletes] == found
    assert [answer.status for answer in failed] == [507, 507]


@on_loop
async def test_draining_waits_for_what_is_under_way(wait_ms: int) -> None:
    site = Site()
    await site.call("PUT", "/v0/topics/a")
    poll = site.send("POST", "/v0/topics/a/diff", {"wait_ms": wait_ms})
    drained = asyncio.ensure_future(site.server._gate.drain())
    await settled()
    assert not drained.done()

    await site.call("POST", "/v0/topics/a", RECORDS)
    await drained

    assert poll.is_answered


# Bodies.


@on_loop
async def test_a_packed_body_is_unpacked() -> None:
    site = Site()
    body = gzip.compress(json.dumps(RECORDS).encode())

    answer = await site.call("POST", "/v0/topics/a", body, headers=GZIP)

    assert answer.status == 201
    assert site.log.read("a").records[0].data == 1


@pytest.mark.parametrize(
    ("body", "encoding", "status", "code"),
    [
        (b"no gzip", b"gzip", 400, "invalid_request"),
        (gzip.compress(b"{}", mtime=0)[:-3], b"gzip", 400, "invalid_request"),
        (b"{}", b"br", 415, "unsupported_media_type"),
        (gzip.compress(b" " * 50_000, mtime=0), b"gzip", 413, "payload_too_large"),
    ],
)
@on_loop
async def test_a_packed_body_that_cannot_be_unpacked_is_refused(
    body: bytes, encoding: bytes, status: int, code: str
) -> None:
    site = Site(max_body_bytes=40_000)

    answer = await site.call(
        "POST", "/v0/topics/a", body, headers=GZIP | {b"content-encoding": encoding}
    )

    assert (answer.status, answer.code) == (status, code)


@on_loop
async def test_a_packed_body_may_not_grow_larger_than_its_route_allows() -> None:
    site = Site()
    large = gzip.compress(b'{"x":"' + bytes(range(35, 91)) * 20_000 + b'"}')

    answer = await site.call("POST", "/v0/topics/a/diff", large, headers=GZIP)

    assert answer.status == 413


def screened(site: Site, method: str, path: str, token: str | None) -> int:
    return site.server.screen(request_of(method, path, token=token))


@on_loop
async def test_a_body_is_screened_by_who_sends_it_and_where() -> None:
    site = keyed(max_body_bytes=8 << 20)

    assert screened(site, "POST", "/v0/topics/a", "writer") == 8 << 20
    assert screened(site, "POST", "/v0/batch", "writer") == 8 << 20
    assert screened(site, "POST", "/v0/topics/a/diff", "reader") == SMALL_BODY_BYTES
    assert screened(site, "GET", "/v0/ws?ticket=x", None) == SCREEN_BYTES
    for method, path, token, status in (
        ("POST", "/v0/topics/a", None, 401),
        ("POST", "/v0/topics/a", "reader", 403),
        ("POST", "/v0/nothing", "boss", 404),
        ("POST", "/v0/topics/us", "eu", 403),
    ):
        with pytest.raises(ApiError) as caught:
            screened(site, method, path, token)
        assert caught.value.status == status


# Tickets and tokens.


@on_loop
async def test_a_ticket_opens_a_stream_once_and_nothing_else() -> None:
    site = keyed()
    await site.call("PUT", "/v0/topics/a", token="boss")
    made = await site.call("POST", "/v0/watch", {"topics": {"a": {}}}, token="boss")
    ticket = (await site.call("POST", "/v0/tickets", {}, token="boss")).json["ticket"]
    other = (await site.call("POST", "/v0/tickets", {}, token="reader")).json["ticket"]

    path = f"/v0/watch/{made.json['wid']}"
    assert (await site.call("GET", f"/v0/topics?ticket={ticket}")).status == 401
    assert (await site.call("GET", f"{path}?ticket={other}")).status == 401
    assert site.send("GET", f"{path}?ticket={ticket}").stream is not None
    assert (await site.call("GET", f"{path}?ticket={ticket}")).status == 401


@on_loop
async def test_a_token_in_the_address_is_for_watches_only() -> None:
    site = keyed()
    await site.call("PUT", "/v0/topics/a", token="boss")
    made = await site.call("POST", "/v0/watch", {"topics": {"a": {}}}, token="boss")

    assert (await site.call("GET", "/v0/topics?token=boss")).status == 401
    assert (await site.call("GET", "/v0/ws?token=boss")).status == 401
    path = f"/v0/watch/{made.json['wid']}"
    assert (await site.call("GET", f"{path}?token=reader")).status == 401
    assert site.send("GET", f"{path}?token=%62oss").stream is not None


# Pages of other origins.


@on_loop
async def test_a_page_that_is_allowed_may_ask_and_read_the_answers() -> None:
    site = keyed(allowed_origins="https://app.example")
    origin = {b"origin": b"https://app.example"}

    asked = site.send("OPTIONS", "/v0/topics", headers=origin)
    called = site.send("GET", "/v0/topics", token="boss", headers=origin)
    await until(lambda: called.is_answered)

    assert asked.responses[0].status == 200
    names = dict(asked.responses[0].headers)
    assert b"authorization" in names[b"access-control-allow-headers"]
    for exchange in (asked, called):
        assert dict(exchange.extra)[b"access-control-allow-origin"] == b"https://app.example"


# Failures.


@on_loop
async def test_a_mistake_of_ours_is_an_answer_and_a_line_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    site = Site()
    for route in site.server._gate.routes.all:
        if route.template == "/v0/health":
            object.__setattr__(route, "handler", _broken)

    with caplog.at_level(logging.ERROR):
        answer = await site.call("GET", "/v0/health")

    assert (answer.status, answer.code) == (500, "internal")
    assert "secret" not in answer.body.decode()
    assert "GET '/v0/health' failed" in caplog.text


def _broken(request: Request) -> None:
    raise KeyError("secret")


@on_loop
async def test_a_failed_disk_is_told_without_its_paths() -> None:
    site = Site()
    await site.call("PUT", "/v0/topics/a", {"durability": "fsync"})
    site.fs.fail("sync")

    answer = await site.call("POST", "/v0/topics/a", RECORDS)

    assert (answer.status, answer.code) == (507, "storage_failed")
    assert "/penstock" not in answer.body.decode()
    assert isinstance(site.log.failed, LogFailed)


@on_loop
async def test_a_caller_who_left_breaks_nothing() -> None:
    site = Site()
    exchange = FakeExchange()

    def gone(response: object) -> None:
        raise ConnectionResetError

    exchange.respond = gone  # type: ignore[method-assign]
    site.server.handle(request_of("GET", "/no/such", exchange=exchange))
