"""HTTP/1.1 as such: connections, framing, targets, queries."""

from __future__ import annotations

import pytest

from tests.server.support import JSON, Api, Later, compact, new_name, refused
from tests.server.wire import Connection, head
from tests.support.serving import Server


@pytest.fixture
def wire(shared: Server) -> Connection:
    with Connection(shared.address) as connection:
        yield connection


def test_a_connection_serves_one_request_after_another(wire: Connection, topic: str) -> None:
    body = compact({"records": [{"data": 1}]}).encode()

    heads = [wire.request("POST", f"/v0/topics/{topic}", body, JSON).json for _ in range(20)]

    assert [answer["last_seq"] for answer in heads] == list(range(1, 21))


@pytest.mark.parametrize("exists", [True, False])
def test_pipelined_writes_are_done_and_answered_in_their_order(
    api: Api, wire: Connection, topic: str, exists: bool
) -> None:
    """Also the one that creates the topic is not overtaken by those behind it."""
    if exists:
        api.create(topic)
    bodies = [compact({"records": [{"data": n}]}).encode() for n in range(50)]
    start = {"Host": wire.host} | JSON

    wire.send(
        b"".join(
            head("POST", f"/v0/topics/{topic}", start | {"Content-Length": str(len(body))}) + body
            for body in bodies
        )
    )
    answers = [wire.read_reply().json for _ in bodies]

    assert [answer["first_seq"] for answer in answers] == list(range(1, 51))
    assert [record["data"] for record in api.diff(topic)["records"]] == list(range(50))


def test_a_pipelined_answer_waits_for_the_slow_one_before_it(
    api: Api, wire: Connection, topic: str
) -> None:
    api.create(topic)
    wait = compact({"wait_ms": 30_000}).encode()
    wire.send_request("POST", f"/v0/topics/{topic}/diff", wait, JSON)
    wire.send_request("GET", "/v0/health")

    api.write(topic, "late")
    first, second = wire.read_reply(), wire.read_reply()

    assert first.json["records"][0]["data"] == "late"
    assert second.json["status"] == "ok"


def test_connection_close_is_honoured(wire: Connection) -> None:
    reply = wire.request("GET", "/v0/health", headers={"Connection": "close"})

    assert reply.status == 200
    assert wire.read_rest() == b""


def test_a_request_may_come_in_single_bytes(wire: Connection, topic: str) -> None:
    body = compact({"records": [{"data": "slowly"}]}).encode()
    start = {"Host": wire.host, "Content-Length": str(len(body))} | JSON

    for byte in head("POST", f"/v0/topics/{topic}", start) + body:
        wire.send(bytes([byte]))

    assert wire.read_reply().status == 201


def test_a_chunked_body_is_a_body(wire: Connection, api: Api, topic: str) -> None:
    body = compact({"records": [{"data": "in pieces"}]}).encode()
    chunks = b"".join(b"%x\r\n%b\r\n" % (1, body[n : n + 1]) for n in range(len(body)))

    reply = wire.request(
        "POST",
        f"/v0/topics/{topic}",
        chunks + b"0\r\n\r\n",
        JSON | {"Transfer-Encoding": "chunked"},
    )

    assert reply.status == 201
    assert api.diff(topic)["records"][0]["data"] == "in pieces"


def test_a_client_that_asks_first_is_told_to_continue(wire: Connection, topic: str) -> None:
    body = compact({"records": [{"data": 1}]}).encode()
    start = {"Host": wire.host, "Content-Length": str(len(body)), "Expect": "100-continue"}

    wire.send(head("POST", f"/v0/topics/{topic}", start | JSON))
    told = wire.read_until(b"\r\n\r\n")
    wire.send(body)

    assert told.startswith(b"HTTP/1.1 100 ")
    assert wire.read_reply().status == 201


def test_an_upgrade_to_cleartext_http2_is_not_offered(wire: Connection) -> None:
    upgrade = {
        "Connection": "Upgrade, HTTP2-Settings",
        "Upgrade": "h2c",
        "HTTP2-Settings": "AAMAAABkAAQAAP__",
    }

    reply = wire.request("GET", "/v0/health", headers=upgrade)

    assert reply.status == 200
    assert reply.json["status"] == "ok"


def test_answers_are_compact_json(api: Api, topic: str) -> None:
    api.write(topic, {"a": [1, 2]})

    body = api.post(f"/v0/topics/{topic}/diff", {}).body

    assert f'"topic":"{topic}"'.encode() in body
    assert b'"$seq":1' in body
    assert b'"data":{"a":[1,2]}' in body
    assert b": " not in body


def test_a_name_in_the_path_is_percent_decoded(api: Api) -> None:
    name = f"{new_name()}:a"
    api.write(name, 1)

    assert api.state(name.replace(":", "%3A"))["topic"] == name
    assert api.state(name.replace("a", "%61"))["topic"] == name


