"""WebSocket connections, for `GET /v0/ws` and for other protocols over WebSocket.

`websocket_frames` reads frames, and the `websockets` library answers pings and closes. Messages
to the peer are framed here, so that a batch is encoded once for all its subscribers and the
acknowledgements of one turn of the loop leave in one write.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec
from websockets.exceptions import ConnectionClosed, PayloadTooBig, ProtocolError
from websockets.frames import Frame, Opcode
from websockets.protocol import OPEN, SERVER, Protocol

from penstock.server.errors import ApiError, invalid
from penstock.server.http.connection_limits import (
    LINGER_BYTES_MAX,
    LINGER_S,
    TURN_MAX,
    ConnectionLimits,
)
from penstock.server.http.exchange import Http1Exchange
from penstock.server.http.message import Request
from penstock.server.http.stalled_peers import Stall
from penstock.server.tcp_unacked import unacked_bytes
from penstock.server.websocket_frames import WebSocketFrameReader, WholeMessage

MAGIC: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
FRAMING: Final = 2
_PING_S: Final = 20.0
_FIN_TEXT: Final = 0x81
_FIN_BINARY: Final = 0x82
_DATA: Final = (Opcode.TEXT, Opcode.BINARY, Opcode.CONT)


def _never() -> bool:
    return False


class WebSocketCallbacks(msgspec.Struct, frozen=True):
    """Callbacks of the connection's owner."""

    on_text: Callable[[bytes], None]
    on_binary: Callable[[bytes], None]
    on_drain: Callable[[], None]
    on_close: Callable[[], None]
    is_busy: Callable[[], bool] = _never  # no more messages for now; `go_on` when that is over
    # A message was too long. An owner that handles this closes the connection, after the answers to
    # the messages before it.
    on_overlong: Callable[[], None] | None = None


