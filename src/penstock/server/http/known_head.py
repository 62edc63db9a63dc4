"""A request's head that was parsed before on the same connection. Pure.

A client's requests differ in their path, their length and their body, and in nothing else. Their
header lines need not be parsed again: they are compared, byte by byte, with those of a request
that the parser has accepted, and only the length and the path are read. A head that differs in any
other byte, or a body that is not here as a whole, is left to the parser.
"""

from __future__ import annotations

import re
from typing import Final

from penstock.server.http.compression import is_accepted

_HEAD_BYTES_MAX: Final = 1024
_LENGTH_DIGITS_MAX: Final = 8
_LINE_BYTES_MAX: Final = 512
_NO_MATCH: Final = 0, ("", "")
_METHOD: Final = b"POST "
_KEEP_ALIVE: Final = b"keep-alive"
_VERSION: Final = b" HTTP/1.1"
_LENGTH = re.compile(rb"\r\ncontent-length:[ ]?([0-9]{1,8})\r\n", re.IGNORECASE)
# Every parser reads these characters alike.
_TARGET = re.compile(rb"/[A-Za-z0-9._~/-]*(?:\?[A-Za-z0-9._~=&-]*)?")
# What these say is not the same for every request, or changes how the connection is read.
_SPECIAL: Final = frozenset(
    (
        b"content-encoding",
        b"expect",
        b"keep-alive",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    )
)


# (path, query, where the body begins, where it ends and the next request begins)
KnownRequest = tuple[str, str, int, int]


class KnownHead:
    """Immutable except for the latest request line. All requests with this head share `headers` and
    must not change it."""

    __slots__ = ("_after", "_before", "_latest", "_latest_target", "accepts_gzip", "headers")

    def __init__(self, before: bytes, after: bytes, headers: dict[bytes, bytes]) -> None:
        self._before = before  # from the end of the request line to the length
        self._after = after  # from there to the body
        self._latest = b""  # a head up to its length, and the path and query in it
        self._latest_target = ("", "")
        self.headers = headers
        self.accepts_gzip = is_accepted(headers.get(b"accept-encoding", b""))

    def match(self, data: bytes, at: int) -> KnownRequest | None:
        """The request at `at`, or None when the parser has to read it."""
        if self._latest and data.startswith(self._latest, at):
            start = at + len(self._latest)
            target = self._latest_target
        else:
            start, target = self._match_line(data, at)
        end = data.find(b"\r\n", start, start + _LENGTH_DIGITS_MAX + 2)
        digits = data[start:end]
        if not start or end < 0 or not digits.isdigit() or not data.startswith(self._after, end):
            return None
        if data.startswith(b"0", start) and len(digits) > 1:
            return None
        start = end + len(self._after)
        end = start + int(digits)
        if end > len(data):
            return None
        return *target, start, end

    def _match_line(self, data: bytes, at: int) -> tuple[int, tuple[str, str]]:
        """Where the length begins, or 0; and the path and the query."""
        line_end = data.find(b"\r\n", at, at + _LINE_BYTES_MAX)
        if (
            line_end < 0
            or not data.startswith(_METHOD, at)
            or not data.endswith(_VERSION, at, line_end)
            or not data.startswith(self._before, line_end)
        ):
            return _NO_MATCH
        target = data[at + len(_METHOD) : line_end - len(_VERSION)]
        if _TARGET.fullmatch(target) is None:
            return _NO_MATCH
        start = line_end + len(self._before)
        path, _, query = target.decode("ascii").partition("?")
        self._latest = data[at:start]
        self._latest_target = path, query
        return start, self._latest_target


def learn(data: bytes, headers: dict[bytes, bytes], body_bytes: int) -> KnownHead | None:
    """The head of the one request that `data` holds, which the parser has accepted; None when
    it is not one of those that can be recognised."""
    if not data.startswith(_METHOD) or not _SPECIAL.isdisjoint(headers):
        return None
    if headers.get(b"connection", _KEEP_ALIVE).lower() != _KEEP_ALIVE:
        return None
    line_end = data.find(b"\r\n", 0, _LINE_BYTES_MAX)
    head_end = data.find(b"\r\n\r\n", 0, _HEAD_BYTES_MAX)
    if line_end < 0 or head_end < 0 or not data.endswith(_VERSION, 0, line_end):
        return None
    lines = data[line_end : head_end + 4]
    found = _LENGTH.findall(lines)
    if len(found) != 1 or head_end + 4 + body_bytes != len(data) or int(found[0]) != body_bytes:
        return None
    place = _LENGTH.search(lines)
    if place is None or lines.lower().count(b"content-length") != 1:
        return None
    shared = {name: value for name, value in headers.items() if name != b"content-length"}
    return KnownHead(lines[: place.start(1)], lines[place.end(1) :], shared)
