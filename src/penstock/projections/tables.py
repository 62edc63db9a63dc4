"""Keyed tables: the newest record of each key of a topic, in memory.

A record sets the row of its key. It deletes the row when its data is null or its meta has
`"deleted": true`. A record without a usable key is counted and changes nothing.
"""

from __future__ import annotations

import itertools
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from penstock.codec.columns import DATA, META, NODE, TAG, Columns, Text
from penstock.projections import table_keys
from penstock.projections.table_keys import KeySource
from penstock.types import Gap

KIND: Final = "table"
VERSION: Final = 1
_STAMP = struct.Struct("<QQ")  # seq, ts; before the value of a row
_COUNTS = struct.Struct("<QQQ")  # rows, skipped, lost
_PART_ROWS = 8192
_ROW_OVERHEAD = 190  # two objects and their places in the table and in the order of the keys


class _Meta(msgspec.Struct):
    deleted: bool = False


_decode_meta = msgspec.json.Decoder(_Meta).decode


def definition_of(key: KeySource) -> bytes:
    """What decides the state of a table, besides its topic."""
    return msgspec.json.encode({"key": key.spelled})


@dataclass(frozen=True, slots=True)
class KeyedChange:
    """What one record does to a table. `value` is its JSON text; None: the row is deleted."""

    key: bytes
    value: bytes | None
    seq: int
    ts: int


class KeyedRecords:
    """Reads the changes of a table from records."""

    def __init__(self, key: KeySource) -> None:
        self._key = key
        self.wanted = DATA | META | TAG | (NODE if key.is_node else 0)

    def changes(self, columns: Columns) -> Iterator[KeyedChange | None]:
        """The change of each record, in their order; None for one without a usable key."""
        key = self._key
        count = columns.count
        seqs = struct.unpack(f"<{count}Q", columns.seqs)
        tss = struct.unpack(f"<{count}Q", columns.tss)
        tags = _texts(columns.tag, count)
        nodes = _texts(columns.node, count) if key.is_node else tags
        named = nodes if key.is_node else tags
        metas = _texts(columns.meta, count)
        for seq, ts, data, meta, name in zip(
            seqs, tss, _texts(columns.data, count), metas, named, strict=True
        ):
            is_null = data is None or data == b"null"
            is_deleted = is_null or (meta is not None and b'"deleted"' in meta and _deletes(meta))
            if key.field and not is_null and data is not None:
                packed = key.of_data(data)
            else:  # without data, the tag says whose row is deleted
                packed = None if name is None else table_keys.packed_text(name)
            if packed is None:
                yield None
            else:
                yield KeyedChange(packed, None if is_deleted else data, seq, ts)


def _deletes(meta: bytes) -> bool:
    try:
        return _decode_meta(meta).deleted
    except (msgspec.ValidationError, msgspec.DecodeError):
        return False


def _texts(column: Text | None, count: int) -> Sequence[bytes | None]:
    if column is None:
        return [None] * count
    packed, joined, bits = column
    ends = struct.unpack(f"<{count + 1}I", packed)
    return [
        joined[start:end] if bits[index >> 3] >> (index & 7) & 1 else None
        for index, (start, end) in enumerate(itertools.pairwise(ends))
    ]


@dataclass(frozen=True, slots=True)
class StoredValue:
    key: bytes
    value: bytes  # JSON text
    seq: int
    ts: int


