"""WebSocket frames, against the library's own client: messages whole, closes in order."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Close, Frame, Opcode
from websockets.protocol import CLIENT, OPEN, Protocol

from penstock.server.errors import ApiError
from penstock.server.websocket import WebSocket, WebSocketCallbacks, accept
from tests.unit.server.http.support import Desk
from tests.unit.server.support import FakeTransport, on_loop, request_of, settled

HANDSHAKE = {
    b"upgrade": b"websocket",
    b"connection": b"keep-alive, Upgrade",
    b"sec-websocket-key": b"dGhlIHNhbXBsZSBub25jZQ==",
    b"sec-websocket-version": b"13",
}


class Line:
    """A WebSocket and the peer at its other end."""

    def __init__(self, view: Desk, *, first: bytes = b"", **options: Any) -> None:
        self.view = view
        self.texts: list[bytes] = []
        self.binaries: list[bytes] = []
        self.heard: list[str] = []
        self.socket = WebSocket(view.connection_limits, "10.0.0.5", **options)
        self.socket.attach(
            WebSocketCallbacks(
                self.texts.append,
                self.binaries.append,
                lambda: self.heard.append("drained"),
                lambda: self.heard.append("closed"),
            )
        )
        self.transport = FakeTransport(self.socket)
        self.client = Protocol(CLIENT, state=OPEN, max_size=None)
        self.socket.start(self.transport, first)

    def feed(self, data: bytes, size: int | None = None) -> None:
        for at in range(0, len(data), size or len(data) or 1):
            self.socket.data_received(data[at : at + (size or len(data))])

    def say(self, *texts: bytes) -> None:
        self.feed(b"".join(text_frame(text) for text in texts))

    def frames(self) -> list[Frame]:
        """What the server sent since the last look, as the client reads it."""
        for data in self.transport.written:
            self.client.receive_data(data)
        self.transport.written.clear()
        return [event for event in self.client.events_received() if isinstance(event, Frame)]

    def beat(self, ms: float) -> None:
        self.view.clock.advance(ms)
        self.view.connection_limits.now = self.view.clock.monotonic()
        self.socket.beat(self.view.connection_limits.now)


def text_frame(data: bytes) -> bytes:
    return frame_of(Opcode.TEXT, data)


def frame_of(opcode: Opcode, data: bytes, *, fin: bool = True, mask: bool = True) -> bytes:
    return bytes(Frame(opcode, data, fin).serialize(mask=mask))


# Messages.


@given(
    texts=st.lists(st.binary(max_size=300), max_size=5), size=st.integers(1, 400), cut=st.booleans()
)
@on_loop
async def test_messages_are_whole_however_they_are_cut(
    texts: list[bytes], size: int, cut: bool
) -> None:
    line = Line(Desk())

    line.feed(b"".join(text_frame(text) for text in texts), size if cut else None)

    assert line.texts == texts


@on_loop
async def test_a_message_is_the_same_at_every_cut() -> None:
    data = text_frame(b"a" * 130) + frame_of(Opcode.PING, b"p") + text_frame(b"{}")
    for at in range(len(data)):
        line = Line(Desk())
        line.feed(data[:at])
        line.feed(data[at:])
        assert line.texts == [b"a" * 130, b"{}"]


@given(pieces=st.lists(st.binary(max_size=40), min_size=1, max_size=6), size=st.integers(1, 100))
@on_loop
async def test_fragments_are_joined_and_pings_may_come_between_them(
    pieces: list[bytes], size: int
) -> None:
    line = Line(Desk())
    data = b""
    for n, piece in enumerate(pieces):
        opcode = Opcode.CONT if n else Opcode.TEXT
        data += frame_of(opcode, piece, fin=n == len(pieces) - 1) + frame_of(Opcode.PING, b"%d" % n)

    line.feed(data, size)
    line.say(b"next")

    assert line.texts == [b"".join(pieces), b"next"]
    pongs = [frame.data for frame in line.frames() if frame.opcode is Opcode.PONG]
    assert pongs == [b"%d" % n for n in range(len(pieces))]


@on_loop
async def test_binary_messages_are_told_apart_in_one_piece_and_in_several() -> None:
    line = Line(Desk())

    line.feed(frame_of(Opcode.BINARY, b"1"))
    line.feed(frame_of(Opcode.BINARY, b"1", fin=False) + frame_of(Opcode.CONT, b"2"))
    line.say(b"text")

    assert line.binaries == [b"1", b"12"]
    assert line.texts == [b"text"]


@on_loop
async def test_an_answer_is_a_text_or_binary() -> None:
    line = Line(Desk())

    for size in (5, 300, 70_000):
        line.socket.write(line.socket.framed(b"x" * size))
        line.socket.write(line.socket.framed(b"x" * size, is_binary=True))

        frames = line.frames()
        assert [frame.opcode for frame in frames] == [Opcode.TEXT, Opcode.BINARY]
        assert [len(frame.data) for frame in frames] == [size, size]


@on_loop
async def test_what_came_with_the_handshake_is_not_lost() -> None:
    line = Line(Desk(), first=text_frame(b"early"))

    assert line.texts == [b"early"]


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 65_535, 65_536, 200_000])
@on_loop
async def test_a_frame_of_any_size_is_what_the_library_would_have_made(size: int) -> None:
    line = Line(Desk())
    data = b"x" * size

    framed = line.socket.framed(data)
    line.socket.write(framed)

    assert framed == frame_of(Opcode.TEXT, data, mask=False)
    assert [bytes(frame.data) for frame in line.frames()] == [data]


@on_loop
async def test_answers_to_one_read_leave_in_one_write() -> None:
    line = Line(Desk())
    texts: list[bytes] = []

    def echo(text: bytes) -> None:
        texts.append(text)
        line.socket.write(line.socket.framed(text))

    line.socket.attach(WebSocketCallbacks(echo, lambda: None, lambda: None, lambda: None))
    line.say(*(b"%d" % n for n in range(50)))

    assert len(line.transport.written) == 1
    assert [bytes(frame.data) for frame in line.frames()] == texts
    line.socket.write(line.socket.framed(b"alone"))
    line.socket.write(line.socket.framed(b"too"))
    assert len(line.transport.written) == 2


@on_loop
async def test_a_message_that_is_too_large_ends_the_connection() -> None:
    line = Line(Desk(max_body_bytes=1000))

    line.say(b"x" * 1000)
    line.feed(text_frame(b"x" * 1001)[:20])

    assert [len(text) for text in line.texts] == [1000]
    (frame,) = line.frames()
    assert Close.parse(bytes(frame.data)).code == 1009
    assert line.transport.is_closing()


@on_loop
async def test_what_is_left_of_a_bad_message_is_thrown_away_so_that_the_reason_arrives() -> None:
    line = Line(Desk(max_body_bytes=1000))
    line.transport.leaves = False
    whole = text_frame(b"x" * 1_000_000)

    line.feed(whole[:20])
    line.feed(whole[20:], 65_536)
    line.say(b"more")

    (frame,) = line.frames()
    assert Close.parse(bytes(frame.data)).code == 1009
    assert line.transport.is_half_closed
    assert not line.transport.is_closing()
    assert line.transport.is_reading()
    assert not line.socket.is_open
    assert not line.socket._frames
    assert not line.socket._protocol.reader.buffer
    assert line.texts == []
    line.socket.close()
    line.socket.write(line.socket.framed(b"too late"))
    assert not line.socket.eof_received()  # and with that the transport closes
    assert line.transport.written == []


@on_loop
async def test_a_bad_message_may_take_its_time_but_not_for_ever() -> None:
    for pause_ms, is_patient in ((2_000, True), (2_001, False)):
        line = Line(Desk(max_body_bytes=1000, body_timeout_ms=60_000))
        line.transport.leaves = False
        line.feed(text_frame(b"x" * 1001)[:20])
        for _ in range(30):
            line.beat(pause_ms)
            line.feed(b"x" * 1000)
            assert line.transport.is_aborted is not is_patient
        line.beat(1)

        assert line.transport.is_aborted  # 60 seconds, or silent for more than two


@on_loop
async def test_who_wants_to_hear_of_a_message_that_is_too_long_speaks_before_the_goodbye() -> None:
    line = Line(Desk(max_body_bytes=1000))
    line.transport.leaves = False
    is_busy = True
    told: list[int] = []
    peer = WebSocketCallbacks(
        line.texts.append,
        print,
        print,
        print,
        lambda: is_busy,
        lambda: told.append(len(line.texts)),
    )
    line.socket.attach(peer)
    line.feed(text_frame(b"1") + text_frame(b"2") + text_frame(b"x" * 1001)[:20])
    assert not told
    is_busy = False
    line.socket.go_on()
    await settled()

    assert told == [2]
    assert line.frames() == []
    assert not line.transport.is_reading()
    line.beat(100_000)
    assert not line.transport.is_aborted
    line.socket.write(line.socket.framed(b"no"))
    line.socket.close(1009)

    text, close = line.frames()
    assert bytes(text.data) == b"no"
    assert Close.parse(bytes(close.data)).code == 1009
    assert line.transport.is_half_closed
    assert line.transport.is_reading()
    line.feed(b"x" * 1001)
    assert told == [2]
    line.beat(2_001)
    assert line.transport.is_aborted


@on_loop
async def test_a_goodbye_after_the_peers_own_closes_at_once() -> None:
    """The server stops while messages before the peer's goodbye wait for their turn."""
    line = Line(Desk())
    line.socket.attach(WebSocketCallbacks(line.texts.append, print, print, print, lambda: True))
    line.feed(text_frame(b"1") + frame_of(Opcode.CLOSE, b"\x03\xe8"))
    assert not line.transport.is_closing()

    line.socket.shut()

    assert line.transport.is_closing()
    assert not line.transport.is_aborted
    assert [frame.opcode for frame in line.frames()] == [Opcode.CLOSE]


