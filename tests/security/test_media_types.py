"""S7: what a form or a simple request of a page could send."""

from __future__ import annotations

import pytest

from tests.security.support import say, statuses
from tests.server.support import Api

KINDS = [
    None,
    "",
    "text/plain",
    "text/plain; application/json",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=application/json",
    "text/json",
    "text/html",
    "application/xml",
    "text/plain;charset=utf-8,application/json",
]
BODY = b'{"records":[{"data":1}]}'
WRITES = {
    "/v0/topics/{}": BODY,
    "/v0/batch": b'{"writes":[{"topic":"{}","records":[{"data":1}]}]}',
    "/v0/topics/{}/delete": b'{"before_seq":1}',
    "/v0/watch": b'{"topics":{"{}":{}}}',
    "/v0/topics/{}/diff": b"{ }",
}


def ask(api: Api, method: str, target: str, kind: str | None, body: bytes) -> int:
    lines = [f"{method} {target} HTTP/1.1", "Host: localhost", "Connection: close"]
    lines += [] if kind is None else [f"Content-Type: {kind}"]
    start = "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""])
    return statuses(say(api.address, start.encode() + body))[0]


@pytest.mark.parametrize("kind", KINDS, ids=repr)
def test_only_json_and_our_own_type_are_read(api: Api, topic: str, kind: str | None) -> None:
    """S7: so a page of another site has to ask first, and is told no."""
    api.create(topic)

    for target, body in WRITES.items():
        name = topic.encode()
        found = ask(api, "POST", target.replace("{}", topic), kind, body.replace(b"{}", name, 1))
        assert found == 415, target
    assert ask(api, "PUT", f"/v0/topics/{topic}-2", kind, b"{ }") == 415
    assert ask(api, "PUT", f"/v0/topics/{topic}/positions/p", kind, b'{"seq":0}') == 415
    assert api.state(topic)["head_seq"] == 0
    assert api.get(f"/v0/topics/{topic}-2").status == 404


def test_nothing_is_known_by_a_cookie(full: Api) -> None:
    """S7: a browser adds cookies by itself, so they prove nothing; none is ever set."""
    assert full.key
    for cookie in (full.key, f"Bearer {full.key}", f"token={full.key}", f"key={full.key}"):
        reply = full.as_key(None).get("/v0/topics", {"Cookie": cookie})
        assert reply.status == 401
        assert "set-cookie" not in reply.headers
    assert "set-cookie" not in full.get("/v0/topics").headers


@pytest.mark.parametrize("scheme", ["Basic", "Digest", "Negotiate", "", "Token", "BearerX"])
def test_only_bearer_proves_a_key(full: Api, scheme: str) -> None:
    """S7: schemes that a browser answers by itself are not asked for and not taken."""
    reply = full.as_key(None).get("/v0/topics", {"Authorization": f"{scheme} {full.key}"})

    assert reply.status == 401
    assert reply.headers["www-authenticate"] == "Bearer"
