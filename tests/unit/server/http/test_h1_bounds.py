"""HTTP/1.1: what a peer cannot do to us. Too large, too many, too slow, too clever."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.server.errors import ApiError
from penstock.server.http.connection_limits import (
    HEADER_BYTES_MAX,
    HEADERS_MAX,
    LINGER_S,
    PIPELINE_MAX,
    SCREEN_BYTES,
    TURN_MAX,
)
from penstock.server.http.message import Response
from tests.unit.server.http.support import Desk
from tests.unit.server.support import Wire, answers_in, get, on_loop, post, settled

HEAD = b"POST / HTTP/1.1\r\nHost: localhost\r\n"


def refusal(wire: Wire) -> tuple[int, str]:
    """The status and code of the last answer, which must end the connection."""
    status, headers, body = answers_in(wire.sent)[-1]
    assert headers["connection"] == "close"
    assert wire.transport.is_closing()
    return status, json.loads(body)["error"]["code"]


# Too large.


@pytest.mark.parametrize("size", [None, 1])
@on_loop
async def test_a_body_that_announces_too_much_is_refused_before_it_comes(size: int | None) -> None:
    view = Desk(max_body_bytes=1000)
    wire = view.connect()

    wire.feed(HEAD + b"Expect: 100-continue\r\nContent-Length: 1001\r\n\r\n", size)

    assert refusal(wire) == (413, "payload_too_large")
    assert b"100 Continue" not in wire.sent
    assert not view.requests


@on_loop
async def test_a_body_of_exactly_the_most_is_read() -> None:
    view = Desk(max_body_bytes=1000)

    view.connect().feed(post("/", b"x" * 1000))

    assert len(view.requests[0].body) == 1000


@on_loop
async def test_a_chunked_body_is_refused_at_the_first_byte_too_many() -> None:
    view = Desk(max_body_bytes=1000)
    wire = view.connect()
    wire.feed(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")

    for _ in range(10):
        wire.feed(b"64\r\n" + b"x" * 100 + b"\r\n")
    assert not wire.transport.is_closing()
    wire.feed(b"1\r\nx\r\n")

    assert refusal(wire) == (413, "payload_too_large")
    assert not view.requests


@pytest.mark.parametrize(
    "head",
    [b"Content-Length: %d\r\n\r\n" % (SCREEN_BYTES + 1), b"Transfer-Encoding: chunked\r\n\r\n"],
)
@on_loop
async def test_a_large_body_of_somebody_who_may_not_send_it_is_not_read(head: bytes) -> None:
    view = Desk()
    view.refusal = ApiError(401, "unauthorized", "who are you?")
    wire = view.connect()

    wire.feed(HEAD + head)

    assert refusal(wire) == (401, "unauthorized")
    assert not view.requests


@on_loop
async def test_a_body_may_not_be_larger_than_its_route_allows() -> None:
    view = Desk()
    view.body_max = SCREEN_BYTES + 5
    fits, too_long, chunked = view.connect(), view.connect(), view.connect()

    fits.feed(HEAD + b"Content-Length: %d\r\n\r\n" % (SCREEN_BYTES + 5))
    too_long.feed(HEAD + b"Content-Length: %d\r\n\r\n" % (SCREEN_BYTES + 6))
    chunked.feed(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    chunked.feed(b"%x\r\n" % (SCREEN_BYTES + 6) + b"x" * (SCREEN_BYTES + 6))

    assert not fits.transport.is_closing()
    assert refusal(too_long) == refusal(chunked) == (413, "payload_too_large")


@pytest.mark.parametrize("size", [None, 1000, 50_000])
@pytest.mark.parametrize("where", ["one header", "many headers", "address"])
@on_loop
async def test_a_head_that_is_too_large_is_refused_however_it_comes(
    where: str, size: int | None
) -> None:
    view = Desk()
    wire = view.connect()
    large = "x" * (HEADER_BYTES_MAX + 1)
    heads = {
        "one header": get("/", f"A: {large}"),
        "many headers": get("/", *(f"A{n}: {'x' * 1000}" for n in range(70))),
        "address": get(f"/{large}"),
    }

    wire.feed(heads[where], size)

    assert refusal(wire) == (431, "headers_too_large")
    assert not view.requests


@pytest.mark.parametrize("size", [None, 100])
@on_loop
async def test_too_many_headers_are_refused(size: int | None) -> None:
    view = Desk()
    fits, too_many = view.connect(), view.connect()

    fits.feed(get("/", *(f"a{n}: 1" for n in range(HEADERS_MAX - 1))), size)
    too_many.feed(get("/", *("a: 1" for _ in range(HEADERS_MAX))), size)

    assert len(view.requests) == 1
    assert refusal(too_many) == (431, "headers_too_large")


@pytest.mark.parametrize(
    "flood", [b"X-Trailer: " + b"x" * 5000, b"5;" + b"x" * 5000], ids=["trailer", "extension"]
)
@on_loop
async def test_framing_without_a_body_is_not_endless(flood: bytes) -> None:
    view = Desk()
    wire = view.connect()
    wire.feed(HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
    wire.feed(b"0\r\n" if flood.startswith(b"X") else b"")
    wire.feed(flood)

    for _ in range(20):
        wire.feed(b"x" * 5000)

    assert refusal(wire) == (431, "headers_too_large")


@on_loop
async def test_many_requests_in_one_read_are_no_large_head() -> None:
    view = Desk()
    view.is_echoing = True
    wire = view.connect()
    one = get("/", f"A: {'x' * 900}")

    wire.feed(one * 100)
    assert len(answers_in(wire.sent)) == TURN_MAX  # the others have their turn in between
    await settled()

    assert len(answers_in(wire.sent)) == 100


# Too clever.


@pytest.mark.parametrize(
    "data",
    [
        b"\0\1\2\3",
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHo st: a\r\n\r\n",
        b"GET / HTTP/3.0\r\nHost: a\r\n\r\n",
        HEAD + b"Content-Length: -1\r\n\r\n",
        HEAD + b"Content-Length: 1x\r\n\r\n",
        HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        HEAD + b"Content-Length: 1, 1\r\n\r\na",
        HEAD + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
        HEAD + b"Upgrade: x\r\nConnection: upgrade\r\nContent-Length: 3\r\n\r\nabc",
    ],
)
@on_loop
async def test_what_could_be_read_in_two_ways_is_not_read(data: bytes) -> None:
    for size in (None, 1):
        view = Desk()
        wire = view.connect()

        wire.feed(data, size)

        status, code = refusal(wire)
        assert (status, code) == (400, "bad_request")
        assert not view.requests


@pytest.mark.parametrize("coding", [b"gzip, chunked", b"identity", b"chunked, chunked", b"gzip"])
@on_loop
async def test_transfer_codings_that_nobody_knows_are_refused(coding: bytes) -> None:
    view = Desk()
    wire = view.connect()

    wire.feed(HEAD + b"Transfer-Encoding: " + coding + b"\r\n\r\n0\r\n\r\n")

    assert refusal(wire)[0] in (400, 501)
    assert not view.requests


@on_loop
async def test_a_refusal_comes_after_the_answers_before_it() -> None:
    view = Desk()
    wire = view.connect()
    wire.feed(get("/a") + get("/b") + b"nonsense\0\r\n\r\n" + get("/c"))

    assert [request.path for request in view.requests] == ["/a", "/b"]
    assert wire.sent == b""
    view.answer(1)
    view.answer(0)

    assert [status for status, _, _ in answers_in(wire.sent)] == [200, 200, 400]
    assert wire.transport.is_closing()


@given(data=st.binary(max_size=300), size=st.integers(1, 300))
@on_loop
async def test_no_bytes_whatever_break_a_connection(data: bytes, size: int) -> None:
    view = Desk()
    view.is_echoing = True
    wire = view.connect()

    wire.feed(data, size)
    wire.feed(get("/") + data, size)

    assert all(status < 500 for status, _, _ in answers_in(wire.sent))


# Expectations.


@on_loop
async def test_who_asks_first_is_told_to_go_on() -> None:
    view = Desk()
    wire = view.connect()
    head, _, body = post("/a", b"{}", Expect="100-Continue").partition(b"\r\n\r\n")

    wire.feed(head + b"\r\n\r\n")
    assert wire.take() == b"HTTP/1.1 100 Continue\r\n\r\n"
    wire.feed(body)
    view.answer(0)

    assert answers_in(wire.sent)[0][2] == b"/a"


@on_loop
async def test_nobody_is_told_to_go_on_in_the_middle_of_other_answers() -> None:
    view = Desk()
    wire = view.connect()

    wire.feed(get("/first") + post("/a", b"{}", Expect="100-continue"))
    view.answer(1)
    view.answer(0)

    assert [status for status, _, _ in answers_in(wire.sent)] == [200, 200]


@on_loop
async def test_other_expectations_are_not_met() -> None:
    view = Desk()
    wire = view.connect()

    wire.feed(HEAD + b"Expect: the-best\r\nContent-Length: 2\r\n\r\n")

    assert refusal(wire) == (417, "invalid_request")


# Too many at once.


@on_loop
async def test_a_peer_that_does_not_wait_for_answers_is_read_no_further() -> None:
    view = Desk()
    wire = view.connect()

    for _ in range(PIPELINE_MAX - 1):
        wire.feed(get("/"))
    assert wire.transport.is_reading()
    wire.feed(get("/"))
    assert not wire.transport.is_reading()
    for number in range(PIPELINE_MAX):
        view.answer(number)

    assert wire.transport.is_reading()
    assert len(answers_in(wire.sent)) == PIPELINE_MAX


@on_loop
async def test_requests_of_a_peer_that_takes_no_answers_are_not_even_begun() -> None:
    view = Desk()
    wire = view.connect()
    wire.feed(get("/0"))
    wire.protocol.pause_writing()
    assert not wire.transport.is_reading()

    wire.protocol.data_received(b"".join(get(f"/{n}") for n in range(1, 5)))
    assert [request.path for request in view.requests] == ["/0"]
    wire.protocol.resume_writing()
    for number in range(5):
        view.answer(number)

    assert [body for _, _, body in answers_in(wire.sent)] == [b"/%d" % n for n in range(5)]
    assert wire.transport.is_reading()


@on_loop
async def test_a_peer_that_is_full_again_while_it_catches_up_waits_again() -> None:
    view = Desk()
    wire = view.connect()
    wire.protocol.pause_writing()
    wire.protocol.data_received(b"".join(get(f"/{n}") for n in range(4)))
    handle = view.handle

    def full_after_two(request: object) -> None:
        handle(request)  # type: ignore[arg-type]
        if len(view.requests) == 2:
            wire.protocol.pause_writing()

    view.handle = full_after_two  # type: ignore[method-assign]
    wire.protocol.resume_writing()
    assert len(view.requests) == 2
    assert not wire.transport.is_reading()
    wire.protocol.resume_writing()

    assert [request.path for request in view.requests] == ["/0", "/1", "/2", "/3"]
    assert wire.transport.is_reading()


@on_loop
async def test_connections_beyond_the_most_are_closed_at_once() -> None:
    view = Desk(max_connections=2)
    first, second, third = (view.connect() for _ in range(3))

    third.protocol.data_received(get("/"))
    await settled()

    assert third.transport.is_closing()
    assert not view.requests
    assert (len(view.connection_limits), view.connection_limits.refused) == (2, 1)
    first.transport.close()
    await settled()
    assert not view.connect().transport.is_closing()
    assert not second.transport.is_closing()


# Too slow.


@on_loop
async def test_a_head_must_come_in_time_however_it_drips() -> None:
    view = Desk()
    wire = view.connect()
    for byte in b"GET / HTTP":
        wire.feed(bytes([byte]))
        view.beat(wire, 999)
    assert not wire.transport.is_closing()

    view.beat(wire, 1_000)

    assert refusal(wire) == (408, "request_timeout")


@on_loop
async def test_the_time_of_a_head_begins_with_its_first_byte() -> None:
    view = Desk()
    view.is_echoing = True
    wire = view.connect()
    view.beat(wire, 60_000)
    wire.feed(get("/a"))
    view.beat(wire, 60_000)

    wire.feed(get("/b"))

    assert len(answers_in(wire.sent)) == 2


@on_loop
async def test_a_body_must_come_in_time() -> None:
    view = Desk(body_min_rate=0)
    wire = view.connect()
    wire.feed(HEAD + b"Content-Length: 9\r\n\r\n")
    view.beat(wire, 60_000)
    assert not wire.transport.is_closing()

    view.beat(wire, 1)

    assert refusal(wire) == (408, "request_timeout")


@on_loop
async def test_a_body_must_keep_up_its_rate_after_a_while() -> None:
    view = Desk(body_min_rate=1_000)
    fast, slow = view.connect(), view.connect()
    for wire in (fast, slow):
        wire.feed(HEAD + b"Content-Length: 50000\r\n\r\n")
    view.beat(slow, 5_000)
    assert not slow.transport.is_closing(), "everyone has a moment to begin"

    fast.feed(b"x" * 6_500)
    slow.feed(b"x" * 5_500)
    view.beat(fast, 1_000)
    view.beat(slow, 0)

    assert not fast.transport.is_closing()
    assert refusal(slow) == (408, "request_timeout")


@on_loop
async def test_an_idle_connection_is_closed_without_a_word() -> None:
    view = Desk()
    view.is_echoing = True
    wire = view.connect()
    wire.feed(get("/a"))
    wire.take()
    view.beat(wire, 75_000)
    assert not wire.transport.is_closing()

    view.beat(wire, 1)

    assert wire.transport.is_closing()
    assert wire.sent == b""


@on_loop
async def test_who_waits_for_an_answer_is_not_idle() -> None:
    view = Desk()
    wire = view.connect()
    wire.feed(get("/a"))

    view.beat(wire, 1_000_000)
    view.answer(0)

    assert len(answers_in(wire.sent)) == 1
    assert not wire.transport.is_closing()


@pytest.mark.parametrize("kind", ["stream", "answer"])
@on_loop
async def test_a_peer_that_takes_nothing_is_dropped(kind: str) -> None:
    view = Desk()
    wire = view.connect()
    wire.feed(get("/a"))
    if kind == "stream":
        view.requests[0].exchange.start_stream(())
    else:
        view.answer(0, Response(200, b"x" * 100))
    wire.transport.stuck = 100
    view.beat(wire, 1)
    view.beat(wire, 50_000)
    wire.transport.stuck = 99  # a byte is progress
    view.beat(wire, 50_000)
    view.beat(wire, 59_000)
    assert not wire.transport.is_aborted

    view.beat(wire, 1_001)

    assert wire.transport.is_aborted


@on_loop
async def test_a_quiet_stream_is_never_too_slow() -> None:
    view = Desk()
    wire = view.connect()
    wire.feed(get("/a"))
    view.requests[0].exchange.start_stream(())

    for _ in range(10):
        view.beat(wire, 1_000_000)

    assert not wire.transport.is_closing()


@on_loop
async def test_a_refusal_is_not_cut_off_by_what_is_still_being_sent() -> None:
    """Closing on bytes that nobody reads resets the connection, and the answer with it."""
    view = Desk(max_body_bytes=1000)
    wire = view.connect()
    wire.transport.leaves = False

    wire.feed(HEAD + b"Content-Length: 100000\r\n\r\n")
    assert b" 413 " in wire.sent
    assert wire.transport.is_half_closed
    for _ in range(100):
        wire.feed(b"x" * 1000)
    assert not wire.transport.is_closing()

    view.beat(wire, LINGER_S * 1000 - 1)
    assert not wire.transport.is_closing()
    view.beat(wire, 2)
    assert wire.transport.is_closing()


@on_loop
async def test_a_refused_peer_that_leaves_is_let_go_at_once() -> None:
    view = Desk(max_body_bytes=1000)
    wire = view.connect()
    wire.transport.leaves = False

    wire.feed(HEAD + b"Content-Length: 100000\r\n\r\n")

    assert not wire.protocol.eof_received()  # the transport closes itself on that
