"""A request, an answer, and the exchange that joins them, whatever the HTTP version."""

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
    """A whole answer."""

    status: int
    body: bytes
    content_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Stream(Protocol):
    """An answer without an end: events go out until one side leaves.

    Nothing is queued for a full one: whoever writes looks first, and reads on when it drains.
    """

    framing: int  # streams of one framing share encoded bytes
    on_drain: Callable[[], None] | None
    on_close: Callable[[], None] | None

    def write(self, data: bytes) -> None:
        """Send a piece that `framed` made."""

    def framed(self, data: bytes) -> bytes:
        """The bytes of this piece on the wire; the same for every stream of one framing."""

    @property
    def is_full(self) -> bool:
        """Does the peer take less than we have for it? `on_drain` tells when it has caught up."""

    def buffered(self) -> int:
        """Bytes that the peer has not taken yet."""

    def close(self) -> None:
        """End the answer in order."""

    def abort(self) -> None:
        """Give up on a peer that does not read."""


class Exchange(Protocol):
    """Where the answer of one request goes. Event loop only."""

    on_close: Callable[[], None] | None  # told when the peer leaves before its answer
    extra: tuple[tuple[bytes, bytes], ...]  # headers of the answer, whatever it will be

    def respond(self, response: Response) -> None:
        """Answer, once."""

    def start_stream(self, headers: tuple[tuple[bytes, bytes], ...]) -> Stream:
        """Answer 200 with an endless body."""


class Request:
    """One request, its body complete. `params` are the decoded names from the path."""

    __slots__ = (
        "act",
        "body",
        "exchange",
        "headers",
        "key",
        "method",
        "params",
        "path",
        "peer",
        "query_text",
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
        self.body = b""
        self.exchange = exchange
        self.started = started
        self.key: ApiKey = ANYONE
        self.params: tuple[str, ...] = ()
        self.peer = ""
        self.act = ""  # what the audit calls it, if it is to be written down

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
        """A query boolean; anything but true, 1, false and 0 means the default."""
        value = self.query(name)
        if value in ("true", "1"):
            return True
        return default and value not in ("false", "0")

    def number(self, name: str, default: int) -> int:
        """A query integer; what cannot be read means the default."""
        value = self.query(name) or ""
        return int(value) if value.isascii() and value.isdigit() and len(value) < 20 else default


def form_decoded(text: str) -> str:
    """Percent escapes and plus signs undone. Malformed escapes stay, bad UTF-8 is replaced."""
    if "%" not in text and "+" not in text:
        return text
    return unquote_to_bytes(text.replace("+", " ")).decode("utf-8", "replace")
