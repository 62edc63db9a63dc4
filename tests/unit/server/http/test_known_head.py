"""Heads that were parsed before: recognised to the byte, and nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.server.errors import ApiError
from penstock.server.http.connection_limits import SCREEN_BYTES
from penstock.server.http.known_head import KnownHead, learn
from tests.unit.server.http.support import Desk
from tests.unit.server.support import answers_in, get, on_loop, post

LINES = (b"Host: localhost", b"Content-Type: application/json", b"Content-Length: 2")


def request(path: bytes = b"/v0/topics/t", body: bytes = b"{}", *more: bytes) -> bytes:
    lines = [b"POST %b HTTP/1.1" % path, *LINES[:2], b"Content-Length: %d" % len(body), *more]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def learned(*more: bytes) -> KnownHead | None:
    headers = {b"host": b"localhost", b"content-type": b"application/json", b"content-length": b"2"}
    for line in more:
        name, _, value = line.partition(b": ")
        headers[name.lower()] = value
    return learn(request(b"/v0/topics/t", b"{}", *more), headers, 2)


@given(
    path=st.from_regex(r"\A/[A-Za-z0-9._~/-]{0,30}(\?[a-z=&]{0,9})?\Z"),
    body=st.binary(max_size=300),
    rest=st.binary(max_size=20),
)
def test_a_request_with_the_same_lines_is_recognised(path: str, body: bytes, rest: bytes) -> None:
    known = learned()
    assert known is not None
    data = request(path.encode(), body)

    found = known.match(b"xyz" + data + rest, 3)

    target, _, query = path.partition("?")
    end = len(data)
    assert found == (target, query, 3 + end - len(body), 3 + end)
    assert known.match(data, 0) == (target, query, end - len(body), end)


@given(at=st.integers(0, 200), byte=st.integers(0, 255))
def test_a_head_that_differs_in_one_byte_is_left_to_the_parser(at: int, byte: int) -> None:
    known = learned()
    assert known is not None
    data = bytearray(request())
    head = data.index(b"\r\n\r\n") + 4
    line = data.index(b"\r\n")
    at = line + at % (head - line)
    is_digit = at == data.index(b"Length: ") + len(b"Length: ")
    if data[at] == byte or is_digit:
        return
    data[at] = byte

    assert known.match(bytes(data), 0) is None


@pytest.mark.parametrize(
    "line",
    [
        b"Expect: 100-continue",
        b"Transfer-Encoding: chunked",
        b"Content-Encoding: gzip",
        b"Upgrade: websocket",
        b"Connection: close",
        b"Connection: Upgrade",
        b"X-Content-Length: 1",
        b"Content-Length: 2",
        b"X-Long: " + b"x" * 1024,
    ],
)
def test_heads_that_mean_more_are_never_learned(line: bytes) -> None:
    assert learned(line) is None


def test_a_connection_that_is_kept_alive_is_nothing_special() -> None:
    known = learned(b"Connection: keep-alive", b"Accept-Encoding: gzip")

    assert known is not None
    assert known.accepts_gzip


@pytest.mark.parametrize(
    "data",
    [
        request(b"/a b"),
        request(b"/a%2Fb"),
        request("/é".encode()),
        request(b"*"),
        request().replace(b"HTTP/1.1", b"HTTP/1.0"),
        request().replace(b"POST", b"PUT "),
        request().replace(b"Length: 2", b"Length: +2"),
        request().replace(b"Length: 2", b"Length: "),
        request().replace(b"Length: 2", b"Length: 000002"),
        request()[:-1],
        request().replace(b"Length: 2", b"Length: 000000002"),
        b"",
    ],
)
def test_what_parsers_could_read_in_another_way_is_left_to_ours(data: bytes) -> None:
    known = learned()
    assert known is not None

    assert known.match(data, 0) is None


# On a connection.


@pytest.mark.parametrize("size", [None, 1, 7, 150])
@on_loop
async def test_requests_are_the_same_whether_their_head_is_known_or_not(size: int | None) -> None:
    view = Desk()
    view.is_echoing = True
    wire = view.connect()
    wire.feed(post("/first", {}))
    wire.feed(post("/second?x=1", {"n": 1}) + post("/third", [1, 2]), size)
    wire.feed(get("/fourth"), size)
    wire.feed(post("/fifth", {}, Idempotency_Key="k"), size)
    wire.feed(post("/sixth", {}), size)

    paths = ["/first", "/second", "/third", "/fourth", "/fifth", "/sixth"]
    assert [request.path for request in view.requests] == paths
    assert [request.body for request in view.requests] == [
        b"{}",
        b'{"n": 1}',
        b"[1, 2]",
        b"",
        b"{}",
        b"{}",
    ]
    assert view.requests[1].query("x") == "1"
    assert [b"idempotency-key" in request.headers for request in view.requests].count(True) == 1
    assert [body for _, _, body in answers_in(wire.sent)] == [path.encode() for path in paths]


@pytest.mark.parametrize("size", [None, 60_000])
@pytest.mark.parametrize("length", [4_095, 4_096, 65_536, 65_537, 120_000])
@on_loop
async def test_a_long_body_is_the_same_whether_the_head_is_known_or_not(
    length: int, size: int | None
) -> None:
    view = Desk()
    wire = view.connect()
    wire.feed(post("/first", {}))
    wire.feed(post("/second", "x" * (length - 2)), size)
    wire.feed(post("/third", "y" * (length - 2)) + post("/fourth", {}), size)

    bodies = [request.body for request in view.requests]
    assert bodies[1:] == [b'"%b"' % (c * (length - 2)) for c in (b"x", b"y")] + [b"{}"]
    assert [len(request.received) for request in view.requests] == [2, length, length, 2]
    assert len(view.screened) == (2 if length > SCREEN_BYTES else 0)


@pytest.mark.parametrize("is_refused", [False, True])
@on_loop
async def test_a_long_body_that_may_not_be_sent_is_refused_with_a_known_head_too(
    is_refused: bool,
) -> None:
    view = Desk()
    view.is_echoing = True
    wire = view.connect()
    wire.feed(post("/first", {}))
    if is_refused:
        view.refusal = ApiError(403, "forbidden", "no")
    else:
        view.body_max = 70_000

    wire.feed(post("/second", "x" * 80_000))

    assert [request.path for request in view.requests] == ["/first"]
    assert [status for status, _, _ in answers_in(wire.sent)] == [200, 403 if is_refused else 413]


@on_loop
async def test_a_view_of_what_was_read_is_not_kept_for_a_small_part_of_it() -> None:
    view = Desk()
    wire = view.connect()
    wire.feed(post("/first", {}))

    wire.feed(post("/second", "x" * 5_000))
    wire.feed(post("/third", "x" * 5_000) + post("/fourth", "y" * 50_000))

    kinds = [type(request.received) for request in view.requests]
    assert kinds == [bytes, memoryview, bytes, memoryview]


@on_loop
async def test_a_head_inside_another_request_is_not_mistaken_for_one() -> None:
    view = Desk()
    wire = view.connect()
    wire.feed(post("/first", {}))
    inner = post("/inner", {})
    wire.feed(b"POST /outer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(inner))
    wire.feed(inner)
    wire.feed(post("/second", {}) + b"POST /cut HTTP/1.1\r\nX-Name: ")
    wire.feed(post("/value", {}))

    assert [request.path for request in view.requests[:3]] == ["/first", "/outer", "/second"]
    assert view.requests[1].body == inner
    assert "/value" not in [request.path for request in view.requests]
