"""The types of columns: from bytes to values that JSON keeps exactly. One function a type, each
for a whole column; None is null. docs/compat.md has the same as a table."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from penstock.compat.qwp import gorilla, symbol_dictionary
from penstock.compat.qwp.byte_reader import ByteReader, QwpError, utf8

TIMESTAMP_US: Final = 0x0A
TIMESTAMP_NS: Final = 0x10
_DIMENSIONS_MAX: Final = 32
_SCALE_MAX: Final = 76
_GEOHASH_BITS_MAX: Final = 60
_GEOHASH: Final = "0123456789bcdefghjkmnpqrstuvwxyz"
_LONG_NULL: Final = -(1 << 63)
_INT_NULL: Final = -(1 << 31)
_WORD_NULL: Final = bytes(7) + b"\x80"
_SURROGATES: Final = range(0xD800, 0xE000)

Values = Sequence[Any]


class Context(NamedTuple):
    """The part of a message that a column needs."""

    symbols: Sequence[str] | None  # None: each column brings its own
    is_gorilla: bool


Decode = Callable[[ByteReader, int, bool, Context], Values]
"""(reader, number of values, whether sentinels mean null, message)"""


def decode(kind: int, reader: ByteReader, rows: int, context: Context) -> Values:
    """One column: a value for each row."""
    read = _KINDS.get(kind)
    if read is None:
        raise QwpError(f"invalid column type code {kind:#04x}")
    if not reader.byte():
        return read(reader, rows, True, context)
    nulls = reader.bits(rows)
    values = iter(read(reader, rows - sum(nulls), False, context))
    return [None if is_null else next(values) for is_null in nulls]


# Numbers.


def _booleans(reader: ByteReader, count: int, has_nulls: bool, context: Context) -> Values:
    return reader.bits(count)


def _integers(code: str, size: int, null: int | None) -> Decode:
    def read(reader: ByteReader, count: int, has_nulls: bool, context: Context) -> Values:
        values = reader.numbers(code, size, count)
        return _without(values, null) if has_nulls and null is not None else values

    return read


def _without(values: Values, null: int) -> Values:
    if null not in values:
        return values
    return [None if value == null else value for value in values]


def _floats(code: str, size: int) -> Decode:
    def read(reader: ByteReader, count: int, has_nulls: bool, context: Context) -> Values:
        return _finite(reader.numbers(code, size, count))

    return read


def _finite(values: Values) -> Values:
    """JSON has no NaN, which is null here anyway, and no infinity, which becomes a text."""
    if math.isfinite(sum(values)):  # then each of them is
        return values
    return [value if math.isfinite(value) else _not_finite(value) for value in values]


def _not_finite(value: float) -> str | None:
    if math.isnan(value):
        return None
    return "Infinity" if value > 0 else "-Infinity"


def _decimals(size: int) -> Decode:
    null = -(1 << (8 * size - 1))

    def read(reader: ByteReader, count: int, has_nulls: bool, context: Context) -> Values:
        scale = reader.byte()
        if scale > _SCALE_MAX:
            raise QwpError(f"a decimal has {scale} digits behind the point, at most {_SCALE_MAX}")
        numbers = [int.from_bytes(one, "little", signed=True) for one in _cut(reader, size, count)]
        return [
            None if has_nulls and number == null else _decimal(number, scale) for number in numbers
        ]

    return read


def _decimal(number: int, scale: int) -> str:
    sign = "-" if number < 0 else ""
    if not scale:
        return f"{number}"
    digits = f"{abs(number)}".zfill(scale + 1)
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}"


# Times, all as whole nanoseconds since 1970.


def _times(factor: int, *, may_be_gorilla: bool) -> Decode:
    def read(reader: ByteReader, count: int, has_nulls: bool, context: Context) -> Values:
        values: Values
        if may_be_gorilla and context.is_gorilla and _is_packed(reader):
            values = gorilla.decode(reader, count)
        else:
            values = reader.numbers("q", 8, count)
        if has_nulls and _LONG_NULL in values:
            return [None if value == _LONG_NULL else value * factor for value in values]
        return values if factor == 1 else [value * factor for value in values]

    return read


def _is_packed(reader: ByteReader) -> bool:
    encoding = reader.byte()
    if encoding > 1:
        raise QwpError(f"unknown timestamp encoding {encoding}")
    return encoding == 1


# Texts.


def _symbols(reader: ByteReader, count: int, has_nulls: bool, context: Context) -> Values:
    known = context.symbols
    if known is None:
        known = symbol_dictionary.read_column_dictionary(reader)
    return symbol_dictionary.resolve(reader.varints(count), known)


def _pieces(reader: ByteReader, count: int) -> tuple[bytes, Sequence[int]]:
    """(all bytes of a column, where each value begins and the last ends)"""
    offsets = reader.numbers("I", 4, count + 1)
    if offsets[0] or sorted(offsets) != list(offsets):
        raise QwpError("offsets of a column do not rise from 0")
    return reader.take(offsets[-1]), offsets


def _varchars(reader: ByteReader, count: int, has_nulls: bool, context: Context) -> Values:
    data, offsets = _pieces(reader, count)
    ends = itertools.pairwise(offsets)
    if data.isascii():
        text = data.decode("ascii")
        return [text[start:stop] for start, stop in ends]
    return [utf8(data[start:stop], "text") for start, stop in ends]


def _binaries(reader: ByteReader, count: int, has_nulls: bool, context: Context) -> Values:
    """Bytes: the encoder writes them as base64."""
    data, offsets = _pieces(reader, count)
    return [data[start:stop] for start, stop in itertools.pairwise(offsets)]


def _chars(reader: ByteReader, count: int, has_nulls: bool, context: Context) -> Values:
    """JSON in UTF-8 has no text for half of a surrogate pair, so that is a number."""
    units = reader.numbers("H", 2, count)
    return [unit if unit in _SURROGATES else chr(unit) for unit in units]


# Everything else becomes a text, too.


def _cut(reader: ByteReader, size: int, count: int) -> list[bytes]:
    data = reader.take(size * count)
    return [data[at : at + size] for at in range(0, len(data), size)]


def _uuids(reader: ByteReader, count: int, has_nulls: bool, context: Context) -> Values:
    null = _WORD_NULL * 2 if has_nulls else None
    return [None if one == null else _uuid(one) for one in _cut(reader, 16, count)]


def _uuid(data: bytes) -> str:
    text = data[::-1].hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _long256s(reader: ByteReader, count: int, has_nulls: bool, context: Context) -> Values:
    null = _WORD_NULL * 4 if has_nulls else None
    return [
        None if one == null else f"{int.from_bytes(one, 'little'):#x}"
        for one in _cut(reader, 32, count)
    ]


def _ipv4s(reader: ByteReader, count: int, has_nulls: bool, context: Context) -> Values:
    values = reader.numbers("I", 4, count)
    return [_ipv4(value) if value or not has_nulls else None for value in values]


def _ipv4(value: int) -> str:
    return f"{value >> 24}.{value >> 16 & 255}.{value >> 8 & 255}.{value & 255}"


def _geohashes(reader: ByteReader, count: int, has_nulls: bool, context: Context) -> Values:
    bits = reader.varint()
    if not 1 <= bits <= _GEOHASH_BITS_MAX:
        raise QwpError(f"a geohash has 1 to {_GEOHASH_BITS_MAX} bits, not {bits}")
    size = (bits + 7) // 8
    null = b"\xff" * size if has_nulls else None
    return [None if one == null else _geohash(one, bits) for one in _cut(reader, size, count)]


def _geohash(data: bytes, bits: int) -> str:
    """Letters of five bits each; as bits after ## when they do not come out even."""
    value = int.from_bytes(data, "little") & ((1 << bits) - 1)
    if bits % 5:
        return f"##{value:0{bits}b}"
    return "".join(_GEOHASH[value >> at & 31] for at in range(bits - 5, -1, -5))