@on_loop
async def test_fragments_that_grow_too_large_end_the_connection() -> None:
    line = Line(Desk(max_body_bytes=1000))
    line.feed(frame_of(Opcode.TEXT, b"x" * 600, fin=False))

    line.feed(frame_of(Opcode.CONT, b"x" * 600, fin=False))

    assert line.transport.is_closing()
    assert not line.texts


@pytest.mark.parametrize(
    "data",
    [
        frame_of(Opcode.TEXT, b"unmasked", mask=False),
        frame_of(Opcode.CONT, b"of nothing"),
        frame_of(Opcode.TEXT, b"1", fin=False) + frame_of(Opcode.TEXT, b"2"),
        b"\xf1\x80\0\0\0\0",
        b"\x83\x80\0\0\0\0",
    ],
    ids=["unmasked", "stray", "interleaved", "reserved bits", "unknown opcode"],
)
@on_loop
async def test_a_bad_frame_ends_the_connection_with_a_reason(data: bytes) -> None:
    line = Line(Desk())

    line.feed(data)
    line.feed(text_frame(b"more"))
    await settled()

    (frame,) = line.frames()
    assert Close.parse(bytes(frame.data)).code == 1002
    assert line.transport.is_closing()
    assert line.texts == []
    assert line.heard == ["closed"]


