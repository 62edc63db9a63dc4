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
    """The response is not HTTP, or is larger than the limits allow."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A whole response. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request. `render` adds `Host` and the length."""

    method: str
    target: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)  # they hold the token
    body: bytes = b""

    def render(self, authority: str) -> bytes:
        """The bytes to send. Raises InvalidArgument for a header value with control characters."""
        lines = [f"{self.method} {self.target} HTTP/1.1", f"Host: {authority}"]
        lines += [f"{name}: {checked_header(name, value)}" for name, value in self.headers.items()]
        if self.body or self.method in ("POST", "PUT"):
            lines.append(f"Content-Length: {len(self.body)}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + self.body


def checked_header(name: str, value: str) -> str:
    """The value, if a header may contain it. No error repeats it: it may be a secret."""
    if not value.isascii() or not value.isprintable():
        raise InvalidArgument(
            f"the value of {name} has characters that a header cannot contain: use printable ASCII"
        )
    return value


class ResponseReader:
    """Parses one response from pieces of any size. Not for several threads.

    `is_done`: the response is complete. `is_reusable`: the connection may be used for another call.
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
        """Parse the next bytes. Raises BadAnswer."""
        if not self.is_head_done:
            self._fed += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            raise BadAnswer("the server switched to another protocol") from None
        except httptools.HttpParserError as error:
            if not self.is_done:  # otherwise the response is complete and other bytes follow it
                raise BadAnswer(f"the answer is not HTTP: {error}") from None
            self.is_reusable = False
        if not self.is_head_done and self._fed > HEAD_BYTES_MAX:
            raise BadAnswer(f"the head of the answer has more than {HEAD_BYTES_MAX} bytes")
        if self._held > self._max:
            raise BadAnswer(f"the answer has more than {self._max} bytes")
        if self.is_head_done and not self._is_stream and not self._has_length():
            raise BadAnswer("the answer has neither a content-length nor a transfer-encoding")

    def pop_body(self) -> bytes:
        """Remove and return the body received so far."""
        body = b"".join(self._body)
        self._body.clear()
        self._held = 0
        return body

    def response(self) -> HttpResponse:
        """The whole response, once `is_done`."""
        return HttpResponse(self.status, self.headers, self.pop_body())

    def _has_length(self) -> bool:
        return (
            self.is_done or "content-length" in self.headers or "transfer-encoding" in self.headers
        )

    # Called by the parser.

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
        if self.status < 200:  # 100 Continue and the like: the response follows
            self.headers = {}
            return
        self.is_done = True
        self.is_reusable = self._parser.should_keep_alive()
