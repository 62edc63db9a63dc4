"""HTTP/1.1 on one connection: what is read, and that answers leave whole and in order.

Bounds and deadlines are in test_h1_bounds.py.
"""

from __future__ import annotations

import gzip
import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.server.http.exchange import EndlessBody, Http1Exchange
from penstock.server.http.message import Request, Response
from tests.unit.server.http.support import Desk
from tests.unit.server.support import answers_in, get, on_loop, post, settled

PLAIN = post("/v0/topics/a?return_seqs=0&x=%2f", b'{"records":[{"data":1}]}', X_Thing="one")
CHUNKED = (
    b"POST /v0/topics/a?q HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
    b"Content-Type: application/json\r\n\r\n"
    b'4;name="value"\r\n{"re\r\n1\r\nc\r\n0a\r\nords":[{"d\r\n8\r\nata":1}]\r\n1\r\n}\r\n'
    b"0\r\nX-Trailer: later\r\nHost: elsewhere\r\n\r\n"
)


def seen(request: Request) -> tuple[Any, ...]:
    return request.method, request.path, request.query_text, request.headers, request.body


# Reading.


@pytest.mark.parametrize("data", [PLAIN, CHUNKED, get("/v0/health", "Accept: */*")])
@on_loop
async def test_a_request_is_the_same_however_it_is_cut(data: bytes) -> None:
    view = Desk()
    whole = view.connect()
    whole.feed(data)
    for size in (1, 2, 3, 7, 16):
        view.connect().feed(data, size)
    for at in range(1, len(data)):
        wire = view.connect()
        wire.feed(data[:at])
        wire.feed(data[at:])

    assert len(view.requests) == len(data) + 5
    assert all(seen(request) == seen(view.requests[0]) for request in view.requests)


@on_loop
async def test_a_request_has_its_parts() -> None:
    view = Desk()

    view.connect("10.1.2.3").feed(PLAIN)

    (request,) = view.requests
    assert (request.method, request.path) == ("POST", "/v0/topics/a")
    assert request.query_text == "return_seqs=0&x=%2f"
    assert request.headers[b"x-thing"] == b"one"
    assert request.body == b'{"records":[{"data":1}]}'
    assert request.peer == "10.1.2.3"


@on_loop
async def test_chunks_are_joined_and_trailers_change_nothing() -> None:
    view = Desk()

    view.connect().feed(CHUNKED)

    assert view.requests[0].body == b'{"records":[{"data":1}]}'
    assert view.requests[0].headers[b"host"] == b"localhost"
    assert b"x-trailer" not in view.requests[0].headers


@given(
    pieces=st.lists(st.binary(min_size=1, max_size=50), max_size=12),
    size=st.integers(1, 40),
)
@on_loop
async def test_chunked_bodies_of_any_shape_come_out_whole(pieces: list[bytes], size: int) -> None:
    view = Desk()
    head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"

    view.connect().feed(head + body, size)

    assert view.requests[0].body == b"".join(pieces)


@on_loop
async def test_headers_sent_twice_are_joined() -> None:
    view = Desk()

    view.connect().feed(get("/", "Accept: a", "Accept: b", "Host: other"))

    assert view.requests[0].headers[b"accept"] == b"a,b"
    assert view.requests[0].headers[b"host"] == b"localhost,other"  # which no server has


# Answers.


@on_loop
async def test_an_answer_has_length_type_date_and_nothing_to_sniff() -> None:
    view = Desk()
    wire = view.connect()
    wire.feed(get("/a"))

    view.answer(0, Response(201, b'{"a":1}', headers=((b"x-one", b"1"),)))

    ((status, headers, body),) = answers_in(wire.sent)
    assert (status, body) == (201, b'{"a":1}')
    assert headers == {
        "date": "Thu, 01 Jan 1970 00:00:00 GMT",
        "x-content-type-options": "nosniff",
        "content-type": "application/json",
        "content-length": "7",
        "x-one": "1",
    }
    assert not wire.transport.is_closing()


@on_loop
async def test_what_the_gate_adds_to_an_answer_is_in_it() -> None:
    view = Desk()
    wire = view.connect()
    wire.feed(get("/a") + get("/b"))

    view.requests[0].exchange.extra = ((b"vary", b"origin"),)
    view.requests[1].exchange.extra = ((b"vary", b"origin"),)
    view.answer(0)
    view.requests[1].exchange.start_stream(())

    assert wire.sent.count(b"\r\nvary: origin\r\n") == 2