@given(noise=st.binary(max_size=200), size=st.integers(1, 200))
@on_loop
async def test_no_bytes_whatever_break_a_socket(noise: bytes, size: int) -> None:
    line = Line(Desk())

    line.feed(noise, size)
    line.beat(1)


# Closing.


@on_loop
async def test_a_peer_that_says_goodbye_is_answered() -> None:
    line = Line(Desk())

    line.feed(text_frame(b"last") + frame_of(Opcode.CLOSE, Close(1000, "bye").serialize()))
    await settled()

    (frame,) = line.frames()
    assert Close.parse(bytes(frame.data)).code == 1000
    assert line.texts == [b"last"]
    assert line.heard == ["closed"]
    assert len(line.view.connection_limits) == 0


@on_loop
async def test_we_say_goodbye_and_wait_for_the_answer() -> None:
    line = Line(Desk())

    line.socket.shut()
    line.socket.shut()
    line.socket.write(line.socket.framed(b"too late"))
    (frame,) = line.frames()
    assert Close.parse(bytes(frame.data)) == Close(1001, "shutting down")
    assert not line.transport.is_closing()
    line.feed(frame_of(Opcode.CLOSE, bytes(frame.data)))

    assert line.transport.is_closing()
    assert not line.transport.is_aborted


@on_loop
async def test_a_peer_that_does_not_say_goodbye_is_dropped() -> None:
    line = Line(Desk())
    line.socket.close()
    line.beat(2_000)
    assert not line.transport.is_aborted

    line.beat(1)

    assert line.transport.is_aborted


