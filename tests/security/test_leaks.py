"""S20 and S21: what answers and logs tell, and what a browser could make of them."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

import penstock
from tests.security.support import say
from tests.server.h2wire import Http2
from tests.server.support import BATCH, Api, api_of, new_name
from tests.server.wire import Connection, Reply, head
from tests.support.serving import Server, eventually

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e]")
FORGED = [
    "\n[ADMIN] all is well",
    "\r\n2026-01-01 00:00:00,000 INFO penstock.server: [ADMIN] all is well",
    "\x1b[2J\x1b[31m[ADMIN]\x1b]0;owned\x07",
    "\x00[ADMIN]",
    "\u2028[ADMIN]",
    "\u202e[ADMIN]",
    "%0a[ADMIN]",
    "%s%n[ADMIN]",
    "{0.__class__}[ADMIN]",
]
TELLTALES = ("Traceback", 'File "', ".py", "site-packages", "0x7f", "object at", "Errno")


@pytest.fixture(scope="module")
def chatty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose log these tests read."""
    server = Server(tmp_path_factory.mktemp("chatty"), {"PENSTOCK_API_KEYS": "sesame"}).start()
    yield server
    server.close()


def hidden_in(reply: Reply, server: Server) -> None:
    text = reply.body.decode(errors="replace") + str(reply.headers)
    for word in (*TELLTALES, str(server.home), str(Path(penstock.__file__).parent)):
        assert word not in text, text


@pytest.mark.parametrize("text", FORGED, ids=ascii)
def test_no_text_of_a_stranger_makes_a_line_in_the_log(chatty: Server, text: str) -> None:
    """S20: names, paths, queries, headers, bodies and methods, in good requests and bad."""
    api = api_of(chatty, "sesame")
    topic = new_name()
    api.create(topic)
    escaped = quote(text, safe="")
    replies = [
        api.get(f"/v0/topics/{escaped}"),
        api.put(f"/v0/topics/{escaped}"),
        api.get(f"/{escaped}?x={escaped}"),
        api.get(f"/v0/topics?prefix={escaped}&cursor={escaped}"),
        api.post(f"/v0/topics/{topic}", {"records": [{"data": text, "tag": text, "node": text}]}),
        api.post(f"/v0/topics/{topic}", {"records": text}),
        api.post(f"/v0/topics/{topic}/diff", {"tag": [text]}),
        api.post("/v0/watch", {"topics": {text: {}}}),
        api.as_key(None).get(f"/v0/watch/{escaped}?token={escaped}"),
    ]
    with api.socket() as wire:
        wire.ask("subscribe", topic=text)
        wire.ask("publish", topic=text, records=[{"data": text}])
        wire.connection.send(text)
        wire.connection.send(text.encode())
    raw = text.encode()
    say(chatty.address, b"GET /%b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" % raw)
    say(chatty.address, b"%b / HTTP/1.1\r\nHost: %b\r\n\r\n" % (raw, raw))
    say(chatty.address, b"GET / HTTP/1.1\r\nHost: %b\r\nConnection: close\r\n\r\n" % raw)

    for reply in replies:
        hidden_in(reply, chatty)
        assert not re.search(rb"[\x00-\x1f\x7f]", reply.body)
    said = chatty.said()
    assert "[ADMIN]" not in said
    assert not CONTROL.search(said)


def test_a_megabyte_of_header_is_neither_answered_nor_logged_in_full(chatty: Server) -> None:
    """S20: refusals are short, in the answer and in the log."""
    before = len(chatty.said())

    answer = say(
        chatty.address,
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: %b\r\n\r\n" % (b"[ADMIN]" * 150_000),
    )

    assert len(answer) < 1_000
    assert b"[ADMIN]" not in answer
    assert len(chatty.said()) - before < 1_000