class TableState:
    """The rows of one table: a `Projection`. One thread at a time."""

    kind = KIND
    version = VERSION

    def __init__(self, key: KeySource) -> None:
        self.definition = definition_of(key)
        self._records = KeyedRecords(key)
        self.wanted = self._records.wanted
        self._rows: dict[bytes, bytes] = {}  # seq, ts and the value by key
        self._row_bytes = 0
        self._order: list[bytes] = []  # the keys at the last scan, sorted
        self._new: list[bytes] = []  # keys since then; one may occur twice, or be in both
        self._stale = 0  # keys of both lists that may have no row
        self.skipped = 0
        self.lost = 0

    def apply(self, columns: Columns) -> None:
        rows = self._rows
        for change in self._records.changes(columns):
            if change is None:
                self.skipped += 1
                continue
            key, value = change.key, change.value
            old = rows.pop(key, None) if value is None else rows.get(key)
            if old is not None:
                self._row_bytes -= len(key) + len(old)
            if value is None:
                self._stale += old is not None
                continue
            if old is None:
                self._new.append(key)
            row = _STAMP.pack(change.seq, change.ts) + value
            rows[key] = row
            self._row_bytes += len(key) + len(row)
        if self._stale + len(self._new) > 2 * len(rows) + _PART_ROWS:
            self._sort()  # nobody scans: keys that come and go do not pile up

    def lose(self, gap: Gap) -> None:
        self.lost += gap.last - gap.first + 1

    # Saving.

    def snapshot(self) -> Iterator[bytes]:
        """One part with counts, then some thousand rows each. Rows are immutable: what is copied
        here is the list of them."""
        head = _COUNTS.pack(len(self._rows), self.skipped, self.lost)
        return itertools.chain([head], _parts(list(self._rows.items())))

    def restore(self, parts: Iterable[memoryview]) -> None:
        found = iter(parts)
        head = next(found, None)
        if head is None or len(head) != _COUNTS.size:
            raise ValueError("the counts are missing")
        count, self.skipped, self.lost = _COUNTS.unpack(head)
        for part in found:
            self._rows.update(_rows_of(part))
        if len(self._rows) != count:
            raise ValueError(f"it has {len(self._rows)} rows instead of {count}")
        self._row_bytes = sum(len(key) + len(row) for key, row in self._rows.items())
        self._new = list(self._rows)

    # Reading.

    def get(self, key: bytes) -> StoredValue | None:
        row = self._rows.get(key)
        return None if row is None else _stored(key, row)

    def scan(
        self, prefix: bytes, after: bytes | None, limit: int, bytes_max: int
    ) -> tuple[list[StoredValue], bool]:
        """Rows of keys that begin with `prefix` and are past `after`, in the order of the keys:
        (them, whether there are more). At least one, whatever its bytes."""
        self._sort()
        start = bisect_left(self._order, prefix)
        if after is not None:
            start = max(start, bisect_right(self._order, after))
        found: list[StoredValue] = []
        size = 0
        for at in range(start, len(self._order)):
            key = self._order[at]
            if not key.startswith(prefix):
                break
            row = self._rows.get(key)
            if row is None:
                continue
            if len(found) == limit or (found and size + len(row) > bytes_max):
                return found, True
            found.append(_stored(key, row))
            size += len(row)
        return found, False

    def _sort(self) -> None:
        """Bring the order up to date. Cheap when few keys are new: both runs are sorted then."""
        if not self._new and self._stale * 2 <= len(self._rows):
            return
        self._new.sort()
        merged = self._order + self._new
        merged.sort()
        rows = self._rows
        self._order = [
            key
            for key, before in zip(merged, itertools.chain([b""], merged), strict=False)
            if key != before and key in rows
        ]
        self._new, self._stale = [], 0

    @property
    def count(self) -> int:
        return len(self._rows)

    @property
    def bytes(self) -> int:
        return self._row_bytes + len(self._rows) * _ROW_OVERHEAD + len(self._new) * 8


def _stored(key: bytes, row: bytes) -> StoredValue:
    seq, ts = _STAMP.unpack_from(row)
    return StoredValue(key, row[_STAMP.size :], seq, ts)


def _parts(items: list[tuple[bytes, bytes]]) -> Iterator[bytes]:
    for start in range(0, len(items), _PART_ROWS):
        some = items[start : start + _PART_ROWS]
        count = len(some)
        keys, rows = [key for key, _ in some], [row for _, row in some]
        yield b"".join(
            (
                struct.pack("<I", count),
                struct.pack(f"<{count}I", *map(len, keys)),
                struct.pack(f"<{count}I", *map(len, rows)),
                *keys,
                *rows,
            )
        )


def _rows_of(part: memoryview) -> Iterator[tuple[bytes, bytes]]:
    data = bytes(part)
    (count,) = struct.unpack_from("<I", data)
    key_bytes = struct.unpack_from(f"<{count}I", data, 4)
    row_bytes = struct.unpack_from(f"<{count}I", data, 4 + 4 * count)
    start = 4 + 8 * count
    middle = start + sum(key_bytes)
    if middle + sum(row_bytes) != len(data):
        raise ValueError("the lengths of its rows do not add up")
    for key_length, row_length in zip(key_bytes, row_bytes, strict=True):
        yield data[start : start + key_length], data[middle : middle + row_length]
        start += key_length
        middle += row_length
