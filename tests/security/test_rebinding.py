"""S5: a name of somebody else that leads to this server."""

from __future__ import annotations

import pytest

from tests.security.support import Http2Peer, say, statuses
from tests.server.h2wire import Http2
from tests.server.support import Api
from tests.support.serving import Server

EVIL = [
    "evil.test",
    "localhost.evil.test",
    "127.0.0.1.evil",
    "127.0.0.1.evil.test:80",
    "evil/../",
    "evil.test#localhost",
    "evil.test?localhost",
    "localhost@evil.test",
    "evil.test@localhost",
    "localhost evil.test",
    "localhost\tevil.test",
    "localhost,evil.test",
    "localhost:80:80",
    "localhost:evil",
    "localhost:-1",
    "localhost/",
    "localhost.",
    "local\xadhost",
    "[::1",
    "[::1]evil.test",
    "[::1].evil.test",
    "[::1]80",
    "[::ffff:127.0.0.1]",
    "::1",
    "0x7f000001",
    "2130706433",
    "127.1",
    "0.0.0.0",
    "*",
    "",
]
TARGETS = {
    "a read": "GET /v0/topics",
    "a probe": "GET /v0/health",
    "the document": "GET /v0/openapi.json",
    "a stream": "GET /v0/watch/wid_AAAAAAAAAAAAAAAAAAAAAA",
    "a socket": "GET /v0/ws",
    "nothing": "GET /nothing",
    "a topic": "PUT /v0/topics/rebound",
    "a question before a request": "OPTIONS /v0/topics/rebound",
}


def ask(server: Server, line: str, *hosts: str) -> list[int]:
    lines = [f"{line} HTTP/1.1", *(f"Host: {host}" for host in hosts), "Connection: close"]
    return statuses(say(server.address, ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")))


@pytest.mark.parametrize("host", EVIL)
def test_a_foreign_name_is_misdirected(shared: Server, host: str) -> None:
    """S5: what is not exactly a name of ours is not ours."""
    assert ask(shared, "GET /v0/topics", host)[0] in (400, 421)


@pytest.mark.parametrize("line", TARGETS.values(), ids=TARGETS.keys())
def test_the_name_is_checked_on_every_route(shared: Server, api: Api, line: str) -> None:
    """S5: streams, sockets and probes included, with and without a second name."""
    assert ask(shared, line, "evil.test") == [421]
    assert ask(shared, line) == [400]
    assert ask(shared, line, "localhost", "evil.test") == [400]
    assert ask(shared, line, "evil.test", "localhost") == [400]
    assert api.get("/v0/topics/rebound").status == 404


@pytest.mark.parametrize("host", EVIL[:4])
def test_the_name_is_checked_with_a_good_key_too(full: Api, secured: Server, host: str) -> None:
    """S5: a key does not make a foreign name ours."""
    headers = f"Host: {host}\r\nAuthorization: Bearer {full.key}\r\nConnection: close\r\n"

    answer = say(secured.address, f"GET /v0/topics HTTP/1.1\r\n{headers}\r\n".encode())

    assert statuses(answer) == [421]


@pytest.mark.parametrize("target", ["http://evil.test/v0/health", "http://localhost/v0/health"])
def test_a_target_with_a_name_in_it_does_not_override_the_host(shared: Server, target: str) -> None:
    """S5: the path is the path; nothing is rebuilt from what the caller calls us."""
    assert ask(shared, f"GET {target}", "evil.test") == [421]
    assert ask(shared, f"GET {target}", "localhost") == [404]


@pytest.mark.parametrize("path", ["*/v0/health", "*", "//v0/health", "/v0//health", "/v0/./health"])
def test_a_path_has_one_spelling(shared: Server, path: str) -> None:
    """S5: what only looks like a route is none, so no check can be passed with it."""
    assert ask(shared, f"GET {path}", "localhost")[0] in (400, 404)


@pytest.mark.parametrize("line", TARGETS.values(), ids=TARGETS.keys())
def test_old_versions_of_http_name_the_server_too(shared: Server, line: str) -> None:
    """S5: HTTP/1.0 knows requests without a Host; here they are refused like any other."""
    for headers, expected in (("", 400), ("Host: evil.test\r\n", 421)):
        answer = say(shared.address, f"{line} HTTP/1.0\r\n{headers}\r\n".encode())
        assert statuses(answer) == [expected]


def test_a_second_name_in_http2_is_refused(shared: Server) -> None:
    """S5: a Host beside the pseudo-header must not be another one."""
    for host, expected in (("evil.test", 0), ("localhost.evil.test", 0), ("localhost", 200)):
        with Http2Peer(shared.address) as peer:
            stream = peer.begin("GET", "/v0/topics", ("host", host), end=True)
            peer.flush()
            assert peer.outcome(stream) == expected


@pytest.mark.parametrize("authority", ["evil.test", "localhost.evil.test", ""])
def test_the_name_is_checked_in_http2(shared: Server, authority: str) -> None:
    """S5: there it is a pseudo-header."""
    with Http2(shared.address) as wire:
        wire.authority = authority
        assert wire.request("GET", "/v0/topics").status in (400, 421)
