"""A batch whose time has not come, as the text of a record. Pure."""

from __future__ import annotations

import struct
from typing import Final

import msgspec

from penstock.codec.columns import DATA, META, NODE, TAG, Text, columns_of
from penstock.engine.batch import Batch, from_columns

_encode = msgspec.json.Encoder().encode
_Texts = list[msgspec.Raw]  # `null` where there is none: a Raw may not be optional
_NULL = b"null"
_ALL: Final = 1 << 62  # bytes: no bound


class StoredBatch(msgspec.Struct, array_like=True):
    """The records, and where they go when their time has come."""

    topic_id: int
    due_ms: int  # ms since 1970, as the caller wants it
    datas: list[msgspec.Raw]
    metas: _Texts | None = None
    tags: list[str | None] | None = None
    nodes: list[str | None] | None = None

    @property
    def payload_bytes(self) -> int:
        metas = [] if self.metas is None else [_meta(text) or b"" for text in self.metas]
        return sum(len(bytes(data)) for data in self.datas) + sum(map(len, metas))


_DECODER = msgspec.json.Decoder(StoredBatch)


def encode(batch: Batch, topic_id: int, due_ms: int) -> bytes:
    """The text of a batch, with the tag and node that each record gets."""
    frames, offsets, _ = batch.encode(topic_id, 1, 0, 0)
    found, _, _ = columns_of(
        frames,
        offsets,
        4,
        0,
        batch.count,
        None,
        batch.count,
        _ALL,
        NODE | TAG | META | DATA,
        first_seq=1,
        topic_id=topic_id,
    )
    datas, metas, tags, nodes = (
        _split(found.count, column) for column in (found.data, found.meta, found.tag, found.node)
    )
    return _encode(
        StoredBatch(
            topic_id,
            due_ms,
            [msgspec.Raw(text or _NULL) for text in datas],
            [msgspec.Raw(text or _NULL) for text in metas] if any(metas) else None,
            _labels(tags),
            _labels(nodes),
        )
    )


def decode(text: bytes) -> StoredBatch:
    return _DECODER.decode(text)


def joined(batches: list[StoredBatch], key: bytes) -> Batch:
    """The records of several batches for one topic, as one batch."""
    datas = [bytes(data) for one in batches for data in one.datas]
    metas: list[bytes | None] = []
    tags: list[bytes | None] = []
    nodes: list[bytes | None] = []
    for one in batches:
        nothing = [None] * len(one.datas)
        metas += nothing if one.metas is None else map(_meta, one.metas)
        tags += nothing if one.tags is None else map(_label, one.tags)
        nodes += nothing if one.nodes is None else map(_label, one.nodes)
    return from_columns(
        datas,
        metas if any(metas) else None,
        tags if any(tags) else None,
        nodes if any(nodes) else None,
        key=key,
        are_valid=True,
    )


def _split(count: int, column: Text | None) -> list[bytes | None]:
    if column is None:
        return [None] * count
    ends, text, present = column
    at = struct.unpack(f"<{count + 1}I", ends)
    return [
        text[at[n] : at[n + 1]] if present[n >> 3] >> (n & 7) & 1 else None for n in range(count)
    ]


def _labels(column: list[bytes | None]) -> list[str | None] | None:
    if not any(column):
        return None
    return [None if text is None else text.decode() for text in column]


def _label(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _meta(text: msgspec.Raw) -> bytes | None:
    found = bytes(text)
    return None if found == _NULL else found