@on_loop
async def test_what_was_to_be_said_goes_before_the_goodbye() -> None:
    line = Line(Desk())

    def last_words(text: bytes) -> None:
        line.socket.write(line.socket.framed(b"the end"))
        line.socket.close()

    line.socket.attach(WebSocketCallbacks(last_words, lambda: None, lambda: None, lambda: None))
    line.say(b"go")

    assert [frame.opcode for frame in line.frames()] == [Opcode.TEXT, Opcode.CLOSE]


@on_loop
async def test_a_lost_connection_is_told_once_and_written_to_no_more() -> None:
    line = Line(Desk())
    line.transport.abort()
    await settled()

    line.socket.write(b"nobody")
    line.socket.close()
    line.socket.beat(1e9)
    line.socket.abort()

    assert line.heard == ["closed"]
    assert line.transport.written == []
    assert len(line.view.connection_limits) == 0


@on_loop
async def test_connections_beyond_the_most_are_closed_at_once() -> None:
    view = Desk(max_connections=1)
    Line(view)

    assert Line(view).transport.is_aborted


# Slow and silent peers.


@on_loop
async def test_a_full_peer_is_not_read_until_it_drains() -> None:
    line = Line(Desk())

    line.socket.pause_writing()
    assert line.socket.is_full
    assert not line.transport.is_reading()
    line.socket.resume_writing()

    assert not line.socket.is_full
    assert line.transport.is_reading()
    assert line.heard == ["drained"]


@on_loop
async def test_a_peer_that_takes_nothing_is_dropped() -> None:
    line = Line(Desk())
    line.transport.stuck = 100
    line.beat(1)
    line.beat(60_000)
    assert not line.transport.is_aborted

    line.beat(1)

    assert line.transport.is_aborted


@on_loop
async def test_a_peer_that_is_slow_and_takes_something_is_not_dropped() -> None:
    line = Line(Desk())
    for left in range(100, 90, -1):
        line.transport.stuck = left
        line.beat(30_000)

    assert not line.transport.is_aborted


@on_loop
async def test_a_silent_peer_is_asked_whether_it_is_there() -> None:
    line = Line(Desk())
    line.beat(20_000)
    assert line.frames() == []
    line.beat(1)
    assert [frame.opcode for frame in line.frames()] == [Opcode.PING]

    line.feed(frame_of(Opcode.PONG, b""))
    line.beat(20_000)
    line.beat(1)
    assert [frame.opcode for frame in line.frames()] == [Opcode.PING]
    line.beat(20_000)
    assert not line.transport.is_aborted
    line.beat(1)

    assert line.transport.is_aborted


