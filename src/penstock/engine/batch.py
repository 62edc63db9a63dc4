"""From what a caller hands over to JSON texts ready for frames. Pure; nothing is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from penstock import limits
from penstock.codec import kernel
from penstock.errors import BatchTooLarge, InvalidArgument, RecordTooLarge
from penstock.topics.names import short_text
from penstock.types import Record

_encode = msgspec.json.Encoder().encode
_RAW = msgspec.json.Decoder(msgspec.Raw)
_RAW_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


@dataclass(frozen=True, slots=True)
class Batch:
    """Checked records. Lists are None when no record differs from the defaults."""

    datas: list[bytes]
    metas: list[bytes | None] | None
    tags: list[bytes | None] | None
    nodes: list[bytes | None] | None
    tag: bytes | None
    node: bytes | None
    key: bytes

    @property
    def count(self) -> int:
        return len(self.datas)


def prepare(
    records: Sequence[Any], *, tag: str | None, node: str | None, key: str | None
) -> Batch:
    """Check everything a caller can get wrong. `bytes` are JSON texts and kept as they are."""
    if isinstance(records, (str, bytes, dict, Record)) or not isinstance(records, Sequence):
        raise InvalidArgument("records must be a list of payloads or Record values")
    if not records:
        raise InvalidArgument("records must not be empty")
    if len(records) > limits.BATCH_RECORDS_MAX:
        raise BatchTooLarge(
            f"{len(records)} records in one append, at most {limits.BATCH_RECORDS_MAX} are allowed"
        )
    tag_bytes = None if tag is None else short_text("tag", tag, limits.TAG_BYTES_MAX)
    node_bytes = None if node is None else short_text("node", node, limits.NODE_BYTES_MAX)
    key_bytes = b"" if key is None else short_text("idempotency key", key, limits.KEY_BYTES_MAX)
    if type(records[0]) is bytes and set(map(type, records)) == {bytes}:
        datas = list(records)
        _check_texts(datas)
        _check_sizes(datas, None)
        return Batch(datas, None, None, None, tag_bytes, node_bytes, key_bytes)
    return _prepare_mixed(records, tag_bytes, node_bytes, key_bytes)


def _prepare_mixed(
    records: Sequence[Any], tag: bytes | None, node: bytes | None, key: bytes
) -> Batch:
    datas: list[bytes] = []
    metas: list[bytes | None] = []
    tags: list[bytes | None] = []
    nodes: list[bytes | None] = []
    for record in records:
        if isinstance(record, Record):
            datas.append(_text(record.data))
            metas.append(None if record.meta is None else _meta(record.meta))
            tags.append(
                None if record.tag is None else short_text("tag", record.tag, limits.TAG_BYTES_MAX)
            )
            nodes.append(
                None
                if record.node is None
                else short_text("node", record.node, limits.NODE_BYTES_MAX)
            )
        else:
            datas.append(_text(record))
            metas.append(None)
            tags.append(None)
            nodes.append(None)
    _check_sizes(datas, metas)
    return Batch(
        datas,
        metas if any(metas) else None,
        tags if any(tags) else None,
        nodes if any(nodes) else None,
        tag,
        node,
        key,
    )


def _text(payload: Any) -> bytes:
    if isinstance(payload, bytes):
        _check_text(payload)
        return payload
    try:
        return _encode(payload)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidArgument(f"payload is not JSON-able: {error}") from None


def _meta(meta: Any) -> bytes:
    text = _text(meta)
    if len(text) > limits.META_BYTES_MAX:
        raise InvalidArgument(
            f"meta has {len(text)} bytes, at most {limits.META_BYTES_MAX} are allowed"
        )
    if text.lstrip()[:1] == b"{" and len(_OBJECT.decode(text)) > limits.META_KEYS_MAX:
        raise InvalidArgument(f"meta has more than {limits.META_KEYS_MAX} keys")
    return text


def _check_texts(texts: list[bytes]) -> None:
    """Validate many JSON texts with one call, as the elements of one array.

    Counting the elements is not enough: `1,2`, `[3` and `4]` make three of them. That every
    element is as long as its text shows that they begin and end at the same places.
    """
    joined = b",".join(texts)
    try:
        values = _RAW_ARRAY.decode(b"[" + joined + b"]")
    except msgspec.DecodeError:
        values = []
    if not _same_sizes(values, texts) or not _is_utf8(joined):
        for text in texts:
            _check_text(text)


def _check_text(text: bytes) -> None:
    try:
        _RAW.decode(text)
    except msgspec.DecodeError as error:
        raise InvalidArgument(f"payload is not valid JSON: {error}") from None
    if not _is_utf8(text):
        raise InvalidArgument("payload is not valid UTF-8")


def _is_utf8(text: bytes) -> bool:
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _check_sizes(datas: list[bytes], metas: list[bytes | None] | None) -> None:
    largest = max(map(len, datas))
    total = sum(map(len, datas))
    if metas is not None:
        sizes = [len(d) + len(m or b"") for d, m in zip(datas, metas, strict=True)]
        largest, total = max(sizes), sum(sizes)
    if largest > limits.RECORD_BYTES_MAX:
        raise RecordTooLarge(
            f"a record has {largest} bytes, at most {limits.RECORD_BYTES_MAX} are allowed"
        )
    if total > limits.BATCH_BYTES_MAX:
        raise BatchTooLarge(
            f"the batch has {total} bytes, at most {limits.BATCH_BYTES_MAX} are allowed"
        )


def _same_sizes(values: list[msgspec.Raw], texts: list[bytes]) -> bool:
    return [memoryview(value).nbytes for value in values] == list(map(len, texts))