def _arrays(code: str, null: int | None) -> Decode:
    def read(reader: ByteReader, count: int, has_nulls: bool, context: Context) -> Values:
        return [_array(reader, code, null) for _ in range(count)]

    return read


def _array(reader: ByteReader, code: str, null: int | None) -> list[Any]:
    """Nested lists. Without any element it is an empty one, whatever its shape."""
    count = reader.byte()
    if not 1 <= count <= _DIMENSIONS_MAX:
        raise QwpError(f"an array has 1 to {_DIMENSIONS_MAX} dimensions, not {count}")
    shape = reader.numbers("i", 4, count)
    if min(shape) < 0:
        raise QwpError("a dimension of an array is negative")
    total = math.prod(shape)
    if not total:
        return []
    values = reader.numbers(code, 8, total)
    found: Values = _finite(values) if null is None else _without(values, null)
    for length in shape[:0:-1]:
        found = [list(found[at : at + length]) for at in range(0, len(found), length)]
    return list(found)


_KINDS: Final[dict[int, Decode]] = {
    0x01: _booleans,
    0x02: _integers("b", 1, None),
    0x03: _integers("h", 2, None),
    0x04: _integers("i", 4, _INT_NULL),
    0x05: _integers("q", 8, _LONG_NULL),
    0x06: _floats("f", 4),
    0x07: _floats("d", 8),
    0x09: _symbols,
    TIMESTAMP_US: _times(1_000, may_be_gorilla=True),
    0x0B: _times(1_000_000, may_be_gorilla=False),
    0x0C: _uuids,
    0x0D: _long256s,
    0x0E: _geohashes,
    0x0F: _varchars,
    TIMESTAMP_NS: _times(1, may_be_gorilla=True),
    0x11: _arrays("d", None),
    0x12: _arrays("q", _LONG_NULL),
    0x13: _decimals(8),
    0x14: _decimals(16),
    0x15: _decimals(32),
    0x16: _chars,
    0x17: _binaries,
    0x18: _ipv4s,
}