@on_loop
async def test_who_is_not_listened_to_is_not_taken_for_silent() -> None:
    """What it answers lies behind what nobody has time for."""
    line = Line(Desk())
    is_busy = True
    line.socket.attach(
        WebSocketCallbacks(line.texts.append, line.binaries.append, print, print, lambda: is_busy)
    )
    line.say(b"1", b"2")
    assert line.texts == []
    for _ in range(10):
        line.beat(30_000)
    assert line.frames() == []
    assert not line.transport.is_aborted

    is_busy = False
    line.socket.go_on()
    await asyncio.sleep(0)
    assert line.texts == [b"1", b"2"]
    line.beat(20_001)
    assert [frame.opcode for frame in line.frames()] == [Opcode.PING]


@on_loop
async def test_how_long_a_peer_may_be_silent_is_for_its_owner_to_say() -> None:
    line = Line(Desk(), ping_s=100.0)
    line.beat(100_000)
    assert line.frames() == []
    line.beat(1)
    assert [frame.opcode for frame in line.frames()] == [Opcode.PING]
    line.beat(100_000)
    assert not line.transport.is_aborted
    line.beat(1)

    assert line.transport.is_aborted


@on_loop
async def test_a_message_may_have_less_than_a_body() -> None:
    line = Line(Desk(), bytes_max=10)

    line.feed(frame_of(Opcode.BINARY, bytes(10)))
    line.feed(frame_of(Opcode.BINARY, bytes(11)))

    assert line.binaries == [bytes(10)]
    assert [frame.opcode for frame in line.frames()] == [Opcode.CLOSE]


# The handshake.


def test_a_handshake_is_answered_as_the_protocol_says() -> None:
    answer = accept(request_of("GET", "/v0/ws", headers=HANDSHAKE))

    assert answer.startswith(b"HTTP/1.1 101 ")
    assert b"sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in answer
    assert answer.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    "change",
    [
        {b"upgrade": b"h2c"},
        {b"upgrade": b""},
        {b"connection": b"keep-alive"},
        {b"connection": b"upgraded"},
        {b"sec-websocket-key": b""},
        {b"sec-websocket-key": b"not base64!"},
        {b"sec-websocket-key": base64.b64encode(b"x" * 15)},
        {b"sec-websocket-version": b"8"},
        {b"sec-websocket-version": b""},
    ],
)
def test_what_is_no_handshake_is_refused(change: dict[bytes, bytes]) -> None:
    with pytest.raises(ApiError) as caught:
        accept(request_of("GET", "/v0/ws", headers=HANDSHAKE | change))

    assert caught.value.status == 400


def test_names_in_a_handshake_have_no_case() -> None:
    shouting: dict[bytes, Any] = {b"upgrade": b"WebSocket", b"connection": b"UPGRADE"}

    assert accept(request_of("GET", "/v0/ws", headers=HANDSHAKE | shouting))


@on_loop
async def test_what_reached_the_peer_is_counted_in_bytes() -> None:
    line = Line(Desk())
    line.socket.send_binary(b"12")
    assert (line.socket.written_bytes, line.socket.delivered_bytes) == (4, 4)

    line.transport.stuck = 3
    line.socket.send_binary(b"1")
    assert (line.socket.written_bytes, line.socket.delivered_bytes) == (7, 4)

    line.transport.stuck = 0  # as when a connection ends: what did not leave is gone
    line.socket.connection_lost(ConnectionResetError())
    line.socket.send_binary(b"later")

    assert (line.socket.written_bytes, line.socket.delivered_bytes) == (7, 4)
    assert line.socket.was_reset
    assert not line.socket.is_open


@on_loop
async def test_a_connection_that_ends_in_order_was_not_reset() -> None:
    line = Line(Desk())
    assert line.socket.is_open

    line.feed(frame_of(Opcode.CLOSE, b"\x03\xe8"))
    await settled()

    assert not line.socket.was_reset
    assert line.socket.delivered_bytes == line.socket.written_bytes > 0
