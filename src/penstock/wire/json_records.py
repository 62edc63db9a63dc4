"""Records between values and JSON texts: what a client sends, and what it makes of an answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from penstock import limits
from penstock.codec.json_text import SHALLOW_BYTES_MAX, check_depth, too_deep
from penstock.errors import BatchTooLarge, InvalidArgument
from penstock.types import Record

# What decoding bytes of others can raise. A key or text that is not UTF-8 has its own error.
BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_encode = msgspec.json.Encoder().encode
_raw = msgspec.json.Decoder(msgspec.Raw).decode
_records = msgspec.json.Decoder(list[Record]).decode
_raw_objects = msgspec.json.Decoder(list[msgspec.Raw]).decode


class TextColumns(msgspec.Struct, frozen=True):
    """Records as columns of texts. A column in which nothing occurs is None."""

    datas: list[bytes]
    metas: list[bytes | None] | None = None
    tags: list[bytes | None] | None = None
    nodes: list[bytes | None] | None = None


def columns(records: Sequence[Any], *, tag: str | None = None) -> TextColumns:
    """Texts of payloads and `Record` values. A record's own tag goes before the call's.

    Only what cannot be sent at all, or nests too deep, is refused here; the server knows the other
    limits.
    """
    if isinstance(records, (str, bytes, dict, Record)) or not isinstance(records, Sequence):
        raise InvalidArgument("records must be a list of payloads or Record values")
    if not records:
        raise InvalidArgument("records must not be empty")
    if len(records) > limits.BATCH_RECORDS_MAX:
        raise BatchTooLarge(
            f"{len(records)} records in one append, at most {limits.BATCH_RECORDS_MAX} are allowed"
        )
    all_tag = short("tag", tag)
    datas: list[bytes] = []
    metas: list[bytes | None] = []
    tags: list[bytes | None] = []
    nodes: list[bytes | None] = []
    for record in records:
        if isinstance(record, Record):
            datas.append(text(record.data))
            metas.append(None if record.meta is None else text(record.meta, "meta"))
            tags.append(all_tag if record.tag is None else short("tag", record.tag))
            nodes.append(short("node", record.node))
        else:
            datas.append(text(record))
            metas.append(None)
            tags.append(all_tag)
            nodes.append(None)
    check_depth(datas)
    check_depth(metas, "meta")
    return TextColumns(datas, *(column if any(column) else None for column in (metas, tags, nodes)))


def short(what: str, value: str | None) -> bytes | None:
    """A tag or node as UTF-8. An empty one would be taken for none, so it is refused."""
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise InvalidArgument(f"{what} must be text and not empty, not {value!r}")
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"{what} is not valid Unicode: {error.reason}") from None


def text(payload: Any, what: str = "payload") -> bytes:
    """The JSON text of a payload; `bytes` hold one already and are kept as they are. How deep a
    payload nests that had to be encoded is for the caller to check."""
    if isinstance(payload, bytes):
        if len(payload) > SHALLOW_BYTES_MAX:
            check_depth([payload], what)
        try:
            _raw(payload)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidArgument(f"{what} is not valid JSON: {error}") from None
        return payload
    try:
        return _encode(payload)
    except RecursionError:
        raise too_deep(what) from None
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgument(f"{what} cannot be encoded as JSON: {error}") from None


def objects(held: TextColumns) -> list[dict[str, Any]]:
    """The same records as the JSON form of a write spells them, texts kept as they are."""
    made: list[dict[str, Any]] = []
    for i, data in enumerate(held.datas):
        one: dict[str, Any] = {"data": msgspec.Raw(data)}
        if held.metas and (meta := held.metas[i]):
            one["meta"] = msgspec.Raw(meta)
        if held.tags and (tag := held.tags[i]):
            one["tag"] = tag.decode()
        if held.nodes and (node := held.nodes[i]):
            one["node"] = node.decode()
        made.append(one)
    return made


def decode_records(array: bytes) -> list[Record]:
    """Records of a JSON array as the kernel projects it, without dollars."""
    try:
        return _records(array)
    except msgspec.ValidationError:  # numbers that JSON allows and the fast decoder does not
        return [Record(**slow_object(one)) for one in _raw_objects(array)]


def slow_object(one: msgspec.Raw | bytes) -> dict[str, Any]:
    """Numbers beyond a float become infinite; integers too long for Python's limit, text."""
    try:
        found = json.loads(bytes(one), parse_int=_any_int)
    except ValueError as error:
        raise msgspec.DecodeError(str(error)) from None
    if not isinstance(found, dict):
        raise msgspec.ValidationError("expected an object")
    return found


def _any_int(digits: str) -> int | str:
    try:
        return int(digits)
    except ValueError:
        return digits