@on_loop
async def test_an_unknown_status_has_no_phrase() -> None:
    view = Desk()
    wire = view.connect()
    wire.feed(get("/a"))

    view.answer(0, Response(599, b""))

    assert wire.sent.startswith(b"HTTP/1.1 599 \r\n")


@given(order=st.permutations(range(6)), size=st.integers(1, 400))
@on_loop
async def test_answers_leave_in_the_order_of_their_requests(order: list[int], size: int) -> None:
    view = Desk()
    wire = view.connect()
    wire.feed(b"".join(post(f"/{n}", b"x" * n) for n in range(6)), size)
    assert [request.path for request in view.requests] == [f"/{n}" for n in range(6)]

    done: set[int] = set()
    for number in order:
        view.answer(number)
        done.add(number)
        due = next(n for n in itertools.count() if n not in done)
        assert [body for _, _, body in answers_in(wire.sent)] == [b"/%d" % n for n in range(due)]

    assert not wire.transport.is_closing()


@on_loop
async def test_only_the_first_answer_counts() -> None:
    view = Desk()
    wire = view.connect()
    wire.feed(get("/a") + get("/b"))

    view.answer(1, Response(200, b"first"))
    view.answer(1, Response(500, b"second"))
    view.answer(0)

    assert [body for _, _, body in answers_in(wire.sent)] == [b"/a", b"first"]


@on_loop
async def test_an_answer_to_somebody_who_left_is_dropped() -> None:
    view = Desk()
    wire = view.connect()
    left: list[int] = []
    wire.feed(get("/a"))
    view.requests[0].exchange.on_close = lambda: left.append(1)
    wire.transport.close()
    await settled()

    view.answer(0)

    assert wire.sent == b""
    assert left == [1]
    assert len(view.connection_limits) == 0


@on_loop
async def test_a_head_request_is_answered_without_a_body() -> None:
    view = Desk()
    wire = view.connect()
    wire.feed(get("/a", method="HEAD") + get("/b"))

    view.answer(0, Response(200, b"12345"))
    view.answer(1)

    head, _, rest = wire.sent.partition(b"\r\n\r\n")
    assert b"content-length: 5" in head
    assert rest.startswith(b"HTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize(
    ("version", "lines", "is_kept"),
    [
        ("1.1", (), True),
        ("1.1", ("Connection: close",), False),
        ("1.0", (), False),
        ("1.0", ("Connection: keep-alive",), True),
    ],
)
@on_loop
async def test_a_connection_is_kept_as_its_version_and_its_peer_say(
    version: str, lines: tuple[str, ...], is_kept: bool
) -> None:
    view = Desk()
    wire = view.connect()
    wire.feed(get("/a", *lines, version=version))

    view.answer(0)

    ((status, headers, body),) = answers_in(wire.sent)
    assert (status, body) == (200, b"/a")
    assert (headers.get("connection") == "close") is not is_kept
    assert wire.transport.is_closing() is not is_kept


@on_loop
async def test_what_follows_a_last_request_is_not_answered() -> None:
    view = Desk()
    wire = view.connect()
    wire.feed(get("/a", "Connection: close"))
    view.answer(0)

    wire.protocol.data_received(get("/b"))

    assert len(view.requests) == 1


@pytest.mark.parametrize("accepts", [b"gzip", b"*", b"br, GZIP;q=0.5"])
@on_loop
async def test_a_large_answer_is_compressed_for_who_takes_it(accepts: bytes) -> None:
    view = Desk()
    wire = view.connect()
    large = json.dumps(["text"] * 1000).encode()
    wire.feed(get("/a", f"Accept-Encoding: {accepts.decode()}") + get("/b"))

    view.answer(0, Response(200, large))
    view.answer(1, Response(200, large))

    (_, first, packed), (_, second, plain) = answers_in(wire.sent)
    assert (first["content-encoding"], first["vary"]) == ("gzip", "accept-encoding")
    assert gzip.decompress(packed) == plain == large
    assert "content-encoding" not in second


@on_loop
async def test_half_a_close_lets_the_answers_out() -> None:
    view = Desk()
    wire = view.connect()
    wire.feed(get("/a") + get("/b"))

    assert wire.protocol.eof_received() is True
    view.answer(1)
    assert not wire.transport.is_closing()
    view.answer(0)

    assert [body for _, _, body in answers_in(wire.sent)] == [b"/a", b"/b"]
    assert wire.transport.is_closing()


