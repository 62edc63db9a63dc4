"""HTTP/2 on one connection, against a client that knows the protocol, all in memory."""

from __future__ import annotations

import gzip
import json

import h2.errors
import h2.events
import h2.settings
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.server.errors import ApiError
from penstock.server.http.h2 import Http2Connection
from penstock.server.http.message import Response
from tests.unit.server.http.h2client import Client, code
from tests.unit.server.http.support import Desk
from tests.unit.server.support import FakeTransport, on_loop, settled

# Requests and answers.


@pytest.mark.parametrize("size", [None, 1, 7])
@on_loop
async def test_a_request_is_the_same_as_over_http_1(size: int | None) -> None:
    view = Desk()
    client = Client(view, size)

    number = client.send("/v0/topics/a?x=%2f", b'{"a":1}', more=[("x-one", "1"), ("x-one", "2")])

    (request,) = view.requests
    assert (request.method, request.path, request.query_text) == ("POST", "/v0/topics/a", "x=%2f")
    assert request.headers == {b"host": b"localhost", b"x-one": b"1,2"}
    assert (request.body, request.peer) == (b'{"a":1}', "10.0.0.7")
    view.answer(0, Response(201, b"done", headers=((b"x-two", b"2"),)))
    client.pump()
    assert client.headers(number) == {
        ":status": "201",
        "date": "Thu, 01 Jan 1970 00:00:00 GMT",
        "x-content-type-options": "nosniff",
        "content-type": "application/json",
        "content-length": "4",
        "x-two": "2",
    }
    assert client.body(number) == b"done"
    assert client.is_ended(number)
    assert not client.was_reset(number)


@given(order=st.permutations(range(5)))
@on_loop
async def test_answers_leave_as_they_are_ready(order: list[int]) -> None:
    view = Desk()
    client = Client(view)
    numbers = [client.send(f"/{n}", b"") for n in range(5)]

    for place, n in enumerate(order):
        view.answer(n)
        client.pump()
        ready = [number for number in numbers if client.is_ended(number)]
        assert sorted(ready) == sorted(numbers[one] for one in order[: place + 1])

    assert [client.body(number) for number in numbers] == [b"/%d" % n for n in range(5)]


@on_loop
async def test_a_head_request_is_answered_without_a_body() -> None:
    view = Desk()
    client = Client(view)
    number = client.send("/", method="HEAD")

    view.answer(0, Response(200, b"12345"))
    client.pump()

    assert client.headers(number)["content-length"] == "5"
    assert (client.body(number), client.is_ended(number)) == (b"", True)


@on_loop
async def test_a_large_answer_is_compressed_for_who_takes_it() -> None:
    view = Desk()
    client = Client(view)
    large = json.dumps(["text"] * 1000).encode()
    packed = client.send("/", method="GET", more=[("accept-encoding", "gzip")])
    plain = client.send("/", method="GET")

    view.answer(0, Response(200, large))
    view.answer(1, Response(200, large))
    client.pump()

    assert client.headers(packed)["content-encoding"] == "gzip"
    assert gzip.decompress(client.body(packed)) == client.body(plain) == large


@on_loop
async def test_only_the_first_answer_counts_and_none_to_who_left() -> None:
    view = Desk()
    client = Client(view)
    first = client.send("/a", b"")
    second = client.send("/b", b"")
    left: list[int] = []
    view.requests[1].exchange.on_close = lambda: left.append(1)
    client.h2.reset_stream(second)
    client.pump()

    view.answer(0)
    view.answer(0, Response(500, b"no"))
    view.answer(1)
    client.pump()

    assert client.body(first) == b"/a"
    assert left == [1]
    assert not client.of(h2.events.ResponseReceived, second)
    assert not client.transport.is_closing()


@on_loop
async def test_an_answer_after_the_connection_went_is_dropped() -> None:
    view = Desk()
    client = Client(view)
    client.send("/a", b"")
    client.transport.abort()
    await settled()

    view.answer(0)

    assert len(view.connection_limits) == 0


# Bodies.


@on_loop
async def test_a_body_in_many_frames_comes_out_whole() -> None:
    view = Desk()
    client = Client(view)
    number = client.send("/", b"0", is_whole=False)
    for n in range(1, 10):
        client.h2.send_data(number, b"%d" % n * 1000)
        client.pump()
    assert not view.requests

    client.h2.end_stream(number)
    client.pump()

    assert view.requests[0].body == b"0" + b"".join(b"%d" % n * 1000 for n in range(1, 10))


