"""The binary batch body, both directions: `application/vnd.penstock.batch`.

A write carries length-prefixed records. A page carries the log's own Append frames, so that their
checksums reach the reader. Every length is checked before it is used.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from struct import Struct
from typing import Any, Final, NoReturn

import msgspec

from penstock import limits
from penstock.codec import json_text, kernel
from penstock.codec import projection_options as show
from penstock.codec.columns import Columns, columns_of
from penstock.errors import CorruptFrame, InvalidArgument
from penstock.types import Record
from penstock.wire.json_records import BAD_JSON, decode_records

CONTENT_TYPE: Final = "application/vnd.penstock.batch"
MAGIC: Final = b"PSB1"
HEAD_BYTES_MAX: Final = 1 * limits.MIB

# Options of `project_page`: the members of a record in JSON.
TAG: Final = show.TAG
META: Final = show.META
DATA: Final = show.DATA
DOLLAR: Final = show.DOLLAR

_HEAD = Struct("<4sI")
_COUNT = Struct("<I")
_RECORD = Struct("<IIHH")  # of data, meta, tag, node
_APPEND = 1  # the frame type of a record
_WHY = {1: "it ends early", 2: "its checksum differs", 3: "it is malformed"}
_U32_MAX = (1 << 32) - 1
_U16_MAX = (1 << 16) - 1

Column = Sequence[bytes | None] | None
Split = tuple[
    list[bytes], list[bytes | None] | None, list[bytes | None] | None, list[bytes | None] | None
]

_encode = msgspec.json.Encoder().encode
pack_records = kernel.pack_records  # the texts have been checked
are_json = json_text.are_json
is_plain = json_text.is_plain
SHALLOW_BYTES_MAX: Final = json_text.SHALLOW_BYTES_MAX
check_depth = json_text.check_depth
depth_beyond = json_text.depth_beyond
too_deep = json_text.too_deep
sizes = kernel.sizes
texts_of = kernel.texts_of  # of payloads as msgspec.Raw
_object = msgspec.json.Decoder(dict[str, Any]).decode


# Writes.


def encode_write(
    head: dict[str, Any],
    datas: Sequence[bytes],
    metas: Column = None,
    tags: Column = None,
    nodes: Column = None,
) -> bytes:
    """The body of a write. None and empty mean absent, as a column and as an element."""
    return b"".join([*_opening(_encode(head), len(datas)), *_records(datas, metas, tags, nodes)])


def _opening(head: bytes, count: int) -> tuple[bytes, bytes, bytes]:
    return _HEAD.pack(MAGIC, len(head)), head, _COUNT.pack(count)


def _records(
    datas: Sequence[bytes], metas: Column, tags: Column, nodes: Column
) -> list[bytes | bytearray]:
    pack = _RECORD.pack
    parts: list[bytes | bytearray] = []
    if metas is None and tags is None and nodes is None:
        for data in datas:
            parts += (pack(_u32(data), 0, 0, 0), data)
        return parts
    for i, data in enumerate(datas):
        meta = (metas[i] if metas else None) or b""
        tag = (tags[i] if tags else None) or b""
        node = (nodes[i] if nodes else None) or b""
        if max(len(tag), len(node)) > _U16_MAX:
            raise InvalidArgument(f"record {i}: a tag or node has more than {_U16_MAX} bytes")
        lengths = pack(_u32(data), _u32(meta), len(tag), len(node))
        parts += (lengths, tag, node, meta, data)
    return parts


def _u32(text: bytes) -> int:
    if len(text) > _U32_MAX:
        raise InvalidArgument(f"a text has {len(text)} bytes, at most {_U32_MAX} fit a record")
    return len(text)


def split_head(body: bytes | memoryview) -> tuple[bytes, int, int]:
    """(the head's JSON text, where the records begin, how many are announced)."""
    if len(body) < _HEAD.size:
        raise InvalidArgument(
            f"the binary batch has {len(body)} bytes, at least {_HEAD.size} are expected"
        )
    magic, size = _HEAD.unpack_from(body)
    if magic != MAGIC:
        raise InvalidArgument("not a binary batch: it does not begin with PSB1")
    end = _HEAD.size + size
    if size > HEAD_BYTES_MAX or end + _COUNT.size > len(body):
        raise InvalidArgument(
            f"the head of the binary batch has {size} bytes, more than the body or than "
            f"{HEAD_BYTES_MAX}"
        )
    return bytes(body[_HEAD.size : end]), end + _COUNT.size, _COUNT.unpack_from(body, end)[0]


def _decoded(head: bytes) -> dict[str, Any]:
    try:
        return _object(head)
    except BAD_JSON as error:
        raise InvalidArgument(
            f"the head of the binary batch is not a JSON object: {error}"
        ) from None


def split_records(buf: bytes, offset: int, count: int) -> Split:
    """The `count` records that fill buf[offset:]: (datas, metas, tags, nodes). A column without any
    text is None."""
    datas, metas, tags, nodes, end = kernel.split_records(buf, offset, count)
    if end < 0:
        _raise_short(-1 - end)
    if end != len(buf):
        raise InvalidArgument(f"{len(buf) - end} bytes follow the last record of the binary batch")
    return datas, metas, tags, nodes


def _raise_short(i: int) -> NoReturn:
    raise InvalidArgument(f"the binary batch ends inside record {i}")


# Pages.


def encode_page(head: bytes | dict[str, Any], frames: bytes | memoryview, count: int) -> bytes:
    """The answer to a read: `frames` are `count` Append frames as the log holds them."""
    text = head if isinstance(head, bytes) else _encode(head)
    return b"".join([*_opening(text, count), frames])


def decode_page(body: bytes, source: str = "a binary page") -> tuple[dict[str, Any], list[Record]]:
    """(head, records), every frame verified. `source` says in an error where it came from."""
    head, array, _ = project_page(body, TAG | META | DATA, source)
    try:
        return head, decode_records(array)
    except (*BAD_JSON, ValueError, TypeError) as error:
        raise CorruptFrame(source, reason=f"a record of the page is not JSON: {error}") from None


def project_page(
    body: bytes, options: int, source: str = "a binary page"
) -> tuple[dict[str, Any], bytes, int]:
    """(head, the records as a JSON array, how many), every frame verified."""
    try:
        text, start, count = split_head(body)
        head = _decoded(text)
    except InvalidArgument as error:
        raise CorruptFrame(source, reason=str(error)) from None
    offsets = _verified(body, start, count, source)
    array, shown, at, status = kernel.project(
        body,
        offsets,
        4,
        0,
        count,
        None,
        None,
        max(count, 1),
        _U32_MAX,
        options | show.ARRAY,
        0,
        0,
    )
    if status or shown != count:
        why = _WHY.get(status, "it holds no record")
        raise CorruptFrame(source, reason=f"record {at} of the page: {why}", offset=start)
    return head, array, count


def columns_page(
    body: bytes, columns: int, seq_max: int, source: str = "a binary page"
) -> tuple[dict[str, Any], Columns]:
    """(head, its records up to `seq_max` column by column), every frame verified."""
    try:
        text, start, count = split_head(body)
        head = _decoded(text)
    except InvalidArgument as error:
        raise CorruptFrame(source, reason=str(error)) from None
    offsets = _verified(body, start, count, source)
    found, at, status = _columns(body, offsets, count, columns)
    if status or found.count != count:
        why = _WHY.get(status, "it holds no record")
        raise CorruptFrame(source, reason=f"record {at} of the page: {why}", offset=start)
    most = bisect_right(memoryview(found.seqs).cast("Q"), seq_max)
    if most < count:
        found, _, _ = _columns(body, offsets, most, columns)
    return head, found


def _columns(body: bytes, offsets: bytes, count: int, columns: int) -> tuple[Columns, int, int]:
    return columns_of(
        body, offsets, 4, 0, count, None, count, _U32_MAX, columns, first_seq=0, topic_id=0
    )


def _verified(body: bytes, start: int, count: int, source: str) -> bytes:
    """Where each of exactly `count` Append frames begins, as u32."""
    items, stop, reason = kernel.scan(body, start, len(body))
    if reason or stop != len(body):
        why = _WHY.get(reason, "zeros stand where a frame should be")
        raise CorruptFrame(source, reason=f"a frame of the page is bad: {why}", offset=stop)
    found = sum(item[6] for item in items)
    if found != count or any(item[0] != _APPEND for item in items):
        raise CorruptFrame(source, reason=f"{found} frames where {count} records should be")
    return b"".join(kernel.shift_offsets(item[8], item[4]) for item in items)