@on_loop
async def test_half_a_close_of_an_idle_peer_ends_it() -> None:
    view = Desk()

    assert not view.connect().protocol.eof_received()


@on_loop
async def test_shutting_lets_what_was_begun_have_its_answer() -> None:
    view = Desk()
    idle, busy, begun = view.connect(), view.connect(), view.connect()
    busy.feed(get("/a"))
    begun.feed(PLAIN[:-5])

    for wire in (idle, busy, begun):
        wire.protocol.shut()
    assert [wire.transport.is_closing() for wire in (idle, busy, begun)] == [True, False, False]
    begun.feed(PLAIN[-5:])
    view.answer(0)
    view.answer(1)

    assert len(answers_in(busy.sent)) == len(answers_in(begun.sent)) == 1
    assert answers_in(begun.sent)[0][1]["connection"] == "close"
    assert busy.transport.is_closing()
    assert begun.transport.is_closing()


# Streams.


async def streaming(view: Desk, data: bytes = b"") -> tuple[Any, EndlessBody]:
    wire = view.connect()
    wire.feed(data or get("/events"))
    stream = view.requests[-1].exchange.start_stream(((b"content-type", b"text/event-stream"),))
    assert isinstance(stream, EndlessBody)
    return wire, stream


@on_loop
async def test_a_stream_leaves_in_chunks_and_ends_in_order() -> None:
    view = Desk()
    wire, stream = await streaming(view)

    stream.write(stream.framed(b"one"))
    stream.write(stream.framed(b"x" * 17))
    stream.close()
    stream.close()
    stream.write(b"late")

    head, _, rest = wire.sent.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"content-type: text/event-stream\r\n" in head
    assert b"transfer-encoding: chunked" in head
    assert rest == b"3\r\none\r\n11\r\n" + b"x" * 17 + b"\r\n0\r\n\r\n"
    assert wire.transport.is_closing()


@on_loop
async def test_a_stream_waits_for_the_answers_before_it() -> None:
    view = Desk()
    wire = view.connect()
    wire.feed(get("/first") + get("/events"))

    stream = view.requests[1].exchange.start_stream(())
    stream.write(stream.framed(b"early"))
    assert wire.sent == b""
    view.answer(0)
    stream.write(stream.framed(b"later"))

    first, _, rest = wire.sent.partition(b"/first")
    assert b"content-length: 6" in first
    assert rest.startswith(b"HTTP/1.1 200 OK")
    assert rest.endswith(b"\r\n\r\n5\r\nearly\r\n5\r\nlater\r\n")


@on_loop
async def test_a_stream_whose_turn_has_not_come_is_full_in_time() -> None:
    view = Desk(stream_buffer_bytes=1000)
    wire = view.connect()
    wire.feed(get("/first") + get("/events"))
    stream = view.requests[1].exchange.start_stream(())
    drained: list[int] = []
    stream.on_drain = lambda: drained.append(1)

    stream.write(stream.framed(b"x" * 2000))
    assert stream.is_full
    view.answer(0)

    assert not stream.is_full
    assert drained == [1]


@pytest.mark.parametrize("is_together", [True, False])
@on_loop
async def test_nothing_behind_a_stream_is_read(is_together: bool) -> None:
    view = Desk()

    def stream_first(request: Request) -> None:
        view.requests.append(request)
        request.exchange.start_stream(())

    view.handle = stream_first  # type: ignore[method-assign]
    wire = view.connect()
    wire.feed(get("/events") + (get("/a") if is_together else b""))
    wire.feed(get("/b") + b"and \0 nonsense")

    assert [request.path for request in view.requests] == ["/events"]
    assert not wire.transport.is_closing()
    assert wire.sent.count(b"HTTP/1.1") == 1


@on_loop
async def test_who_streams_hears_of_a_full_peer_of_its_draining_and_of_its_end() -> None:
    view = Desk(stream_buffer_bytes=1234)
    wire, stream = await streaming(view)
    heard: list[str] = []
    stream.on_drain = lambda: heard.append("drained")
    stream.on_close = lambda: heard.append("closed")

    assert wire.transport.limit == 1234
    wire.protocol.pause_writing()
    assert stream.is_full
    assert wire.transport.is_reading(), "a stream goes on listening, for the peer to leave"
    wire.protocol.resume_writing()
    assert not stream.is_full
    wire.transport.abort()
    await settled()

    assert heard == ["drained", "closed"]
    assert stream.is_closed
    stream.write(b"nobody is there")