class WebSocket(asyncio.Protocol):
    """Event loop only."""

    framing = FRAMING

    def __init__(
        self,
        connection_limits: ConnectionLimits,
        peer_name: str,
        *,
        bytes_max: int | None = None,
        ping_s: float = _PING_S,
    ) -> None:
        self._ping_s = ping_s  # of silence, until we ask, and then until we give up
        self._connection_limits = connection_limits
        self._peer_name = peer_name
        most = connection_limits.body_bytes_max
        self.bytes_max = most if bytes_max is None else min(most, bytes_max)  # of a message
        self._protocol = Protocol(SERVER, state=OPEN, max_size=self.bytes_max)
        self._reader = WebSocketFrameReader(self._protocol, self.bytes_max)
        self._transport: asyncio.Transport | None = None
        self._peer: WebSocketCallbacks | None = None
        self._parts = bytearray()  # of a message in fragments; objects for each would be a bomb
        self._kind = Opcode.TEXT
        self._out: list[bytes] = []  # of one turn, sent together
        self._is_flush_scheduled = False
        self._frames: deque[WholeMessage | Frame] = deque()  # read, but it is not their turn
        self._is_scheduled = False
        self._is_paused = False
        self._is_reading = False
        self.is_full = False
        self.was_reset = False  # the connection ended with an error
        self.written_bytes = 0
        self._unsent_bytes = 0  # were not the system's yet after the last write
        self._delivered_bytes = 0  # when the connection ended
        self._heard_s = connection_limits.now
        self._pinged_s = 0.0
        self._stall = Stall(connection_limits.stall_timeout_s)
        self._is_closing = False
        self._is_held = False  # the library's close frame waits for our owner's last messages
        self._is_told = False  # of a message that is too long
        self._linger_s: float | None = None  # until then what comes is thrown away
        self._lingered_bytes = 0

    def attach(self, peer: WebSocketCallbacks) -> None:
        self._peer = peer

    def start(self, transport: asyncio.Transport, data: bytes) -> None:
        """Take over a connection whose handshake is done."""
        transport.set_protocol(self)
        self._transport = transport
        if not self._connection_limits.admit(self, self._peer_name):
            transport.abort()
            return
        if data:
            self.data_received(data)

    # asyncio.Protocol.

    def data_received(self, data: bytes) -> None:
        if self._linger_s is not None:
            self._heard_s = self._connection_limits.now
            self._lingered_bytes += len(data)
            if self._lingered_bytes > LINGER_BYTES_MAX:
                self.abort()
            return
        if not self._is_closing:  # else its time runs
            self._heard_s = self._connection_limits.now
        self._pinged_s = 0.0
        self._reader.feed(data, self._frames)
        if self._protocol.parser_exc is not None:
            self._hold()
        self._turn()

    def _turn(self) -> None:
        """Handle a few frames. A peer that sends many at once waits for the others in between."""
        left, frames, peer = TURN_MAX, self._frames, self._peer
        self._is_scheduled = False
        self._is_reading = True
        try:
            while frames and left and (peer is None or not peer.is_busy()):
                left -= 1
                frame = frames.popleft()
                if isinstance(frame, Frame):
                    self._add_fragment(frame)
                elif peer is not None and not self._is_closing:
                    data, is_text = frame
                    (peer.on_text if is_text else peer.on_binary)(data)
        finally:
            self._is_reading = False
        self._flush()
        if not left:
            self.go_on()
        self._balance()
        if not frames and self._protocol.close_expected():
            self._finish_close()

    def _finish_close(self) -> None:
        """A close frame was sent or received. After one of ours the connection waits for the
        peer's, or for the deadline: closing it while data is still on its way resets it, and the
        peer loses our last messages."""
        if self._transport is None:
            return
        if self._protocol.close_rcvd is not None:
            self._transport.close()
        elif self._is_held:
            if self._peer is not None and self._peer.on_overlong and not self._is_told:
                self._is_told = True
                self._peer.on_overlong()
        elif not self._is_closing:
            self._linger(self._transport)

    def _hold(self) -> None:
        """Hold back the library's close frame for a message that is too long, if our owner wants
        to answer the messages before it."""
        is_wanted = self._peer is not None and self._peer.on_overlong is not None
        if is_wanted and not self._is_closing:
            self._is_held = isinstance(self._protocol.parser_exc, PayloadTooBig)

    def _linger(self, transport: asyncio.Transport) -> None:
        """The peer violated the protocol, perhaps in the middle of a long message, and was sent an
        error. Its further bytes are discarded, so that it can receive the error: until it
        disconnects, stops sending, sends too much, or exceeds the time limit of a body."""
        now = self._connection_limits.now
        self._is_closing = True
        self._heard_s = now
        self._linger_s = now + max(self._connection_limits.body_timeout_s, LINGER_S)
        if transport.can_write_eof():
            transport.write_eof()

    def go_on(self) -> None:
        """Handle more frames soon, if there are any."""
        if self._frames and not self._is_scheduled and self._transport is not None:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _balance(self) -> None:
        """Pause reading while we or the peer cannot keep up."""
        is_paused = self.is_full or self._is_held or bool(self._frames)
        if self._transport is not None and is_paused != self._is_paused:
            self._is_paused = is_paused
            if is_paused:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._connection_limits.forget(self, self._peer_name)
        self.was_reset = error is not None
        self._delivered_bytes = self.delivered_bytes
        self._transport = None
        if self._peer is not None:
            self._peer.on_close()

    def pause_writing(self) -> None:
        self.is_full = True
        self._balance()

    def resume_writing(self) -> None:
        self.is_full = False
        self._balance()
        if self._peer is not None:
            self._peer.on_drain()

    # Frames.

    def _add_fragment(self, frame: Frame) -> None:
        if frame.opcode not in _DATA or self._peer is None or self._is_closing:
            return  # pings, pongs and closes: the library answers them
        if frame.opcode is not Opcode.CONT:
            self._kind = frame.opcode
        data = bytes(frame.data)
        if not frame.fin or self._parts:
            self._parts += data
        if frame.fin:
            if self._parts:
                data = bytes(self._parts)
                self._parts = bytearray()
            if self._kind is Opcode.TEXT:
                self._peer.on_text(data)
            else:
                self._peer.on_binary(data)

    def framed(self, data: bytes, *, is_binary: bool = False) -> bytes:
        """A message; the same bytes for every WebSocket."""
        first = _FIN_BINARY if is_binary else _FIN_TEXT
        size = len(data)
        if size < 126:
            head = bytes((first, size))
        elif size < 1 << 16:
            head = bytes((first, 126)) + size.to_bytes(2, "big")
        else:
            head = bytes((first, 127)) + size.to_bytes(8, "big")
        return head + data

    @property
    def is_open(self) -> bool:
        """True while written bytes are still sent."""
        return not self._is_closing and self._transport is not None

    @property
    def delivered_bytes(self) -> int:
        """A lower bound of the written bytes that have reached the peer's machine. Where the system
        does not report it, the bytes that were sent."""
        transport = self._transport
        if transport is None:
            return self._delivered_bytes
        unsent = sum(map(len, self._out)) + self._unsent_bytes
        return self.written_bytes - unsent - unacked_bytes(transport.get_extra_info("socket"))

    def send_binary(self, data: bytes) -> None:
        self.write(self.framed(data, is_binary=True))

    def write(self, data: bytes) -> None:
        """Send framed bytes; those of one read are sent together."""
        if self._is_closing or self._transport is None:
            return
        self.written_bytes += len(data)
        if self._is_reading or self._out:
            self._out.append(data)
        else:
            self._write(self._transport, data)

    def write_soon(self, data: bytes) -> None:
        """Send framed bytes together with all others of this turn of the loop."""
        if self._is_closing or self._transport is None:
            return
        self.written_bytes += len(data)
        self._out.append(data)
        if not self._is_reading and not self._is_flush_scheduled:
            self._is_flush_scheduled = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flush_scheduled = False
        transport = self._transport
        if transport is None:
            return
        own = [] if self._is_held else self._protocol.data_to_send()
        self.written_bytes += sum(map(len, own))
        out = [*self._out, *own]
        self._out = []
        if out:
            self._write(transport, b"".join(out))

    def _write(self, transport: asyncio.Transport, data: bytes) -> None:
        transport.write(data)
        self._unsent_bytes = transport.get_write_buffer_size()

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Send a close frame; the peer answers it, or the connection is aborted at the deadline."""
        if self._is_closing or self._transport is None:
            return
        if self._protocol.state is not OPEN:
            self._close_behind()
            return
        try:
            self._protocol.send_close(code, reason)
        except (ProtocolError, ConnectionClosed):
            self._transport.close()
            return
        self._flush()
        self._is_closing = True
        self._heard_s = self._connection_limits.now

    def _close_behind(self) -> None:
        """The close frames are sent or ready to be; frames that came before them are dropped."""
        self._is_held = False
        self._frames.clear()
        self._flush()
        self._finish_close()
        self._balance()

    # What the connection limits call.

    def beat(self, now: float) -> None:
        transport = self._transport
        if transport is None:
            return
        if self._is_closing:
            is_late = self._linger_s is not None and now > self._linger_s
            if is_late or now - self._heard_s > LINGER_S:
                transport.abort()
            return
        unsent = transport.get_write_buffer_size()
        if self._stall.is_over(unsent, now):
            transport.abort()
        elif self._is_paused:  # its bytes are discarded
            self._heard_s, self._pinged_s = now, 0.0
        elif not unsent:
            self._keep_alive(now)

    def _keep_alive(self, now: float) -> None:
        if self._pinged_s:
            if now - self._pinged_s > self._ping_s:
                self.abort()
        elif now - self._heard_s > self._ping_s:
            self._pinged_s = now
            self._protocol.send_ping(b"")
            self._flush()

    def shut(self) -> None:
        if self._linger_s is not None:  # it was told
            self.abort()
        self.close(1001, "shutting down")

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


def accept(request: Request, extra: bytes = b"") -> bytes:
    """The answer to a handshake, with `extra` lines in its head, or an ApiError when it is not
    one."""
    headers = request.headers
    upgrade = headers.get(b"upgrade", b"").lower()
    tokens = [one.strip() for one in headers.get(b"connection", b"").lower().split(b",")]
    if upgrade != b"websocket" or b"upgrade" not in tokens:
        raise ApiError(400, "invalid_request", "this endpoint is a WebSocket: expected an upgrade")
    key = headers.get(b"sec-websocket-key", b"")
    try:
        is_key = len(base64.b64decode(key, validate=True)) == 16
    except ValueError:
        is_key = False
    if not is_key or headers.get(b"sec-websocket-version") != b"13":
        raise invalid("the WebSocket handshake needs version 13 and a key of 16 bytes")
    digest = base64.b64encode(hashlib.sha1(key + MAGIC).digest())
    return (
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
        b"sec-websocket-accept: %b\r\n%b\r\n" % (digest, extra)
    )


def exchange_of(request: Request) -> Http1Exchange:
    """The exchange that can be handed over, or an ApiError when the connection cannot be."""
    exchange = request.exchange
    if not isinstance(exchange, Http1Exchange) or not exchange.can_upgrade:
        raise invalid("a WebSocket needs HTTP/1.1 and no pending request before it")
    return exchange