@pytest.mark.parametrize("path", ["%zz", "%", "%e2%28", "%00", "a%2Fb", "..%2f..%2fetc", "a%20b"])
def test_a_strange_name_in_the_path_is_refused(api: Api, path: str) -> None:
    assert api.put(f"/v0/topics/{path}", {}).status in (400, 404)
    assert api.get(f"/v0/topics/{path}").status in (400, 404)


@pytest.mark.parametrize(
    ("query", "is_touched"),
    [
        ("", True),
        ("?touch=true", True),
        ("?touch=1", True),
        ("?touch=false", False),
        ("?touch=0", False),
        ("?touch=maybe", True),
        ("?touch=", True),
        ("?other=false", True),
    ],
)
def test_a_query_flag_that_is_no_flag_means_the_default(
    api: Api, topic: str, query: str, is_touched: bool
) -> None:
    api.create(topic)

    state = api.state(topic, query)

    assert (state["last_read_ts"] is not None) == is_touched


@pytest.mark.parametrize(("size", "count"), [("abc", 3), ("", 3), ("-4", None), ("2", 2)])
def test_a_query_number_that_is_no_number_means_the_default(
    api: Api, size: str, count: int | None
) -> None:
    prefix = new_name("page")
    for n in range(3):
        api.create(f"{prefix}.{n}")

    reply = api.get(f"/v0/topics?prefix={prefix}.&page_size={size}")

    assert reply.status == 200
    if count is not None:
        assert len(reply.json["topics"]) == count


# What is not HTTP.


def test_what_is_not_http_is_a_bad_request(wire: Connection) -> None:
    wire.send(b"this is not a request\r\n\r\n")

    refused(wire.read_reply(), 400, "bad_request")
    assert wire.read_rest() == b""


def test_a_transfer_coding_the_server_does_not_know_is_not_implemented(wire: Connection) -> None:
    start = {"Host": wire.host, "Transfer-Encoding": "rot13"} | JSON
    wire.send(head("POST", "/v0/topics/x", start))

    refused(wire.read_reply(), 501, "not_implemented")


def test_a_head_without_end_is_too_large(wire: Connection) -> None:
    wire.send_what_it_takes(b"GET /v0/health HTTP/1.1\r\nHost: localhost\r\n")
    for n in range(4096):
        wire.send_what_it_takes(b"X-Filler-%d: %b\r\n" % (n, b"x" * 240))

    refused(wire.read_reply(), 431, "headers_too_large")


def test_a_target_without_end_is_refused(wire: Connection) -> None:
    wire.send_what_it_takes(b"GET /v0/topics?prefix=" + b"x" * 1_000_000)

    assert wire.read_reply().status in (400, 414, 431)


POST = b"POST /v0/topics/smuggled HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
NEXT = b"GET /v0/health HTTP/1.1\r\nHost: localhost\r\n\r\n"
MALFORMED = {
    "a length and chunks": POST
    + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "a length with a sign": POST + b"Content-Length: +2\r\n\r\n{}",
    "a negative length": POST + b"Content-Length: -2\r\n\r\n{}",
    "a length in hex": POST + b"Content-Length: 0x2\r\n\r\n{}",
    "chunked in the middle": POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "a blank before the colon": POST + b"Content-Length : 2\r\n\r\n{}",
    "a folded header": POST + b"X-Fold: a\r\n b\r\nContent-Length: 2\r\n\r\n{}",
    "a zero byte in a header": POST + b"X-Zero: a\0b\r\nContent-Length: 2\r\n\r\n{}",
    "a bare line feed": POST + b"X-Bare: a\nContent-Length: 2\r\n\r\n{}",
    "a chunk size that is no number": POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
    "a chunk size in C": POST + b"Transfer-Encoding: chunked\r\n\r\n0x2\r\n{}\r\n0\r\n\r\n",
    "a chunk longer than it says": POST + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n",
    "a huge chunk size": POST + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
    "a method that is none": b"G@T /v0/health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a version that is none": b"GET /v0/health HTTP/9.9\r\nHost: localhost\r\n\r\n",
}


@pytest.mark.parametrize("request_", MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_framing_ends_the_connection_and_is_never_two_requests(
    api: Api, wire: Connection, request_: bytes
) -> None:
    wire.send_what_it_takes(request_ + NEXT)

    answered = wire.read_rest()

    assert answered == b"" or answered.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 501 "))
    assert answered.count(b"HTTP/1.1 ") <= 1
    assert b'"uptime_ms"' not in answered
    assert api.get("/v0/topics/smuggled").status == 404


def test_a_client_that_leaves_takes_nothing_with_it(api: Api, shared: Server, topic: str) -> None:
    api.create(topic)
    body = compact({"wait_ms": 30_000}).encode()
    for _ in range(10):
        with Connection(shared.address) as connection:
            connection.send_request("POST", f"/v0/topics/{topic}/diff", body, JSON)
    with Connection(shared.address) as connection:
        connection.send(head("POST", f"/v0/topics/{topic}", {"Host": "localhost"})[:-10])

    with Later(lambda: api.diff(topic, wait_ms=30_000)) as waiting:
        api.write(topic, "still here")

        assert waiting.result()["records"][0]["data"] == "still here"
