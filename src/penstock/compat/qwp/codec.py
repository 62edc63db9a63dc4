"""A QWP message: from its bytes to tables of rows, each a JSON text. No sockets, no log.

Columns are decoded as a whole and joined to rows at the end. A connection has one decoder,
which keeps the `symbol_dictionary` of its messages.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from penstock import limits
from penstock.compat.qwp import columns
from penstock.compat.qwp.byte_reader import ByteReader, QwpError, QwpStatus
from penstock.compat.qwp.columns import Context, Values
from penstock.compat.qwp.symbol_dictionary import SymbolDictionary

VERSION: Final = 1
MESSAGE_BYTES_MAX: Final = 16 * limits.MIB
NAME_BYTES_MAX: Final = 127
TABLES_MAX: Final = 10_000  # of a connection
ROWS_MAX: Final = 1_000_000  # of a table in a message
COLUMNS_MAX: Final = 2048
CELLS_MAX: Final = 1 << 23  # of a message: nulls and booleans are much larger here than there
TEXT_BYTES_MAX: Final = limits.BATCH_BYTES_MAX  # of a message's rows as JSON

_HEADER: Final = struct.Struct("<4sBBHI")
_DEFERRED: Final = 0x01
_GORILLA: Final = 0x04
_DELTA: Final = 0x08
_FLAGS: Final = _DEFERRED | 0x02 | _GORILLA | _DELTA  # 0x02 is reserved and means nothing
_SYMBOL: Final = 0x09
_DESIGNATED: Final = "timestamp"
_STEP_BYTES: Final = 4 * limits.MIB
_NUMBER_BYTES: Final = 32  # and punctuation
_encode = msgspec.json.Encoder().encode


class QwpTable(NamedTuple):
    """Rows for one topic. They are timed when the client gave each row its own timestamp."""

    name: str
    rows: list[bytes]
    is_timed: bool


class Message(NamedTuple):
    """Deferred ones wait for the first that is not."""

    tables: list[QwpTable]
    is_deferred: bool


class QwpDecoder:
    """The decoder of one connection. After a QwpError the connection cannot be used any more."""

    def __init__(self) -> None:
        self._symbols = SymbolDictionary()
        self._tables: set[str] = set()

    def decode(self, data: bytes) -> Message:
        if len(data) < _HEADER.size:
            raise QwpError(f"a message has at least {_HEADER.size} bytes, not {len(data)}")
        magic, version, flags, count, size = _HEADER.unpack_from(data)
        if magic != b"QWP1":
            raise QwpError("invalid magic")
        if version != VERSION:
            raise QwpError(f"version {version} is not supported")
        if flags & ~_FLAGS:
            raise QwpError(f"unknown flags {flags:#04x}")
        if size > len(data) - _HEADER.size:
            raise QwpError("the message is cut short: its payload is incomplete")
        reader = ByteReader(data, _HEADER.size, _HEADER.size + size)
        if flags & _DELTA:
            self._symbols.learn(reader)
        context = Context(self._symbols.texts if flags & _DELTA else None, bool(flags & _GORILLA))
        budget = Budget()
        tables = [self._table(reader, context, budget) for _ in range(count)]
        if reader.left:
            raise QwpError(f"{reader.left} bytes follow the last table")
        return Message(tables, bool(flags & _DEFERRED))

    def _table(self, reader: ByteReader, context: Context, budget: Budget) -> QwpTable:
        name = reader.text("table name", NAME_BYTES_MAX)
        if not name:
            raise QwpError("a table has no name")
        self._tables.add(name)
        if len(self._tables) > TABLES_MAX:
            raise QwpError(f"more than {TABLES_MAX} tables on one connection")
        count, width = reader.varint(), reader.varint()
        if count > ROWS_MAX:
            raise QwpError(f"{count} rows in a table, at most {ROWS_MAX} are allowed")
        if width > COLUMNS_MAX:
            raise QwpError(f"{width} columns in a table, at most {COLUMNS_MAX} are allowed")
        budget.spend_cells(count * max(width, 1))
        schema = [(_column_name(reader), reader.byte()) for _ in range(width)]
        found: dict[str, Values] = {}  # of two columns with one name the second counts
        row_bytes = 2
        times: Values | None = None
        for title, kind in schema:
            values = columns.decode(kind, reader, count, context)
            row_bytes += len(title) + _NUMBER_BYTES
            if kind == _SYMBOL:
                row_bytes += max(map(len, filter(None, values)), default=0)
            if title:
                found[title] = values
            elif kind not in (columns.TIMESTAMP_US, columns.TIMESTAMP_NS):
                raise QwpError("a column has no name")
            elif times is not None:
                raise QwpError("a table has two designated timestamps")
            else:
                times = values
        if times is not None:
            found[_DESIGNATED] = times
        is_timed = times is not None and None not in times
        return QwpTable(name, _rows(found, count, row_bytes, budget), is_timed)


class Budget:
    """Limits the decoded size of one message: a small message can become very large."""

    def __init__(self) -> None:
        self._cells = CELLS_MAX
        self._text = TEXT_BYTES_MAX

    def spend_cells(self, count: int) -> None:
        self._cells -= count
        if self._cells < 0:
            raise QwpError(f"rows times columns is more than {CELLS_MAX}")

    def spend_text(self, size: int) -> None:
        self._text -= size
        if self._text < 0:
            raise QwpError(f"the rows as JSON have more than {TEXT_BYTES_MAX} bytes")


def _column_name(reader: ByteReader) -> str:
    name = reader.text("column name", NAME_BYTES_MAX)
    if not _is_plain(name):
        raise QwpError(f"illegal column name {name!r}", QwpStatus.SCHEMA)
    return name


@lru_cache(4096)
def _is_plain(name: str) -> bool:
    """True if the name needs no escaping in JSON."""
    return '"' not in name and "\\" not in name and all(letter >= " " for letter in name)


def _rows(found: dict[str, Values], count: int, row_bytes: int, budget: Budget) -> list[bytes]:
    """One object per row, without its nulls."""
    if not found:
        budget.spend_text(2 * count)
        return [b"{}"] * count
    if row_bytes > TEXT_BYTES_MAX:
        raise QwpError(f"a row may have {row_bytes} bytes as JSON")
    make = _row_type(tuple(found))
    step = max(1, _STEP_BYTES // row_bytes)
    rows: list[bytes] = []
    for start in range(0, count, step):
        part = [values[start : start + step] for values in found.values()]
        texts = list(map(_encode, map(make, *part)))
        budget.spend_text(sum(map(len, texts)))
        rows += texts
    return rows


@lru_cache(256)
def _row_type(names: tuple[str, ...]) -> Any:
    """A struct with these fields, whose nulls are left out: the quickest way to many objects."""
    inner = {f"f{number}": name for number, name in enumerate(names)}
    fields = [(name, Any, None) for name in inner]
    return msgspec.defstruct("Row", fields, omit_defaults=True, rename=inner)
