"""HTTP/1.1 as bytes and values: a request becomes bytes, bytes become a response. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import httptools

from penstock import limits
from penstock.errors import InvalidArgument

HEAD_BYTES_MAX: Final = 64 * limits.KIB
BODY_BYTES_MAX: Final = 64 * limits.MIB


class BadAnswer(Exception):
    """What came is not HTTP, or more of it than anybody should send."""


@dataclass(frozen=True, slots=True)
class Response:
    """A whole answer. Header names are in small letters."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked; `Host` and the length are added when it is rendered."""

    method: str
    target: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)  # they hold the token
    body: bytes = b""

    def render(self, authority: str) -> bytes:
        """The bytes to send. Refuses what would end a header line early."""
        lines = [f"{self.method} {self.target} HTTP/1.1", f"Host: {authority}"]
        lines += [f"{name}: {checked_header(name, value)}" for name, value in self.headers.items()]
        if self.body or self.method in ("POST", "PUT"):
            lines.append(f"Content-Length: {len(self.body)}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + self.body


def checked_header(name: str, value: str) -> str:
    """The value, if it fits on a header line. It may be a secret, so no error repeats it."""
    if not value.isascii() or not value.isprintable():
        raise InvalidArgument(f"the value of {name} has characters that no header can carry")
    return value


class Reader:
    """Reads one answer, fed in pieces of any size. Not for several threads.

    `is_done` says that it is whole; `is_reusable`, that the connection may carry another call.
    """

    def __init__(self, body_bytes_max: int = BODY_BYTES_MAX, *, is_stream: bool = False) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.is_head_done = False
        self.is_done = False
        self.is_reusable = False
        self._parser = httptools.HttpResponseParser(self)
        self._body: list[bytes] = []
        self._held = 0
        self._fed = 0
        self._max = body_bytes_max
        self._is_stream = is_stream

    def feed(self, data: bytes) -> None:
        """Take the next bytes. BadAnswer when they make no sense."""
        if not self.is_head_done:
            self._fed += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            raise BadAnswer("the server changed to another protocol") from None
        except httptools.HttpParserError as error:
            if not self.is_done:  # else the answer is whole, and something unasked for follows
                raise BadAnswer(f"the answer is not HTTP: {error}") from None
            self.is_reusable = False
        if not self.is_head_done and self._fed > HEAD_BYTES_MAX:
            raise BadAnswer(f"the head of the answer has more than {HEAD_BYTES_MAX} bytes")
        if self._held > self._max:
            raise BadAnswer(f"the answer has more than {self._max} bytes")
        if self.is_head_done and not self._is_stream and not self._has_length():
            raise BadAnswer("the answer does not say how long it is")

    def take(self) -> bytes:
        """The body received so far, which is forgotten here."""
        body = b"".join(self._body)
        self._body.clear()
        self._held = 0
        return body

    def response(self) -> Response:
        """The whole answer, once `is_done`."""
        return Response(self.status, self.headers, self.take())

    def _has_length(self) -> bool:
        return (
            self.is_done or "content-length" in self.headers or "transfer-encoding" in self.headers
        )

    # What the parser calls.

    def on_message_begin(self) -> None:
        if self.is_done:
            self.is_reusable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.is_done:
            self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        if not self.is_done:
            self.status = self._parser.get_status_code()
            self.is_head_done = self.status >= 200

    def on_body(self, body: bytes) -> None:
        if not self.is_done:
            self._body.append(body)
            self._held += len(body)

    def on_message_complete(self) -> None:
        if self.is_done:
            return
        if self.status < 200:  # 100 Continue and its kind: the answer is still to come
            self.headers = {}
            return
        self.is_done = True
        self.is_reusable = self._parser.should_keep_alive()
