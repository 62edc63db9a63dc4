"""HTTP/1.1 on one connection: keep-alive, pipelining, chunked bodies, deadlines, bounds.

httptools parses; what is ours is what a parser leaves out: limits before anything is buffered,
answers in the order of their requests, and a peer that is too slow.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Final, Protocol

import httptools

from penstock.server.errors import ApiError, response_of
from penstock.server.http import compression
from penstock.server.http.exchange import Http1Exchange, Upgrade
from penstock.server.http.limits import (
    BODY_GRACE_S,
    HEADER_BYTES_MAX,
    HEADERS_MAX,
    LINGER_BYTES_MAX,
    LINGER_S,
    PIPELINE_MAX,
    SCREEN_BYTES,
    TURN_MAX,
    Stall,
    Watchman,
)
from penstock.server.http.message import Exchange, Request

_IDLE, _HEADER, _BODY, _STREAM, _CLOSING = range(5)
_PREFACE: Final = b"PRI"
_FRAMING_MOST: Final = 8  # bytes on the wire for one of a body: chunks may be as small as one


class _BehindStream(Exception):
    """A request that came with the one that opened a stream: it is not read."""


class Host(Protocol):
    """What a connection needs of the server."""

    watchman: Watchman

    def handle(self, request: Request) -> None:
        """Answer a complete request."""

    def screen(self, request: Request) -> int:
        """Before a large body is read: the most it may have, or the ApiError of its refusal."""

    def take_over_h2(self, transport: asyncio.Transport, peer: str, data: bytes) -> None:
        """The peer speaks HTTP/2."""


class Http1Connection(asyncio.Protocol):
    """Event loop only."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.watchman = host.watchman
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
        self.is_full = False  # the peer takes less than we have for it
        self.buffer_bytes_max = self.watchman.settings.stream_buffer_bytes
        self._is_paused = False
        self._is_shut = False
        self._is_refused = False
        self._refusal: Http1Exchange | None = None
        self._lingered_bytes = 0
        self.is_last_read = False  # nothing that comes behind a stream can ever be answered
        self._stall = Stall(self.watchman.stall_timeout_s)
        self._next: tuple[bytes, Upgrade] | None = None
        # The request being read:
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._header_count = 0
        self._header_bytes = 0  # and then those of the body's framing since its last byte
        self._read_bytes = 0  # of the read at hand, which may hold many requests
        self._body = b""
        self._more: bytearray | None = None  # the whole body, when it comes in several pieces
        self._body_bytes = 0
        self._body_bytes_max = 0
        self._fed_bytes = 0  # of bodies, in the read at hand
        self._started = 0.0

    # asyncio.Protocol.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # a stream transport, always
        address = transport.get_extra_info("peername")
        self._peer = str(address[0]) if address else ""
        if not self.watchman.admit(self, self._peer):
            transport.close()
            self._is_refused = True
            return
        self._deadline = self.watchman.now + self.watchman.idle_timeout_s
        self.transport.set_write_buffer_limits(self.buffer_bytes_max)  # type: ignore[union-attr]
        ssl = transport.get_extra_info("ssl_object")
        if ssl is not None and ssl.selected_alpn_protocol() == "h2":
            self._become_h2(b"")

    def connection_lost(self, error: Exception | None) -> None:
        self.watchman.forget(self, self._peer)
        self.transport = None
        self._state = _CLOSING
        self._unhandled.clear()
        # The parser holds us and we hold it: without this half a body would stay in memory
        # until the collector looks at the oldest objects, which may be never.
        self._parser = None
        self._body, self._more = b"", None
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
        while data:
            data = self._feed(data)

    def _feed(self, data: bytes) -> bytes:
        """Parse; what is left when a parser gave up on an upgrade that nobody offers."""
        if self._state == _CLOSING or self.is_last_read or self._is_refused:
            if self._refusal is not None:
                self._lingered_bytes += len(data)
                if self._lingered_bytes > LINGER_BYTES_MAX:
                    self.abort()
            return b""
        if self._state == _IDLE:
            self._state = _HEADER
            self._started = self.watchman.monotonic()
            self._deadline = self._started + self.watchman.header_timeout_s
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
            self._refuse(_malformed("this is not a valid HTTP request"))
        else:
            if self._state == _BODY:  # chunk extensions and trailers are bytes without a body
                self._header_bytes += max(0, len(data) - self._fed_bytes * _FRAMING_MOST)
            if self._header_bytes > HEADER_BYTES_MAX:
                self._refuse(_too_many_headers())
        return b""

    def eof_received(self) -> bool:
        self._is_shut = True
        # Let the answers out before the connection goes; a stream has nobody left to read it.
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
            value = headers[name] + b"," + value  # two Hosts become one that nobody has
        headers[name] = value

    def on_headers_complete(self) -> None:
        headers = self._headers
        self._state = _BODY
        if max(self._header_bytes, self._read_bytes) > HEADER_BYTES_MAX:  # hardly ever: look
            size = sum([len(name) + len(value) for name, value in headers.items()])
            if len(self._url) + size > HEADER_BYTES_MAX:
                raise _too_many_headers()
        self._header_bytes = 0
        now = self.watchman.monotonic()
        self._deadline = now + self.watchman.body_timeout_s
        self._body_bytes_max = self.watchman.body_bytes_max
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
                raise ApiError(417, "invalid_request", "only `Expect: 100-continue` is known")
            if self.transport is not None and not self._waiting:
                self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _check_framing(self, length: int, coding: bytes | None) -> None:
        """Refuse what another server in front of us could read in another way."""
        parser = self._parser
        version = parser.get_http_version()
        self.is_old = version == "1.0"
        if version not in ("1.1", "1.0"):
            raise _malformed("this is HTTP/1.1")
        if parser.should_upgrade() and (
            length or coding is not None or parser.get_method() == b"CONNECT"
        ):
            # The parser takes everything behind such a head for another protocol.
            raise _malformed("a request for an upgrade has no body, and nothing is tunnelled")
        if coding is not None:
            if coding.strip().lower() != b"chunked":
                raise ApiError(501, "not_implemented", "the only transfer coding known is chunked")
            if version == "1.0":
                raise _malformed("HTTP/1.0 knows no transfer codings")

    def _screen(self, length: int) -> None:
        """Hold no body of somebody who may not send it, or not one so large."""
        exchange = Http1Exchange(self, keeps_alive=False, is_head=False)
        self._body_bytes_max = self._host.screen(self._request(exchange))
        if length > self._body_bytes_max:
            raise _too_large(self._body_bytes_max)

    def on_body(self, piece: bytes) -> None:
        if self._body_bytes:
            if self._more is None:
                self._more = bytearray(self._body)
            self._more += piece
        else:
            self._body = piece
        self._body_bytes += len(piece)
        self._fed_bytes += len(piece)
        if self._body_bytes > self._body_bytes_max:
            raise _too_large(self._body_bytes_max)

    def on_message_complete(self) -> None:
        self._header_bytes = 0
        self._state = _IDLE
        self._deadline = self.watchman.now + self.watchman.idle_timeout_s
        keeps_alive = self._parser.should_keep_alive() and not self._is_shut
        exchange = Http1Exchange(self, keeps_alive, False)
        request = self._request(exchange)
        exchange.is_head = request.method == "HEAD"
        request.body = self._body if self._more is None else bytes(self._more)
        self._body, self._more = b"", None
        self._waiting.append(exchange)
        headers = request.headers
        if b"accept-encoding" in headers:
            exchange.accepts_gzip = compression.is_accepted(headers[b"accept-encoding"])
        if self.is_full or not self._turn_left or self._unhandled or self._barrier is not None:
            self._unhandled.append(request)
            self._pause()
            self._schedule()
            return
        self._turn_left -= 1
        if b"content-encoding" in headers:  # undone on a thread: others must not overtake it
            self._barrier = exchange
        if b"upgrade" in headers:
            exchange.can_upgrade = len(self._waiting) == 1 and self._parser.should_upgrade()
        self._host.handle(request)
        if len(self._waiting) >= PIPELINE_MAX:
            self._pause()
            self._turn_left = 0

    def _may_handle(self) -> bool:
        """Is there room for one more answer?"""
        under_way = len(self._waiting) - len(self._unhandled)
        return not self.is_full and self._barrier is None and under_way < PIPELINE_MAX

    def _schedule(self) -> None:
        if not self._is_scheduled and self._may_handle():
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        """Handle the next few of what was read."""
        self._is_scheduled = False
        left = TURN_MAX
        while self._unhandled and left and self._may_handle():
            left -= 1
            request = self._unhandled.popleft()
            if b"content-encoding" in request.headers:
                self._barrier = request.exchange  # type: ignore[assignment]  # it is one of ours
            self._host.handle(request)
            if self.is_last_read:
                self._unhandled.clear()
        if self._unhandled:
            self._schedule()
        elif len(self._waiting) < PIPELINE_MAX:
            self._resume()

    def _request(self, exchange: Exchange) -> Request:
        path, _, query = self._url.partition(b"?")
        request = Request(
            self._parser.get_method().decode(),
            path.decode("latin-1"),
            query.decode("latin-1"),
            self._headers,
            exchange,
            self._started,
        )
        request.peer = self._peer
        return request

    # Answers.

    def flush(self) -> None:
        """Send every answer whose turn it is."""
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
        """The rest of the connection belongs to another protocol."""
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
                self._refuse(ApiError(408, "request_timeout", "the request's head took too long"))
        elif state == _BODY:
            spent = now - (self._deadline - self.watchman.body_timeout_s)
            is_slow = (
                spent > BODY_GRACE_S and self._body_bytes < self.watchman.body_min_rate * spent
            )
            if now > self._deadline or is_slow:
                self._refuse(ApiError(408, "request_timeout", "the request's body took too long"))

    def shut(self) -> None:
        self._is_shut = True
        waiting = self._waiting
        if waiting:
            is_over = waiting[0].stream is not None and waiting[0].stream.is_closed
        else:
            is_over = self._state not in (_HEADER, _BODY)  # what was begun gets its answer
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
        """Answer what cannot be read on from, after the answers before it, and close."""
        if self._state == _CLOSING:
            return
        exchange = Http1Exchange(self, keeps_alive=False, is_head=False)
        self._waiting.append(exchange)
        self._state = _CLOSING
        self._refusal = exchange
        exchange.respond(response_of(error))

    def _linger(self) -> None:
        """Take in for a while, and throw away, what the peer goes on sending: closing on unread
        bytes resets the connection, and the refusal would be lost on its way."""
        self._deadline = self.watchman.now + LINGER_S
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
        self.watchman.forget(self, self._peer)
        self.transport = None
        self._state = _CLOSING
        self._host.take_over_h2(transport, self._peer, data)

    def _upgraded(self, rest: bytes) -> bytes:
        if self._next is None:  # an upgrade nobody offers, answered as a plain request
            self._parser = httptools.HttpRequestParser(self)
            return rest
        head, take_over = self._next
        transport = self.transport
        if transport is None:
            return b""
        self.watchman.forget(self, self._peer)
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
    return ApiError(431, "headers_too_large", "the request's headers are too large or too many")