def test_payloads_are_not_logged(chatty: Server) -> None:
    """S20: neither those that are kept nor those that are refused."""
    api = api_of(chatty, "sesame")
    topic = new_name()
    api.create(topic, cap_records=1, discard="reject")

    api.post(f"/v0/topics/{topic}", {"records": [{"data": "private-payload"}]})
    api.post(f"/v0/topics/{topic}", {"records": [{"data": "private-payload"}] * 2})
    api.post(f"/v0/topics/{topic}", {"records": ["private-payload"]})
    api.post(f"/v0/topics/{topic}", b"private-payload", {"Content-Type": "application/json"})

    assert "private-payload" not in chatty.said()


def test_a_failure_inside_tells_the_caller_nothing_of_it(start_broken: Server) -> None:
    """S20: paths and reasons are for the operator; the caller learns that it failed."""
    api = api_of(start_broken)
    with Connection(start_broken.address) as wire:
        body = b'{"records":[{"data":1}]}'
        reply = wire.request(
            "POST", "/v0/topics/new-topic", body, {"Content-Type": "application/json"}
        )

    assert reply.status in (500, 507)
    hidden_in(reply, start_broken)
    eventually(lambda: str(start_broken.data_dir) in start_broken.said(), "a word to the operator")
    health = Connection(api.address)
    hidden_in(health.request("GET", "/v0/health"), start_broken)
    health.close()


@pytest.fixture
def start_broken(tmp_path: Path) -> Iterator[Server]:
    """A server whose disk refuses to grow: files may have no more bytes than they have."""
    command = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))"
    hook = tmp_path / "hook"
    hook.mkdir()
    source = Path(penstock.__file__).parents[1]
    (hook / "sitecustomize.py").write_text(
        "import os, signal, threading\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "def cut():\n"
        "    while not os.path.exists(os.environ['CUT']):\n"
        "        threading.Event().wait(0.01)\n"
        f"    {command}\n"
        "    os.rename(os.environ['CUT'], os.environ['CUT'] + '-done')\n"
        "threading.Thread(target=cut, daemon=True).start()\n"
    )
    env = {"PYTHONPATH": f"{hook}:{source}", "CUT": str(tmp_path / "cut")}
    server = Server(tmp_path / "home", env).start()
    (tmp_path / "cut").touch()
    eventually((tmp_path / "cut-done").exists, "a disk that is full")
    yield server
    server.close()


# S21: there is no page of ours; so nothing of ours may be taken for one.

MARKUP = "<img src=x onerror=alert(1)><script>alert(1)</script>"


def answers(api: Api, topic: str) -> Iterator[tuple[str, Reply]]:
    one = [{"data": MARKUP, "tag": MARKUP, "node": "n", "meta": {MARKUP: MARKUP}}]
    yield "write", api.post(f"/v0/topics/{topic}", {"records": one})
    yield "read", api.post(f"/v0/topics/{topic}/diff", {"include_tags": True})
    yield "topic", api.get(f"/v0/topics/{topic}")
    yield "list", api.get("/v0/topics")
    yield "bad name", api.put(f"/v0/topics/{quote(MARKUP, safe='')}")
    yield "bad path", api.get(f"/{quote(MARKUP, safe='')}")
    yield (
        "bad type",
        api.post(f"/v0/topics/{topic}", MARKUP.encode(), {"Content-Type": "text/html"}),
    )
    yield (
        "bad JSON",
        api.post(f"/v0/topics/{topic}", MARKUP.encode(), {"Content-Type": "application/json"}),
    )
    yield "no key", api.as_key(None).get("/v0/topics")
    yield "metrics", api.get("/v0/metrics")
    yield "health", api.get("/v0/health")
    yield "document", api.get("/v0/openapi.json")
    yield "as a page", api.get("/v0/topics", {"Accept": "text/html,*/*"})
    with Connection(api.address) as wire:
        wire.send_what_it_takes(b"nonsense\r\n\r\n")
        yield "no HTTP", wire.read_reply()
    with Connection(api.address) as wire:
        wire.send(head("GET", "/v0/topics", {"Host": "evil.test"}))
        yield "bad host", wire.read_reply()