@on_loop
async def test_more_than_a_window_of_body_is_taken_piece_by_piece() -> None:
    view = Desk()
    client = Client(view)
    number = client.send("/", b"", is_whole=False)
    left = 6 << 20
    while left:
        size = min(left, client.h2.local_flow_control_window(number), 16_384)
        assert size, "the server gives no more window"
        client.h2.send_data(number, b"x" * size, end_stream=left == size)
        left -= size
        client.pump()

    assert len(view.requests[0].body) == 6 << 20


@on_loop
async def test_a_body_that_announces_too_much_is_refused_before_it_comes() -> None:
    view = Desk(max_body_bytes=1000)
    client = Client(view)

    number = client.send("/", is_whole=False, more=[("content-length", "1001")])

    assert (client.status(number), code(client, number)) == (413, "payload_too_large")
    assert not view.requests
    assert client.was_reset(number) == [h2.errors.ErrorCodes.NO_ERROR]


@on_loop
async def test_a_body_that_grows_too_large_is_refused_and_the_others_live_on() -> None:
    view = Desk(max_body_bytes=1000)
    client = Client(view)
    large = client.send("/large", b"x" * 900, is_whole=False)
    other = client.send("/other", b"y", is_whole=False)

    client.h2.send_data(large, b"x" * 101)
    client.pump()
    client.h2.end_stream(other)
    client.pump()
    view.answer(0)
    client.pump()

    assert (client.status(large), client.body(other)) == (413, b"/other")
    assert [request.path for request in view.requests] == ["/other"]


@on_loop
async def test_a_body_of_somebody_who_may_not_send_it_is_not_kept() -> None:
    view = Desk()
    view.refusal = ApiError(401, "unauthorized", "who are you?")
    client = Client(view)

    number = client.send("/", b"secret", is_whole=False)

    assert (client.status(number), code(client, number)) == (401, "unauthorized")
    assert not view.requests


@on_loop
async def test_a_body_may_not_be_larger_than_its_route_allows() -> None:
    view = Desk()
    view.body_max = 10
    client = Client(view)

    announced = client.send("/", is_whole=False, more=[("content-length", "11")])
    silent = client.send("/", b"x" * 11, is_whole=False)

    assert [client.status(number) for number in (announced, silent)] == [413, 413]


@on_loop
async def test_a_body_of_another_length_than_announced_ends_the_connection() -> None:
    view = Desk()
    client = Client(view)
    number = client.h2.get_next_available_stream_id()
    headers = [(":method", "POST"), (":path", "/"), (":scheme", "http"), (":authority", "a")]
    client.h2.send_headers(number, [*headers, ("content-length", "5")])
    client.h2.send_data(number, b"1234567", end_stream=True)
    client.server.data_received(client.h2.data_to_send())

    assert not view.requests
    assert client.transport.is_closing()


# Windows.


@on_loop
async def test_an_answer_waits_for_the_peers_window() -> None:
    view = Desk()
    client = Client(view, INITIAL_WINDOW_SIZE=100)
    client.is_taking_data = False
    number = client.send("/", b"")

    view.answer(0, Response(200, b"x" * 250))
    client.pump()
    assert len(client.body(number)) == 100
    client.h2.increment_flow_control_window(100, number)
    client.pump()
    assert len(client.body(number)) == 200
    assert not client.is_ended(number)
    client.h2.increment_flow_control_window(100, number)
    client.pump()

    assert client.body(number) == b"x" * 250
    assert client.is_ended(number)


@on_loop
async def test_one_slow_stream_does_not_stop_another() -> None:
    view = Desk()
    client = Client(view, INITIAL_WINDOW_SIZE=100)
    client.is_taking_data = False
    slow, quick = client.send("/", b""), client.send("/", b"")

    view.answer(0, Response(200, b"x" * 250))
    view.answer(1, Response(200, b"y" * 50))
    client.pump()

    assert client.body(quick) == b"y" * 50
    assert client.is_ended(quick)
    assert not client.is_ended(slow)


