"""S6: pages of other sites, told by what a browser adds to their requests. On every route."""

from __future__ import annotations

import pytest

from penstock.errors import InvalidArgument
from penstock.server.http.origins import Origins
from penstock.server.settings import ServerSettings
from tests.security.support import say, statuses
from tests.server.conftest import Start
from tests.server.h2wire import Http2
from tests.server.support import Api
from tests.support.serving import Address, Server

FOREIGN = [
    "http://evil.test",
    "https://evil.test",
    "http://localhost.evil.test",
    "http://evil.test:80",
    "http://localhost:1",
    "http://localhost@evil.test",
    "http://evil.test@localhost",
    "http://127.0.0.1",  # another origin than the localhost of the request
    "http://[::1",
    "file://",
    "localhost",
    "null",
    "",
]
LINES = {
    "a read": "GET /v0/topics",
    "a probe": "GET /v0/health",
    "metrics": "GET /v0/metrics",
    "the document": "GET /v0/openapi.json",
    "a stream": "GET /v0/watch/wid_AAAAAAAAAAAAAAAAAAAAAA",
    "a socket": "GET /v0/ws",
    "nothing": "GET /nothing",
    "a topic": "PUT /v0/topics/of-a-page",
    "an end of a topic": "DELETE /v0/topics/of-a-page",
    "a ticket": "POST /v0/tickets",
    "a question before a request": "OPTIONS /v0/topics/of-a-page",
}
ON_EVERY_ROUTE = pytest.mark.parametrize("line", LINES.values(), ids=LINES.keys())
CROSS = "Sec-Fetch-Site: cross-site"


def ask(address: Address, line: str, *headers: str) -> bytes:
    lines = [f"{line} HTTP/1.1", "Host: localhost", "Connection: close", *headers, "", ""]
    return say(address, "\r\n".join(lines).encode())


def is_forbidden(answer: bytes) -> bool:
    """403, and nothing that would let a page read it."""
    return statuses(answer) == [403] and b"access-control-" not in answer.lower()


@ON_EVERY_ROUTE
def test_a_foreign_origin_is_forbidden_on_every_route(shared: Server, api: Api, line: str) -> None:
    """S6: for every verb, safe ones too, for streams and for sockets."""
    for origin in FOREIGN:
        assert is_forbidden(ask(shared.address, line, f"Origin: {origin}")), origin
    assert api.get("/v0/topics/of-a-page").status == 404


@ON_EVERY_ROUTE
def test_what_is_cross_site_is_forbidden_on_every_route(
    shared: Server, api: Api, line: str
) -> None:
    """S6: with no Origin, as of an image or a link, and with one that says it is ours."""
    assert is_forbidden(ask(shared.address, line, CROSS))
    assert is_forbidden(ask(shared.address, line, CROSS, "Origin: http://localhost"))
    assert api.get("/v0/topics/of-a-page").status == 404


@ON_EVERY_ROUTE
def test_a_key_does_not_make_a_foreign_page_ours(secured: Server, full: Api, line: str) -> None:
    """S6: the page comes first, whatever it knows."""
    key = f"Authorization: Bearer {full.key}"

    assert is_forbidden(ask(secured.address, line, key, "Origin: http://evil.test"))
    assert is_forbidden(ask(secured.address, line, key, CROSS))


@pytest.mark.parametrize(
    "headers",
    [{"origin": "http://evil.test"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}],
)
def test_foreign_pages_are_forbidden_in_http2(shared: Server, headers: dict[str, str]) -> None:
    """S6: one gate for both versions, streams included."""
    with Http2(shared.address) as wire:
        for line in LINES.values():
            method, path = line.split()
            reply = wire.request(method, path, headers)
            assert reply.status == 403, line
            assert "access-control-allow-origin" not in reply.headers


def test_an_allowed_page_is_named_and_gets_no_credentials(start: Start) -> None:
    """S6: in the answer to its question and in every answer, refusals too; others are not."""
    origin = "https://app.example"
    server = start(PENSTOCK_ALLOWED_ORIGINS=origin, PENSTOCK_API_KEYS="sesame")

    for line in LINES.values():
        answer = ask(server.address, line, f"Origin: {origin}", CROSS).lower()
        assert b"\r\naccess-control-allow-origin: https://app.example\r\n" in answer, line
        assert b"\r\nvary: origin\r\n" in answer, line
        assert b"access-control-allow-credentials" not in answer, line
        assert is_forbidden(ask(server.address, line, f"Origin: {origin}.evil.test")), line
        assert is_forbidden(ask(server.address, line, f"Origin: {origin}:8443")), line


def test_a_star_opens_the_server_to_no_page() -> None:
    """S6: origins are named one by one."""
    with pytest.raises(InvalidArgument, match="PENSTOCK_ALLOWED_ORIGINS"):
        Origins(ServerSettings(allowed_origins="https://good.test, *"))
