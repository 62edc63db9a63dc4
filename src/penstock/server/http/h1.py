"""HTTP/1.1 on one connection: keep-alive, pipelining, chunked bodies, deadlines, bounds.

httptools parses. This module adds limits before anything is buffered, the order of answers, and
deadlines for slow peers. The head of a request like the one before is recognised without parsing
(`known_head`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

import httptools

from penstock.server.errors import ApiError, response_of
from penstock.server.http import compression
from penstock.server.http.connection_limits import (
    BODY_GRACE_S,
    HEADER_BYTES_MAX,
    HEADERS_MAX,
    LINGER_BYTES_MAX,
    LINGER_S,
    PIPELINE_MAX,
    SCREEN_BYTES,
    TURN_MAX,
    ConnectionLimits,
)
from penstock.server.http.exchange import Http1Exchange, Upgrade
from penstock.server.http.known_head import KnownHead, learn
from penstock.server.http.message import Exchange, Request
from penstock.server.http.stalled_peers import Stall

_IDLE, _HEADER, _BODY, _STREAM, _CLOSING = range(5)
_PREFACE: Final = b"PRI"
_FRAMING_MOST: Final = 8  # bytes on the wire for one of a body: chunks may be as small as one
_PIECES_MAX: Final = 64
_VIEW_BYTES_MIN: Final = 4096  # a smaller body is copied sooner than a view of it is made
_LEARN_MAX: Final = 8  # heads of one connection: one whose heads all differ is not helped by it


class _BehindStream(Exception):
    """A pipelined request after one that opened a stream: it is not read."""


class ConnectionContext(Protocol):
    """The server as a connection needs it."""

    connection_limits: ConnectionLimits

    @property
    def handle(self) -> Callable[[Request], None]:
        """Answers a complete request."""

    def screen(self, request: Request) -> int:
        """Called before a large body is read: its maximum size, or the ApiError that refuses it."""

    def take_over_h2(self, transport: asyncio.Transport, peer: str, data: bytes) -> None:
        """The peer speaks HTTP/2."""


class Http1Connection(asyncio.Protocol):
    """Event loop only."""

    def __init__(self, host: ConnectionContext) -> None:
        self._host = host
        self.connection_limits = host.connection_limits
        self.transport: asyncio.Transport | None = None
        self._peer = ""
        self._parser: Any = httptools.HttpRequestParser(self)
        self._state = _IDLE
        self._deadline = 0.0
        self._held = b""  # the first bytes, until it is clear which HTTP they are
        self._is_first = True
        self._waiting: deque[Http1Exchange] = deque()
        self._unhandled: deque[Request] = deque()  # read, but it is not their turn
        self._turn_left = 0
        self._is_scheduled = False
        self._barrier: Http1Exchange | None = None  # those behind it wait for its answer
        self.is_old = False  # HTTP/1.0
        self.is_full = False  # the peer reads slower than we write
        self.buffer_bytes_max = self.connection_limits.settings.stream_buffer_bytes
        self._is_paused = False
        self._is_shut = False
        self._is_refused = False
        self._refusal: Http1Exchange | None = None
        self._lingered_bytes = 0
        self.is_last_read = False  # nothing that comes behind a stream can ever be answered
        self._stall = Stall(self.connection_limits.stall_timeout_s)
        self._next: tuple[bytes, Upgrade] | None = None
        self._known: KnownHead | None = None
        self._learn_left = _LEARN_MAX
        self._completed = 0  # requests, in the read at hand
        self._is_amid_request = False  # the parser has read the beginning of one
        # The request being read:
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._header_count = 0
        self._header_bytes = 0  # and then those of the body's framing since its last byte
        self._read_bytes = 0  # of the read at hand, which may hold many requests
        self._body = b""
        self._pieces: list[bytes] = []  # of the body, behind the first
        self._more: bytearray | None = None  # the whole body, when it comes in many pieces
        self._body_bytes = 0
        self._body_bytes_max = 0
        self._fed_bytes = 0  # of bodies, in the read at hand
        self._started = 0.0

    # asyncio.Protocol.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # a stream transport, always
        address = transport.get_extra_info("peername")
        self._peer = str(address[0]) if address else ""
        if not self.connection_limits.admit(self, self._peer):
            transport.close()
            self._is_refused = True
            return
        self._deadline = self.connection_limits.now + self.connection_limits.idle_timeout_s
        self.transport.set_write_buffer_limits(self.buffer_bytes_max)  # type: ignore[union-attr]
        ssl = transport.get_extra_info("ssl_object")
        if ssl is not None and ssl.selected_alpn_protocol() == "h2":
            self._become_h2(b"")

    def connection_lost(self, error: Exception | None) -> None:
        self.connection_limits.forget(self, self._peer)
        self.transport = None
        self._state = _CLOSING
        self._unhandled.clear()
        # Parser and connection refer to each other: without this half a body would stay in memory
        # until the collector looks at the oldest objects, which may be never.
        self._parser = None
        self._body, self._more = b"", None
        self._pieces.clear()
        waiting, self._waiting = self._waiting, deque()
        for exchange in waiting:
            if exchange.on_close is not None:
                exchange.on_close()
            if exchange.stream is not None:
                exchange.stream.is_closed = True
                if exchange.stream.on_close is not None:
                    exchange.stream.on_close()

    def data_received(self, data: bytes) -> None:
        if self._is_first:
            data = self._held + data
            if len(data) < len(_PREFACE) and _PREFACE.startswith(data):
                self._held = data
                return
            self._is_first, self._held = False, b""
            if data.startswith(_PREFACE):
                self._become_h2(data)
                return
        self._turn_left = TURN_MAX
        if self._known is not None and self._state == _IDLE and not self._is_amid_request:
            data = self._feed_known(self._known, data)
        while data:
            data = self._feed(data)

    def _feed_known(self, known: KnownHead, data: bytes) -> bytes:
        """Handle the requests at the beginning of `data` whose head is known; the rest."""
        at = 0
        limits = self.connection_limits
        while at < len(data):
            if self._state != _IDLE or self.is_last_read or self._is_refused:
                break
            found = known.match(data, at)
            if found is None:
                break
            path, query, start, end = found
            exchange = Http1Exchange(self, not self._is_shut, False)
            exchange.accepts_gzip = known.accepts_gzip
            request = Request("POST", path, query, known.headers, exchange, limits.monotonic())
            request.peer = self._peer
            size = end - start
            if size > SCREEN_BYTES and not self._may_send(request, size):
                break
            at = end
            self._deadline = limits.now + limits.idle_timeout_s
            if size < _VIEW_BYTES_MIN or 2 * size < len(data):
                request.received = data[start:end]
            else:  # a view does not keep much more in memory than the body
                request.received = memoryview(data)[start:end]
            self._accept(request, exchange)
        return data[at:] if at else data

    def _may_send(self, request: Request, size: int) -> bool:
        """False for a body of this size that `_screen` has to refuse."""
        try:
            return size <= self._host.screen(request)
        except ApiError:
            return False

    def _feed(self, data: bytes) -> bytes:
        """Parse. Returns the bytes after a request for an upgrade that no handler offers."""
        if self._state == _CLOSING or self.is_last_read or self._is_refused:
            if self._refusal is not None:
                self._lingered_bytes += len(data)
                if self._lingered_bytes > LINGER_BYTES_MAX:
                    self.abort()
            return b""
        if self._state == _IDLE:
            self._state = _HEADER
            self._started = self.connection_limits.monotonic()
            self._deadline = self._started + self.connection_limits.header_timeout_s
        is_at_start = not self._is_amid_request
        self._completed = 0
        self._read_bytes = len(data)
        if self._state == _HEADER:
            self._header_bytes += len(data)
        self._fed_bytes = 0
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            return self._upgraded(data[upgrade.args[0] :])
        except httptools.HttpParserCallbackError as error:
            cause = error.__context__
            if not isinstance(cause, _BehindStream):
                self._refuse(cause if isinstance(cause, Exception) else error)
        except httptools.HttpParserError:
            self._refuse(_malformed("invalid HTTP request"))
        else:
            if self._state == _BODY:  # chunk extensions and trailers are bytes without a body
                self._header_bytes += max(0, len(data) - self._fed_bytes * _FRAMING_MOST)
            elif is_at_start and self._completed == 1 and self._learn_left:
                self._learn_left -= 1
                self._known = learn(data, self._headers, self._fed_bytes)
            if self._header_bytes > HEADER_BYTES_MAX:
                self._refuse(_too_many_headers())
        return b""

    def eof_received(self) -> bool:
        self._is_shut = True
        # Send the answers before the connection closes; a stream has no reader any more.
        return bool(self._waiting) and self._state != _STREAM

    def pause_writing(self) -> None:
        self.is_full = True
        if self._state != _STREAM:  # a stream goes on listening, for the peer to leave
            self._pause()

    def resume_writing(self) -> None:
        self.is_full = False
        self._go_on()
        if self._waiting:
            stream = self._waiting[0].stream
            if stream is not None and stream.on_drain is not None:
                stream.on_drain()

    def _pause(self) -> None:
        if self.transport is not None and not self._is_paused:
            self._is_paused = True
            self.transport.pause_reading()

    def _resume(self) -> None:
        if self.transport is not None and self._is_paused and not self.is_full:
            self._is_paused = False
            self.transport.resume_reading()

    # What the parser calls.

    def on_message_begin(self) -> None:
        if self.is_last_read:
            raise _BehindStream
        self._is_amid_request = True
        self._url = b""
        self._headers = {}
        self._header_count = 0
        self._body_bytes = 0

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        headers = self._headers
        if self._state == _BODY:
            return  # a trailer
        self._header_count += 1
        if self._header_count > HEADERS_MAX:
            raise _too_many_headers()
        name = name.lower()
        if name in headers:
            value = headers[name] + b"," + value  # two Hosts become an unknown one
        headers[name] = value

    def on_headers_complete(self) -> None:
        headers = self._headers
        self._state = _BODY
        if max(self._header_bytes, self._read_bytes) > HEADER_BYTES_MAX:  # hardly ever: look
            size = sum([len(name) + len(value) for name, value in headers.items()])
            if len(self._url) + size > HEADER_BYTES_MAX:
                raise _too_many_headers()
        self._header_bytes = 0
        now = self.connection_limits.monotonic()
        self._deadline = now + self.connection_limits.body_timeout_s
        self._body_bytes_max = self.connection_limits.body_bytes_max
        length = int(headers.get(b"content-length", b"0"))
        coding = headers.get(b"transfer-encoding")
        parser = self._parser
        if coding is not None or parser.get_http_version() != "1.1" or parser.should_upgrade():
            self._check_framing(length, coding)
        if length > self._body_bytes_max:
            raise _too_large(self._body_bytes_max)
        if length > SCREEN_BYTES or coding is not None:
            self._screen(length)
        if b"expect" in headers:
            if headers[b"expect"].lower() != b"100-continue":
                raise ApiError(
                    417, "invalid_request", "unknown Expect header: expected 100-continue"
                )
            if self.transport is not None and not self._waiting:
                self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _check_framing(self, length: int, coding: bytes | None) -> None:
        """Refuse requests that a proxy in front of the server could read differently."""
        parser = self._parser
        version = parser.get_http_version()
        self.is_old = version == "1.0"
        if version not in ("1.1", "1.0"):
            raise _malformed("this connection uses HTTP/1.1: expected an HTTP/1.1 request")
        if parser.should_upgrade() and (
            length or coding is not None or parser.get_method() == b"CONNECT"
        ):
            # The parser takes everything behind such a head for another protocol.
            raise _malformed(
                "an upgrade request must not have a body, and CONNECT is not supported"
            )
        if coding is not None:
            if coding.strip().lower() != b"chunked":
                raise ApiError(
                    501, "not_implemented", "unknown Transfer-Encoding: expected chunked"
                )
            if version == "1.0":
                raise _malformed("HTTP/1.0 has no Transfer-Encoding: send a Content-Length")

    def _screen(self, length: int) -> None:
        """Refuse a body that the caller may not send, or not of this size, before it is read."""
        exchange = Http1Exchange(self, keeps_alive=False, is_head=False)
        method = self._parser.get_method().decode()
        self._body_bytes_max = self._host.screen(self._request(method, self._headers, exchange))
        if length > self._body_bytes_max:
            raise _too_large(self._body_bytes_max)

    def on_body(self, piece: bytes) -> None:
        if not self._body_bytes:
            self._body = piece
        elif self._more is not None:
            self._more += piece
        else:
            self._pieces.append(piece)
            if len(self._pieces) >= _PIECES_MAX:  # objects for each of them would be a bomb
                self._more = bytearray(b"".join((self._body, *self._pieces)))
                self._pieces.clear()
        self._body_bytes += len(piece)
        self._fed_bytes += len(piece)
        if self._body_bytes > self._body_bytes_max:
            raise _too_large(self._body_bytes_max)

    def on_message_complete(self) -> None:
        self._header_bytes = 0
        self._is_amid_request = False
        self._state = _IDLE
        self._deadline = self.connection_limits.now + self.connection_limits.idle_timeout_s
        keeps_alive = self._parser.should_keep_alive() and not self._is_shut
        exchange = Http1Exchange(self, keeps_alive, False)
        request = self._request(self._parser.get_method().decode(), self._headers, exchange)
        exchange.is_head = request.method == "HEAD"
        if self._more is not None:
            request.body = bytes(self._more)
        elif self._pieces:
            request.body = b"".join((self._body, *self._pieces))
            self._pieces.clear()
        else:
            request.body = self._body
        self._body, self._more = b"", None
        self._completed += 1
        if b"accept-encoding" in request.headers:
            exchange.accepts_gzip = compression.is_accepted(request.headers[b"accept-encoding"])
        self._accept(request, exchange)

    def _accept(self, request: Request, exchange: Http1Exchange) -> None:
        """Handle a whole request, or keep it until its turn."""
        self._waiting.append(exchange)
        if self.is_full or not self._turn_left or self._unhandled or self._barrier is not None:
            self._unhandled.append(request)
            self._pause()
            self._schedule()
            return
        self._turn_left -= 1
        headers = request.headers
        if b"content-encoding" in headers:  # undone on a thread: others must not overtake it
            self._barrier = exchange
        if b"upgrade" in headers:
            exchange.can_upgrade = len(self._waiting) == 1 and self._parser.should_upgrade()
        self._host.handle(request)
        if len(self._waiting) >= PIPELINE_MAX:
            self._pause()
            self._turn_left = 0

    def _may_handle(self) -> bool:
        """True while one more request may wait for its answer."""
        under_way = len(self._waiting) - len(self._unhandled)
        return not self.is_full and self._barrier is None and under_way < PIPELINE_MAX

    def _schedule(self) -> None:
        if not self._is_scheduled and self._may_handle():
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        """Handle the next few requests that were read."""
        self._is_scheduled = False
        left = TURN_MAX
        while self._unhandled and left and self._may_handle():
            left -= 1
            request = self._unhandled.popleft()
            if b"content-encoding" in request.headers:
                self._barrier = request.exchange  # type: ignore[assignment]  # always an Http1Exchange
            self._host.handle(request)
            if self.is_last_read:
                self._unhandled.clear()
        if self._unhandled:
            self._schedule()
        elif len(self._waiting) < PIPELINE_MAX:
            self._resume()

    def _request(self, method: str, headers: dict[bytes, bytes], exchange: Exchange) -> Request:
        path, _, query = self._url.decode("latin-1").partition("?")
        request = Request(method, path, query, headers, exchange, self._started)
        request.peer = self._peer
        return request

    # Answers.

    def flush(self) -> None:
        """Send every answer that is next in order."""
        waiting = self._waiting
        transport = self.transport
        if transport is None:
            return
        while waiting and waiting[0].output is not None:
            exchange = waiting[0]
            output = exchange.output
            transport.write(output or b"")
            if exchange.stream is not None:
                exchange.output = None  # the head is out; the rest follows piece by piece
                self._state = _STREAM
                if exchange.stream.on_drain is not None and not self.is_full:
                    exchange.stream.on_drain()  # it may have been held up until its turn came
                return
            waiting.popleft()
            if exchange is self._barrier:
                self._barrier = None
            if not exchange.keeps_alive:
                if exchange is self._refusal:
                    self._linger()
                else:
                    self._close()
                return
        if self._unhandled:
            self._schedule()
        elif not waiting:
            if self._is_shut:
                self._close()
            elif self._is_paused:
                self._resume()

    def hand_over(self, head: bytes, take_over: Upgrade) -> None:
        """Hand the rest of the connection to another protocol."""
        self._next = (head, take_over)

    # Deadlines and endings.

    def beat(self, now: float) -> None:
        state = self._state
        unsent = 0 if self.transport is None else self.transport.get_write_buffer_size()
        if self._stall.is_over(unsent, now):
            self.abort()
        elif state == _CLOSING:
            if self._refusal is not None and not self._waiting and now > self._deadline:
                self._close()
        elif state == _IDLE:
            if not self._waiting and now > self._deadline:
                self._close()
        elif state == _HEADER:
            if now > self._deadline:
                self._refuse(
                    ApiError(
                        408, "request_timeout", "the headers of the request took too long to arrive"
                    )
                )
        elif state == _BODY:
            spent = now - (self._deadline - self.connection_limits.body_timeout_s)
            is_slow = (
                spent > BODY_GRACE_S
                and self._body_bytes < self.connection_limits.body_min_rate * spent
            )
            if now > self._deadline or is_slow:
                self._refuse(
                    ApiError(
                        408, "request_timeout", "the body of the request took too long to arrive"
                    )
                )

    def shut(self) -> None:
        self._is_shut = True
        waiting = self._waiting
        if waiting:
            is_over = waiting[0].stream is not None and waiting[0].stream.is_closed
        else:
            is_over = self._state not in (_HEADER, _BODY)  # else it gets its answer
        if is_over:
            self._close()

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def _close(self) -> None:
        self._state = _CLOSING
        if self.transport is not None:
            self.transport.close()

    def _refuse(self, error: Exception) -> None:
        """Send an error after the pending answers, and close: the rest cannot be parsed."""
        if self._state == _CLOSING:
            return
        exchange = Http1Exchange(self, keeps_alive=False, is_head=False)
        self._waiting.append(exchange)
        self._state = _CLOSING
        self._refusal = exchange
        exchange.respond(response_of(error))

    def _linger(self) -> None:
        """Read and discard the bytes that still arrive, for a while: closing with unread bytes
        resets the connection, and the peer would not receive the error."""
        self._deadline = self.connection_limits.now + LINGER_S
        if self.transport is not None and not self._is_shut:
            if self.transport.can_write_eof():
                self.transport.write_eof()
        else:
            self._close()

    # Other protocols.

    def _become_h2(self, data: bytes) -> None:
        transport = self.transport
        if transport is None:
            return
        self.connection_limits.forget(self, self._peer)
        self.transport = None
        self._state = _CLOSING
        self._host.take_over_h2(transport, self._peer, data)

    def _upgraded(self, rest: bytes) -> bytes:
        if self._next is None:  # an upgrade that no handler offers: answered as a plain request
            self._parser = httptools.HttpRequestParser(self)
            return rest
        head, take_over = self._next
        transport = self.transport
        if transport is None:
            return b""
        self.connection_limits.forget(self, self._peer)
        self.transport = None
        self._state = _CLOSING
        self._waiting.clear()
        transport.write(head)
        take_over(transport, rest)
        return b""


def _malformed(message: str) -> ApiError:
    return ApiError(400, "bad_request", message)


def _too_large(most: int) -> ApiError:
    return ApiError(413, "payload_too_large", f"the body is larger than {most} bytes")


def _too_many_headers() -> ApiError:
    return ApiError(
        431,
        "headers_too_large",
        f"too many or too large headers: at most {HEADERS_MAX} and {HEADER_BYTES_MAX} bytes",
    )
