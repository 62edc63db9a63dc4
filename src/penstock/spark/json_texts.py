"""Encodes columns of any type as JSON texts, a batch at a time, with Arrow instead of Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import InvalidArgument

TEXT: Final = pa.large_string()
_encode = msgspec.json.Encoder(decimal_format="number").encode
_QUOTE: Final = '"'
_SPECIAL: Final = bytes(range(32)) + b'"\\'
_SHORT: Final = {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
# A piece is a constant text or a column.
Piece: TypeAlias = str | Any


def objects(names: Sequence[str], columns: Sequence[pa.Array]) -> pa.Array:
    """One JSON object for each row. A null becomes `null`, and so does NaN or an infinity."""
    if not names:
        return pa.repeat(pa.scalar("{}", TEXT), len(columns[0]) if columns else 0)
    pieces: list[Piece] = []
    for at, (name, column) in enumerate(zip(names, columns, strict=True)):
        pieces.append(("{" if at == 0 else ",") + _encode(name).decode() + ":")
        pieces += _pieces(name, column)
    return _joined([*pieces, "}"])


def texts(name: str, column: pa.Array) -> pa.Array:
    """Each value of one column as JSON."""
    return _joined(_pieces(name, column))


def _joined(pieces: Sequence[Piece]) -> pa.Array:
    merged: list[Any] = []
    for piece in pieces:
        if isinstance(piece, str) and merged and isinstance(merged[-1], str):
            merged[-1] += piece
        else:
            merged.append(piece)
    if len(merged) == 1 and not isinstance(merged[0], str):
        return merged[0]
    operands = [pa.scalar(one, TEXT) if isinstance(one, str) else one for one in merged]
    return pc.binary_join_element_wise(*operands, pa.scalar("", TEXT))


def _pieces(name: str, column: pa.Array) -> list[Piece]:
    """The pieces to join for one column. They have no nulls."""
    kind = column.type
    if isinstance(kind, pa.ExtensionType):
        return _pieces(name, column.storage)
    if pa.types.is_null(kind):
        return [pa.repeat(pa.scalar("null", TEXT), len(column))]
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return [_or_null(pc.cast(column, TEXT))]
    if pa.types.is_floating(kind):
        finite = pc.if_else(pc.is_finite(column), column, pa.scalar(None, kind))
        return [_or_null(pc.cast(finite, TEXT))]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _quoted(_escaped(pc.cast(column, TEXT)))
    if pa.types.is_date(kind):
        return _quoted(pc.cast(column, TEXT))
    if pa.types.is_timestamp(kind):
        return _quoted(_timestamps(column))
    if pa.types.is_struct(kind):
        inner = objects([field.name for field in kind], column.flatten())
        return [_masked(inner, column)]
    return [_one_by_one(name, column)]


def _or_null(column: pa.Array) -> pa.Array:
    return pc.fill_null(column, "null") if column.null_count else column


def _quoted(column: pa.Array) -> list[Piece]:
    if not column.null_count:
        return [_QUOTE, column, _QUOTE]
    return [_or_null(_joined([_QUOTE, column, _QUOTE]))]


def _masked(column: pa.Array, like: pa.Array) -> pa.Array:
    if not like.null_count:
        return column
    return pc.if_else(pc.is_valid(like), column, pa.scalar("null", TEXT))


def _escaped(column: pa.Array) -> pa.Array:
    """The texts with JSON escapes. Most columns need none, which one pass over the bytes shows."""
    data = _bytes_of(column)
    if len(data.translate(None, _SPECIAL)) == len(data):
        return column
    if b"\\" in data:
        column = pc.replace_substring(column, "\\", "\\\\")
    if b'"' in data:
        column = pc.replace_substring(column, '"', '\\"')
    for code in sorted(set(data) & set(range(32))):
        sign = chr(code)
        column = pc.replace_substring(column, sign, _SHORT.get(sign, f"\\u{code:04x}"))
    return column


def _bytes_of(column: pa.Array) -> bytes:
    """The bytes of all texts of a column, concatenated."""
    if not len(column):
        return b""
    _, ends, data = column.buffers()
    if data is None:
        return b""
    offsets = memoryview(ends).cast("q")
    first, last = offsets[column.offset], offsets[column.offset + len(column)]
    return bytes(memoryview(data)[first:last])


def _timestamps(column: pa.Array) -> pa.Array:
    """ISO 8601, with Z where the zone is known, in microseconds."""
    kind = column.type
    plain = pc.cast(column, pa.timestamp("us", "UTC" if kind.tz else None), safe=False)
    return pc.replace_substring(pc.cast(plain, TEXT), " ", "T")


def _one_by_one(name: str, column: pa.Array) -> pa.Array:
    """Encode lists, maps, bytes and rare types in Python."""
    try:
        values = column.to_pylist(maps_as_pydicts="strict")
        return pa.array([_encode(value).decode() for value in values], TEXT)
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        raise InvalidArgument(
            f"column {name} ({column.type}) cannot be written as JSON: {error}"
        ) from None
