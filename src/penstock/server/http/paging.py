"""Pages of lists: the size of a page, and the cursor of the next one."""

from __future__ import annotations

import base64
import binascii
from typing import Final

import msgspec

from penstock.server.errors import invalid
from penstock.server.http.message import Request

_CURSOR = msgspec.json.Decoder(dict[str, str])
_encode = msgspec.json.Encoder().encode
_DEFAULT: Final = 100
_MAX: Final = 1000


def page_size(request: Request) -> int:
    return max(1, min(_MAX, request.number("page_size", _DEFAULT)))


def cursor_of(name: str) -> str:
    """The cursor of the page after `name`. URL-safe, because clients put it into a URL."""
    return base64.urlsafe_b64encode(_encode({"after": name})).rstrip(b"=").decode()


def after_of(request: Request) -> str:
    """The last name of the previous page; empty for the first page."""
    cursor = request.query("cursor") or ""
    if not cursor:
        return ""
    try:
        padded = cursor.encode() + b"=" * (-len(cursor) % 4)
        return _CURSOR.decode(base64.b64decode(padded, altchars=b"-_", validate=True))["after"]
    except (binascii.Error, msgspec.DecodeError, ValueError, KeyError):
        raise invalid("invalid cursor: expected the next_cursor of a previous page") from None
