"""Refusals by the routing itself, the shape of all of them, and that each is tried somewhere."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.support import CODES, SOCKET_CODES, Api, refused
from tests.server.wire import Connection
from tests.support.serving import Server

HERE = Path(__file__).parent


def literal_calls(name: str) -> Iterator[tuple[object, ...]]:
    """The literal arguments, past the first, of every call of `name` in this folder."""
    for path in sorted(HERE.glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                args = node.args[1:]
                if node.func.id == name and all(isinstance(a, ast.Constant) for a in args[:2]):
                    yield tuple(a.value for a in args[:2] if isinstance(a, ast.Constant))


def test_every_code_of_the_table_is_tried_by_name() -> None:
    assert set(literal_calls("refused")) == CODES


def test_every_code_of_the_socket_is_tried_by_name() -> None:
    tried = {args[0] for args in literal_calls("socket_error")}

    assert tried >= SOCKET_CODES


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/v0"),
        ("GET", "/v0/"),
        ("GET", "/v0/nothing"),
        ("GET", "/v1/topics"),
        ("POST", "/topics"),
        ("GET", "/v0/watch/wid_AAAAAAAAAAAAAAAAAAAAAA"),
        ("GET", "/v0/watch/nonsense"),
    ],
)
def test_an_unknown_path_is_not_found(api: Api, method: str, path: str) -> None:
    refused(api.call(method, path), 404, "not_found")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PATCH", "/v0/topics/a"),
        ("POST", "/v0/topics"),
        ("DELETE", "/v0/topics"),
        ("GET", "/v0/topics/a/diff"),
        ("PUT", "/v0/topics/a/diff"),
        ("GET", "/v0/topics/a/delete"),
        ("GET", "/v0/watch"),
        ("POST", "/v0/watch/wid_AAAAAAAAAAAAAAAAAAAAAA"),
        ("POST", "/v0/health"),
        ("DELETE", "/v0/ready"),
        ("PUT", "/healthz"),
        ("POST", "/v0/metrics"),
        ("GET", "/v0/batch"),
        ("GET", "/v0/tickets"),
        ("POST", "/v0/openapi.json"),
        ("POST", "/v0/topics/a/positions"),
        ("POST", "/v0/topics/a/positions/p"),
        ("POST", "/v0/topics/a/delayed"),
        ("GET", "/v0/topics/a/delayed/1"),
        ("POST", "/v0/ws"),
    ],
)
def test_the_wrong_verb_on_a_known_path_is_not_allowed(api: Api, method: str, path: str) -> None:
    reply = api.call(method, path)

    refused(reply, 405, "method_not_allowed")
    possible = reply.headers["allow"].split(", ")
    assert possible
    assert method not in possible
    for other in possible:
        assert api.call(other, path).status != 405


def test_a_missing_topic_says_which(api: Api, topic: str) -> None:
    for reply in (
        api.get(f"/v0/topics/{topic}"),
        api.post(f"/v0/topics/{topic}/diff", {}),
        api.post(f"/v0/topics/{topic}/delete", {"before_seq": 1}),
        api.post(f"/v0/topics/{topic}", {"records": [{"data": 1}], "create": False}),
        api.post("/v0/watch", {"topics": {topic: {}}}),
        api.put(f"/v0/topics/{topic}/positions/p", {"seq": 0}),
        api.get(f"/v0/topics/{topic}/positions"),
    ):
        refused(reply, 404, "topic_not_found", {"topic": topic})


@pytest.mark.parametrize("accept", ["application/json", "text/html", "text/plain, image/png"])
def test_a_stream_for_who_wants_none_is_not_acceptable(api: Api, topic: str, accept: str) -> None:
    """Also when the session does not exist: what the client accepts is looked at first."""
    api.create(topic)
    wid = api.watch([topic])["wid"]

    for path in (f"/v0/watch/{wid}", "/v0/watch/wid_AAAAAAAAAAAAAAAAAAAAAA"):
        refused(api.get(path, {"Accept": accept}), 406, "not_acceptable")


@pytest.mark.parametrize("accept", ["text/event-stream", "*/*", "", "text/html, */*;q=0.1", None])
def test_a_stream_for_who_wants_anything_is_given(
    api: Api, shared: Server, topic: str, accept: str | None
) -> None:
    api.create(topic)
    wid = api.watch([topic])["wid"]
    headers = {} if accept is None else {"Accept": accept}

    with Connection(shared.address) as wire:
        wire.send_request("GET", f"/v0/watch/{wid}", headers=headers)

        assert wire.read_head().status == 200


def test_an_error_leaves_the_connection_usable(shared: Server) -> None:
    with Connection(shared.address) as wire:
        for _ in range(3):
            refused(wire.request("GET", "/v0/nothing"), 404, "not_found")
        assert wire.request("GET", "/v0/health").status == 200