def test_nothing_is_ever_a_page(chatty: Server) -> None:
    """S21: JSON is called JSON, never guessed at, and markup in it stays text."""
    api = api_of(chatty, "sesame")
    topic = new_name()
    api.create(topic)

    for what, reply in answers(api, topic):
        kind = reply.headers["content-type"]
        assert kind.startswith(("application/json", "text/plain; version=")), what
        assert reply.headers["x-content-type-options"] == "nosniff", what
        assert "access-control-allow-origin" not in reply.headers, what
        assert "server" not in reply.headers, what


def test_nothing_is_a_page_in_http2_or_in_our_own_type_either(chatty: Server) -> None:
    """S21: good answers and refusals, JSON, metrics and batches."""
    api = api_of(chatty, "sesame")
    topic = new_name()
    api.create(topic)
    api.write(topic, MARKUP)
    key = {"authorization": "Bearer sesame"}
    diff = key | {"content-type": "application/json", "accept": BATCH}

    with Http2(chatty.address) as wire:
        replies = [
            wire.request("GET", "/v0/topics", key),
            wire.request("GET", "/v0/metrics", key),
            wire.request("GET", f"/v0/topics/{quote(MARKUP, safe='')}", key),
            wire.request("GET", "/v0/topics"),
            wire.request("POST", f"/v0/topics/{topic}/diff", diff, b"{}"),
        ]
    replies.append(api.post(f"/v0/topics/{topic}/diff", {}, {"Accept": BATCH}))

    assert [reply.status for reply in replies] == [200, 200, 404, 401, 200, 200]
    for reply in replies:
        kind = reply.headers["content-type"]
        assert kind.startswith(("application/json", "text/plain; version=", BATCH))
        assert reply.headers["x-content-type-options"] == "nosniff"


def test_a_stream_is_never_a_page(chatty: Server) -> None:
    """S21: the same for event streams, over both versions of HTTP."""
    api = api_of(chatty, "sesame")
    topic = new_name()
    api.create(topic)
    api.write(topic, MARKUP)

    with api.follow([topic]) as stream:
        assert stream.reply.headers["content-type"] == "text/event-stream"
        assert stream.reply.headers["x-content-type-options"] == "nosniff"
        assert stream.reply.headers["cache-control"] == "no-store"
    wid = api.watch([topic])["wid"]
    with Http2(chatty.address) as wire:
        number = wire.start("GET", f"/v0/watch/{wid}", {"authorization": "Bearer sesame"})
        reply = wire.head(number)
        assert reply.headers["content-type"] == "text/event-stream"
        assert reply.headers["x-content-type-options"] == "nosniff"


def test_a_client_that_breaks_off_leaves_no_stack_in_the_log(chatty: Server) -> None:
    """S20: resets in the middle of everything are business as usual."""
    api = api_of(chatty, "sesame")
    topic = new_name()
    api.create(topic)
    wid = api.watch([topic])["wid"]
    key = {"Authorization": "Bearer sesame", "Host": "localhost"}
    body = b'{"wait_ms":200}'
    fields = key | {"Content-Type": "application/json", "Content-Length": str(len(body))}
    diff = head("POST", f"/v0/topics/{topic}/diff", fields) + body
    starts = [
        b"GET /v0/hea",
        head("GET", f"/v0/watch/{wid}", key),
        diff,
        diff[:-5],
        head("POST", f"/v0/topics/{topic}", key | {"Transfer-Encoding": "chunked"}) + b"5\r\nab",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0",
    ]

    for start in starts * 5:
        wire = socket.create_connection(chatty.address)
        wire.sendall(start)
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        wire.close()  # with a reset

    api.write(topic, 1)
    assert api.diff(topic)["head_seq"] == 1
    assert "Traceback" not in chatty.said()
