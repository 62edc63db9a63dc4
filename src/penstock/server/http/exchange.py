"""One request on an HTTP/1.1 connection and its answer: complete, endless, or an upgrade."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, Protocol

from penstock.server.http import compression
from penstock.server.http.connection_limits import ConnectionLimits
from penstock.server.http.message import JSON, Response

_STATUS_LINES = {
    status.value: b"HTTP/1.1 %d %b\r\n" % (status.value, status.phrase.encode())
    for status in HTTPStatus
}
_FRAMING_CHUNKED: Final = 1
_FRAMING_NONE: Final = 3  # 2 is HTTP/2's


class Upgrade(Protocol):
    """Takes over a connection that was upgraded to another protocol."""

    def __call__(self, transport: asyncio.Transport, data: bytes) -> None: ...


class Line(Protocol):
    """The connection as its exchanges need it."""

    connection_limits: ConnectionLimits
    transport: asyncio.Transport | None
    is_old: bool
    is_full: bool
    is_last_read: bool
    buffer_bytes_max: int

    def flush(self) -> None:
        """Send every answer that is next in order."""

    def hand_over(self, head: bytes, take_over: Upgrade) -> None:
        """Hand the rest of the connection to another protocol."""

    def shut(self) -> None: ...

    def abort(self) -> None: ...


class Http1Exchange:
    """One request on the connection. Answers are sent in the order of the requests."""

    __slots__ = (
        "_connection",
        "accepts_gzip",
        "can_upgrade",
        "extra",
        "is_head",
        "keeps_alive",
        "on_close",
        "output",
        "stream",
    )

    def __init__(self, connection: Line, keeps_alive: bool, is_head: bool) -> None:
        self._connection = connection
        self.keeps_alive = keeps_alive
        self.is_head = is_head
        self.accepts_gzip = False
        self.can_upgrade = False  # only alone on its connection, and when the parser agrees
        self.extra: tuple[tuple[bytes, bytes], ...] = ()
        self.on_close: Callable[[], None] | None = None
        self.output: bytes | None = None
        self.stream: EndlessBody | None = None

    def respond(self, response: Response) -> None:
        if self.output is not None or self.stream is not None:
            return  # answered already: a late failure after the first answer
        if self.accepts_gzip and len(response.body) >= compression.ANSWER_BYTES_MIN:
            self.accepts_gzip = False
            compression.compress(response, self.respond)
            return
        connection = self._connection
        body = response.body
        is_plain = response.status == 200 and response.content_type is JSON
        if is_plain and self.keeps_alive and not (response.headers or self.extra or self.is_head):
            head_of_json = connection.connection_limits.json_head
            self.output = b"%b%d\r\n\r\n%b" % (head_of_json, len(body), body)
            connection.flush()
            return
        head = [
            _STATUS_LINES.get(response.status) or b"HTTP/1.1 %d \r\n" % response.status,
            b"date: ",
            connection.connection_limits.date,
            b"\r\nx-content-type-options: nosniff\r\ncontent-type: ",
            response.content_type,
            b"\r\ncontent-length: %d\r\n" % len(body),
        ]
        for name, value in response.headers + self.extra:
            head += (name, b": ", value, b"\r\n")
        if not self.keeps_alive:
            head.append(b"connection: close\r\n")
        head.append(b"\r\n")
        if not self.is_head:
            head.append(body)
        self.output = b"".join(head)
        connection.flush()

    def start_stream(self, headers: tuple[tuple[bytes, bytes], ...]) -> EndlessBody:
        connection = self._connection
        head = [b"HTTP/1.1 200 OK\r\ndate: ", connection.connection_limits.date, b"\r\n"]
        for name, value in (*headers, *self.extra):
            head += (name, b": ", value, b"\r\n")
        is_old = connection.is_old  # HTTP/1.0, without chunks
        head += (
            b"x-content-type-options: nosniff\r\n",
            b"connection: close\r\n\r\n" if is_old else b"transfer-encoding: chunked\r\n\r\n",
        )
        self.output = b"".join(head)
        self.stream = EndlessBody(connection, self)
        connection.is_last_read = True
        connection.flush()
        return self.stream

    def upgrade(self, head: bytes, take_over: Upgrade) -> None:
        """Send `head` and hand the connection over. Only for the last request of a connection."""
        self._connection.hand_over(head, take_over)


class EndlessBody:
    """An endless answer: in chunks, or for HTTP/1.0 until the connection closes."""

    __slots__ = ("_connection", "_exchange", "framing", "is_closed", "on_close", "on_drain")

    def __init__(self, connection: Line, exchange: Http1Exchange) -> None:
        self._connection = connection
        self._exchange = exchange
        self.framing = _FRAMING_NONE if connection.is_old else _FRAMING_CHUNKED
        self.on_drain: Callable[[], None] | None = None
        self.on_close: Callable[[], None] | None = None
        self.is_closed = False

    def framed(self, data: bytes) -> bytes:
        if self.framing == _FRAMING_NONE:
            return data
        return b"%x\r\n%b\r\n" % (len(data), data)

    def write(self, data: bytes) -> None:
        transport = self._connection.transport
        if transport is None or self.is_closed:
            return
        if self._exchange.output is not None:  # earlier answers are not sent yet
            self._exchange.output += data
        else:
            transport.write(data)

    @property
    def is_full(self) -> bool:
        waiting = self._exchange.output
        if waiting is not None and len(waiting) > self._connection.buffer_bytes_max:
            return True
        return self._connection.is_full

    def buffered(self) -> int:
        transport = self._connection.transport
        return 0 if transport is None else transport.get_write_buffer_size()

    def close(self) -> None:
        if not self.is_closed:
            if self.framing == _FRAMING_CHUNKED:
                self.write(b"0\r\n\r\n")
            self.is_closed = True
            self._connection.shut()

    def abort(self) -> None:
        self._connection.abort()
