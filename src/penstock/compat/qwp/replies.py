"""The replies to a client: one binary message each."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

from penstock.compat.qwp.byte_reader import QwpStatus

_REASON_BYTES_MAX: Final = 1024  # a client takes no longer one


def ok(seq: int, tables: Mapping[str, int]) -> bytes:
    """Everything up to message `seq` is committed; the tables with their last seqs."""
    return struct.pack("<Bq", QwpStatus.OK, seq) + _tables(tables)


def durable(tables: Mapping[str, int]) -> bytes:
    """Everything up to these seqs is past a sync."""
    return struct.pack("<B", QwpStatus.DURABLE) + _tables(tables)


def error(status: QwpStatus, seq: int, reason: str) -> bytes:
    """Message `seq` was refused; nothing that follows it is answered."""
    text = reason.encode("utf-8", "replace")[:_REASON_BYTES_MAX]
    text = text.decode("utf-8", "ignore").encode()  # no half character at the end
    return struct.pack("<BqH", status, seq, len(text)) + text


def _tables(tables: Mapping[str, int]) -> bytes:
    parts = [struct.pack("<H", len(tables))]
    for name, seq in tables.items():
        text = name.encode()
        parts.append(struct.pack("<H", len(text)) + text + struct.pack("<q", seq))
    return b"".join(parts)
