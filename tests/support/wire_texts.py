"""The other half of what the package encodes or parses: a client's batch read, an event written."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.wire import binary_batch

_HEAD = msgspec.json.Decoder(dict[str, Any])
Column = list[bytes | None] | None


def written(body: bytes) -> tuple[dict[str, Any], list[bytes], Column, Column, Column]:
    """(head, datas, metas, tags, nodes) of a binary append, by the steps of the server."""
    head, at, count = binary_batch.split_head(body)
    return _HEAD.decode(head), *binary_batch.split_records(body, at, count)


def event_text(event: str, data: bytes, id: str = "") -> bytes:
    """One event of an event stream."""
    lines = b"".join(b"data: %b\n" % line for line in data.split(b"\n"))
    named = f"id: {id}\nevent: {event}\n" if id else f"event: {event}\n"
    return named.encode() + lines + b"\n"
