"""Requests, answers and exchanges, independent of the HTTP version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol
from urllib.parse import unquote_to_bytes

import msgspec

from penstock.server.auth import ANYONE, ApiKey

JSON = b"application/json"
BATCH = b"application/vnd.penstock.batch"
EVENTS = b"text/event-stream"


class Response(msgspec.Struct, frozen=True):
    """A complete answer."""

    status: int
    body: bytes
    content_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()


class StreamResponse(Protocol):
    """An answer without an end: events are sent until one side closes the connection.

    A writer checks `is_full` first, stops while it is true, and continues on `on_drain`.
    """

    framing: int  # streams of one framing share encoded bytes
    on_drain: Callable[[], None] | None
    on_close: Callable[[], None] | None

    def write(self, data: bytes) -> None:
        """Send bytes that `framed` returned."""

    def framed(self, data: bytes) -> bytes:
        """The bytes on the wire; the same for every stream of one framing."""

    @property
    def is_full(self) -> bool:
        """True while the peer reads slower than we write. `on_drain` is called when that ends."""

    def buffered(self) -> int:
        """Bytes that the peer has not received yet."""

    def close(self) -> None:
        """End the answer after the bytes written so far."""

    def abort(self) -> None:
        """Close the connection to a peer that does not read."""


class Exchange(Protocol):
    """Sends the answer to one request. Event loop only."""

    on_close: Callable[[], None] | None  # called when the peer disconnects before its answer
    extra: tuple[tuple[bytes, bytes], ...]  # headers added to the answer

    def respond(self, response: Response) -> None:
        """Send the answer. Only the first call counts."""

    def start_stream(self, headers: tuple[tuple[bytes, bytes], ...]) -> StreamResponse:
        """Answer 200 with an endless body."""


class Request:
    """One request with its complete body. `params` are the decoded parameters of the path."""

    __slots__ = (
        "act",
        "exchange",
        "headers",
        "key",
        "method",
        "params",
        "path",
        "peer",
        "query_text",
        "received",
        "started",
    )

    def __init__(
        self,
        method: str,
        path: str,
        query_text: str,
        headers: dict[bytes, bytes],
        exchange: Exchange,
        started: float,
    ) -> None:
        self.method = method
        self.path = path
        self.query_text = query_text
        self.headers = headers
        # The body: bytes, or a view of what was read from the socket, which saves a copy.
        self.received: bytes | memoryview = b""
        self.exchange = exchange
        self.started = started
        self.key: ApiKey = ANYONE
        self.params: tuple[str, ...] = ()
        self.peer = ""
        self.act = ""  # the name of the act in the audit; empty: not audited

    @property
    def body(self) -> bytes:
        """The body as bytes, which are copied from a view at the first use."""
        body = self.received
        if not isinstance(body, bytes):
            body = self.received = bytes(body)
        return body

    @body.setter
    def body(self, body: bytes) -> None:
        self.received = body

    def query(self, name: str) -> str | None:
        """The first value of a query parameter, form-decoded; None when absent."""
        if not self.query_text:
            return None
        for pair in self.query_text.split("&"):
            found, _, value = pair.partition("=")
            if found == name or form_decoded(found) == name:
                return form_decoded(value)
        return None

    def flag(self, name: str, default: bool) -> bool:
        """A query boolean; any value but true, 1, false and 0 means the default."""
        value = self.query(name)
        if value in ("true", "1"):
            return True
        return default and value not in ("false", "0")

    def number(self, name: str, default: int) -> int:
        """A query integer; an invalid value means the default."""
        value = self.query(name) or ""
        return int(value) if value.isascii() and value.isdigit() and len(value) < 20 else default


def form_decoded(text: str) -> str:
    """Decode percent escapes and plus signs. Malformed escapes stay, invalid UTF-8 is replaced."""
    if "%" not in text and "+" not in text:
        return text
    return unquote_to_bytes(text.replace("+", " ")).decode("utf-8", "replace")