@on_loop
async def test_requests_of_a_peer_that_takes_no_answers_are_not_even_begun() -> None:
    view = Desk(stream_buffer_bytes=1000)
    client = Client(view, INITIAL_WINDOW_SIZE=0)
    first = client.send("/0", b"")
    view.answer(0, Response(200, b"x" * 1001))
    client.pump()

    client.send("/1", b"")
    assert len(view.requests) == 1
    client.h2.reset_stream(first)
    client.pump()

    assert [request.path for request in view.requests] == ["/0", "/1"]


# Streams.


@on_loop
async def test_a_stream_goes_on_until_one_side_ends_it() -> None:
    view = Desk()
    client = Client(view)
    number = client.send("/", method="GET")
    stream = view.requests[0].exchange.start_stream(((b"content-type", b"text/event-stream"),))

    stream.write(stream.framed(b"one"))
    client.pump()
    assert client.headers(number)["content-type"] == "text/event-stream"
    assert client.body(number) == b"one"
    stream.write(stream.framed(b"two"))
    stream.close()
    stream.close()
    stream.write(b"late")
    client.pump()

    assert client.body(number) == b"onetwo"
    assert client.is_ended(number)


@on_loop
async def test_who_streams_hears_of_a_full_peer_of_its_draining_and_of_its_end() -> None:
    view = Desk(stream_buffer_bytes=500)
    client = Client(view, INITIAL_WINDOW_SIZE=100)
    client.is_taking_data = False
    number = client.send("/", method="GET")
    stream = view.requests[0].exchange.start_stream(())
    heard: list[str] = []
    stream.on_drain = lambda: heard.append("drained")
    stream.on_close = lambda: heard.append("closed")

    stream.write(b"x" * 700)
    assert stream.is_full
    assert stream.buffered() == 600
    client.pump()
    client.h2.increment_flow_control_window(300, number)
    client.pump()
    assert not stream.is_full
    assert heard == ["drained"]
    client.h2.reset_stream(number)
    client.pump()

    assert heard == ["drained", "closed"]


@on_loop
async def test_a_full_connection_stops_reading_and_all_streams() -> None:
    view = Desk()
    client = Client(view)
    client.send("/", method="GET")
    stream = view.requests[0].exchange.start_stream(())
    heard: list[str] = []
    stream.on_drain = lambda: heard.append("drained")

    client.server.pause_writing()
    assert stream.is_full
    assert not client.transport.is_reading()
    client.server.resume_writing()

    assert not stream.is_full
    assert client.transport.is_reading()
    assert heard == ["drained"]


@on_loop
async def test_an_aborted_stream_is_reset_and_the_others_live_on() -> None:
    view = Desk()
    client = Client(view)
    first, second = client.send("/", method="GET"), client.send("/b", b"")
    stream = view.requests[0].exchange.start_stream(())

    stream.abort()
    stream.abort()
    view.answer(1)
    client.pump()

    assert client.was_reset(first) == [h2.errors.ErrorCodes.CANCEL]
    assert client.body(second) == b"/b"


# Deadlines and endings.


@on_loop
async def test_a_body_must_come_in_time_and_keep_up_its_rate() -> None:
    view = Desk(body_min_rate=1000)
    client = Client(view)
    number = client.send("/", b"x" * 2000, is_whole=False)
    client.beat(5_000)
    assert not client.of(h2.events.ResponseReceived, number)

    client.beat(1)

    assert (client.status(number), code(client, number)) == (408, "request_timeout")


@on_loop
async def test_a_request_that_is_whole_waits_for_its_answer_as_long_as_it_takes() -> None:
    view = Desk()
    client = Client(view)
    number = client.send("/", b"")
    for _ in range(100):
        client.beat(15_000)

    view.answer(0)
    client.pump()

    assert client.status(number) == 200


@on_loop
async def test_a_silent_peer_is_asked_whether_it_is_there() -> None:
    view = Desk()
    client = Client(view)
    client.send("/", method="GET")
    view.requests[0].exchange.start_stream(())

    client.beat(20_001)
    assert any(isinstance(event, h2.events.PingReceived) for event in client.events)
    for _ in range(10):
        client.beat(20_001)

    assert not client.transport.is_closing(), "it answers every time"


@on_loop
async def test_a_peer_that_does_not_answer_is_dropped() -> None:
    view = Desk()
    client = Client(view)
    client.send("/", method="GET")
    view.requests[0].exchange.start_stream(())
    client.pump = lambda: None  # type: ignore[method-assign]

    client.beat(20_001)
    client.beat(20_000)
    assert not client.transport.is_aborted
    client.beat(1)

    assert client.transport.is_aborted


