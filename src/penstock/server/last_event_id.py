"""The `Last-Event-ID` of event streams: where each topic of the session stands, and how a client
that comes back resumes there."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping

import msgspec

from penstock.server.subscription import Cursor

_encode = msgspec.json.Encoder().encode
_CURSORS = msgspec.json.Decoder(dict[str, int])


def cursor_id(cursors: dict[str, int]) -> bytes:
    """The `id` of an event: base64url, without padding, of the JSON map topic → seq."""
    return base64.urlsafe_b64encode(_encode(cursors)).rstrip(b"=")


def cursors_of(text: bytes) -> dict[str, int]:
    """The map behind a `Last-Event-ID`; empty when it cannot be read."""
    padded = text + b"=" * (-len(text) % 4)
    try:
        return _CURSORS.decode(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (binascii.Error, msgspec.DecodeError, ValueError):
        return {}


def rewind(cursors: Mapping[str, Cursor], last_id: bytes | None) -> None:
    """Move cursors back to the client's last event. Never forward: the client may not have received
    the later events."""
    if last_id is not None:
        for name, seq in cursors_of(last_id).items():
            cursor = cursors.get(name)
            if cursor is not None and 0 <= seq < cursor.seq:
                cursor.seq = seq
