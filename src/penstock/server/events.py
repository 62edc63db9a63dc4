"""The JSON of stream events, shared by SSE and WebSocket. Pure."""

from __future__ import annotations

from penstock.types import Gap, JsonPage


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
