"""The JSON of stream events, shared by SSE and WebSocket. Pure."""

from __future__ import annotations

import base64
import binascii

import msgspec

from penstock.types import Gap, JsonPage

_encode = msgspec.json.Encoder().encode
_CURSORS = msgspec.json.Decoder(dict[str, int])


def record_fields(topic: str, after: int, page: JsonPage) -> bytes:
    """Names of topics need no escaping: their alphabet has nothing to escape."""
    return b'"topic":"%b","from_seq":%d,"to_seq":%d,"head_seq":%d,"records":%b' % (
        topic.encode(),
        after,
        page.next_seq,
        page.head_seq,
        page.records,
    )


def tombstone_fields(topic: str, gap: Gap, reason: str) -> bytes:
    return (
        b'"topic":"%b","reason":"%b","gap_from":%d,"gap_to":%d,"earliest_seq":%d,"head_seq":%d'
        % (topic.encode(), reason.encode(), gap.first, gap.last, gap.earliest_seq, gap.head_seq)
    )


def head_fields(topic: str, head: int) -> bytes:
    return b'"topic":"%b","head_seq":%d' % (topic.encode(), head)


def deleted_fields(topic: str) -> bytes:
    return b'"topic":"%b","head_seq":0,"reason":"deleted"' % topic.encode()


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