# Other protocols.


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
@on_loop
async def test_a_peer_that_speaks_http_2_is_handed_over(size: int) -> None:
    view = Desk()
    wire = view.connect("10.0.0.9")

    wire.feed(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", max(size, 3) if size > 3 else size)

    transport, peer, data = view.taken_over[0]
    assert (transport, peer) == (wire.transport, "10.0.0.9")
    assert data[:3] == b"PRI"
    assert len(view.connection_limits) == 0
    assert not view.requests


@pytest.mark.parametrize("method", ["PUT", "POST", "PATCH", "PROPFIND", "GET"])
@on_loop
async def test_other_methods_with_the_same_first_letters_are_http_1(method: str) -> None:
    view = Desk()

    view.connect().feed(get("/a", method=method), 1)

    assert [request.method for request in view.requests] == [method]
    assert not view.taken_over


UPGRADE = get("/v0/ws", "Connection: Upgrade", "Upgrade: websocket")


@pytest.mark.parametrize("size", [None, 1, 9])
@on_loop
async def test_an_upgrade_gets_the_connection_and_what_follows_its_head(size: int | None) -> None:
    view = Desk()
    taken: list[Any] = []

    def upgrade(request: Request) -> None:
        exchange = request.exchange
        assert isinstance(exchange, Http1Exchange)
        assert exchange.can_upgrade
        exchange.upgrade(b"HTTP/1.1 101 X\r\n\r\n", lambda *args: taken.append(args))

    view.handle = upgrade  # type: ignore[method-assign]
    wire = view.connect()
    wire.feed(UPGRADE + b"rest", size)

    assert taken[0][0] is wire.transport
    assert b"rest".startswith(taken[0][1])
    assert size is not None or taken[0][1] == b"rest"
    assert wire.sent == b"HTTP/1.1 101 X\r\n\r\n"
    assert len(view.connection_limits) == 0


@on_loop
async def test_an_upgrade_that_nobody_offers_is_a_plain_request() -> None:
    view = Desk()
    wire = view.connect()

    wire.feed(UPGRADE + get("/next") + get("/last"))
    for number in range(3):
        view.answer(number)

    assert [body for _, _, body in answers_in(wire.sent)] == [b"/v0/ws", b"/next", b"/last"]


@on_loop
async def test_a_request_behind_another_cannot_be_upgraded() -> None:
    view = Desk()
    view.connect().feed(get("/first") + UPGRADE)

    exchange = view.requests[1].exchange

    assert isinstance(exchange, Http1Exchange)
    assert not exchange.can_upgrade


@on_loop
async def test_a_stream_to_an_old_peer_is_not_in_chunks() -> None:
    view = Desk()
    wire = view.connect()
    wire.feed(b"GET /v0/watch/w HTTP/1.0\r\nHost: localhost\r\n\r\n")

    stream = view.requests[0].exchange.start_stream(((b"content-type", b"text/event-stream"),))
    stream.write(stream.framed(b"data: 1\n\n"))
    stream.close()
    await settled()

    head, _, body = wire.sent.partition(b"\r\n\r\n")
    assert b"chunked" not in head
    assert b"connection: close" in head
    assert body == b"data: 1\n\n"
    assert wire.transport.is_closing()


@pytest.mark.parametrize("size", [None, 100])
@on_loop
async def test_nobody_overtakes_a_request_whose_body_is_encoded(size: int | None) -> None:
    """Its encoding is undone on another thread, and meanwhile those behind it wait."""
    view = Desk()
    wire = view.connect()
    first = post("/a", gzip.compress(b"1"), Content_Encoding="gzip")

    wire.feed(first + post("/b", b"2") + post("/c", b"3"), size)
    await settled()
    assert [request.path for request in view.requests] == ["/a"]

    view.is_echoing = True
    view.answer(0)
    await settled()
    assert [request.path for request in view.requests] == ["/a", "/b", "/c"]
    assert [body for _, _, body in answers_in(wire.sent)] == [b"/a", b"/b", b"/c"]