@on_loop
async def test_an_idle_connection_is_closed_with_a_goodbye() -> None:
    view = Desk()
    client = Client(view)
    client.beat(75_000)
    assert not client.transport.is_closing()

    client.beat(1)

    assert client.transport.is_closing()
    assert any(isinstance(event, h2.events.ConnectionTerminated) for event in client.events)


@on_loop
async def test_a_peer_that_takes_nothing_is_dropped() -> None:
    view = Desk()
    client = Client(view, INITIAL_WINDOW_SIZE=10)
    client.is_taking_data = False
    client.send("/", b"")
    view.answer(0, Response(200, b"x" * 100))
    client.pump()
    client.beat(1)
    client.beat(59_000)
    assert not client.transport.is_aborted

    client.beat(1_001)

    assert client.transport.is_aborted


@on_loop
async def test_shutting_serves_what_is_under_way_to_its_end() -> None:
    view = Desk()
    client = Client(view)
    number = client.send("/a", b"")

    client.server.shut()
    assert not client.transport.is_closing()
    view.answer(0)
    client.pump()

    assert client.body(number) == b"/a"
    assert client.transport.is_closing()


@on_loop
async def test_connections_beyond_the_most_are_closed_at_once() -> None:
    view = Desk(max_connections=1)
    Client(view)
    server = Http2Connection(view, "10.0.0.8")
    transport = FakeTransport(server)

    server.start(transport, b"")

    assert transport.is_aborted


# Clever peers.


@pytest.mark.parametrize(
    "frame",
    [
        b"\0\0\4\3\0\0\0\0\0\0\0\0\0",  # RST_STREAM on stream 0
        b"\0\0\1\6\0\0\0\0\0\0",  # a short PING
        b"\0\0\1\0\0\0\0\0\2x",  # DATA on a stream of ours
        b"\0\x40\1\0\0\0\0\0\1" + b"x" * 16_385,  # a frame that is too large
    ],
)
@on_loop
async def test_a_bad_frame_ends_the_connection_in_order(frame: bytes) -> None:
    view = Desk()
    client = Client(view)

    client.server.data_received(frame)

    assert client.transport.is_closing()
    assert client.transport.written, "it says why"


@given(noise=st.binary(min_size=1, max_size=200))
@on_loop
async def test_no_bytes_whatever_break_a_connection(noise: bytes) -> None:
    view = Desk()
    view.is_echoing = True
    client = Client(view)

    client.server.data_received(noise)
    client.server.beat(1.0)


@pytest.mark.parametrize("kind", ["ping", "settings", "reset", "empty data"])
@on_loop
async def test_a_flood_of_frames_that_move_nothing_ends_the_connection(kind: str) -> None:
    view = Desk()
    view.is_echoing = False
    client = Client(view)
    number = client.send("/", b"", is_whole=False) if kind == "empty data" else 0

    def flood() -> None:
        for _ in range(500):
            if kind == "ping":
                client.h2.ping(b"12345678")
            elif kind == "settings":
                client.h2.update_settings({h2.settings.SettingCodes.ENABLE_PUSH: 0})
            elif kind == "reset":
                client.h2.reset_stream(client.send("/", b"", is_whole=False))
            else:
                client.h2.send_data(number, b"")
        client.server.data_received(client.h2.data_to_send())
        client.transport.written.clear()

    for _ in range(6):
        if client.transport.is_closing():
            break
        flood()

    assert client.transport.is_closing()


@on_loop
async def test_a_frame_that_will_be_too_large_is_not_even_read() -> None:
    view = Desk()
    client = Client(view)

    client.server.data_received(b"\xff\xff\xff\0\0\0\0\0\1")
    for _ in range(40):
        client.server.data_received(b"x" * 1000)

    assert client.transport.is_closing()


@on_loop
async def test_headers_that_are_too_large_end_the_connection() -> None:
    view = Desk()
    client = Client(view)

    headers = [(":method", "GET"), (":path", "/"), (":scheme", "http"), (":authority", "a")]
    client.h2.send_headers(1, [*headers, *((f"x-{n}", "x" * 1000) for n in range(80))])
    client.server.data_received(client.h2.data_to_send())

    assert client.transport.is_closing()
    assert not view.requests
