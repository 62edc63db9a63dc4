"""The state of keys as records: of each key all of it, end to end, in words of 8 bytes.

A piece of state is the other form: of each member the rows of all keys. Records are read one by
one, in any order, and become a piece again. `docs/format/evicted.md` has the layout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.features.event_column import Int64s
from penstock.features.operators.row_lists import positions
from penstock.features.part_snapshot import Piece, packed, unpacked
from penstock.features.table_features import TableFeatures

Words = NDArray[np.uint64]
HEAD_WORDS: Final = 2  # checksum; bytes of the key and, in the upper half, words of the record
WORD_BYTES: Final = 8
_LOW_HALF: Final = np.uint64(0xFFFFFFFF)
_HALF_BITS: Final = np.uint64(32)
_SIZE_BYTES: Final = 4  # before each key of a piece
_SPARE: Final = 8  # unused bytes behind the last one
_NO_TIMES: Final = np.empty(0, np.int64)


class _Member(NamedTuple):
    """A member of what an operator saves."""

    name: str
    type: Any  # of numpy; None: a list of objects
    shape: tuple[int, ...]  # of one element
    has_lengths: bool  # not one element for each row


class RecordCodec:
    """Learns from the first piece that it encodes which members there are. One thread at a time."""

    def __init__(self, features: TableFeatures, *, has_times: bool) -> None:
        windows = {id(cells): number for number, cells in enumerate(features.cells.values())}
        self._windows = len(windows)
        self.has_times = has_times
        self._operators = {
            name: (None if state.cells is None else windows[id(state.cells)], state.operator)
            for name, state in features.states.items()
        }
        self._members: dict[str, list[_Member]] = {}

    def encode(self, piece: Piece) -> tuple[Words, Int64s]:
        """The records of all keys of a piece, one after the other, and where each begins; then the
        end. Their first word is 0: the checksum of the others belongs there."""
        sizes = piece["keys"]["sizes"].astype(np.int64)
        one = np.ones(len(sizes), np.int64)
        columns = _Columns(len(sizes))
        columns.add_keys(piece["keys"]["keys"], sizes)
        if self.has_times:
            columns.add(piece["keys"]["touched"], one)
        rows: dict[int | None, Int64s] = {None: one}
        for number in range(self._windows):
            cells = piece[f"cells {number}"]
            columns.add(cells["counts"], one)
            rows[number] = cells["counts"].astype(np.int64)
            columns.add(cells["starts"], rows[number])
        for name, (window, operator) in self._operators.items():
            saved = piece[f"feature {name}"]
            lengths = operator.lengths(saved)
            if name not in self._members:
                self._members[name] = _members_of(saved, lengths)
            for member in self._members[name]:
                counts = rows[window]
                if member.has_lengths:
                    counts = _sums(lengths[member.name], counts)
                columns.add(saved[member.name], counts)
        return columns.joined(sizes)

    def decode(self, words: Words, starts: Int64s) -> Piece:
        """The piece of these records, without slots."""
        sizes = (words[starts + 1] & _LOW_HALF).astype(np.int64)
        one = np.ones(len(starts), np.int64)
        cursor = _Cursor(words, starts + HEAD_WORDS)
        keys = cursor.take_keys(sizes)
        times = cursor.take(np.dtype(np.int64), (), one) if self.has_times else _NO_TIMES
        found: Piece = {"keys": {"sizes": sizes.astype(np.int32), "keys": keys, "touched": times}}
        rows: dict[int | None, Int64s] = {None: one}
        for number in range(self._windows):
            counts = cursor.take(np.dtype(np.int32), (), one)
            rows[number] = counts.astype(np.int64)
            begins = cursor.take(np.dtype(np.int64), (), rows[number])
            found[f"cells {number}"] = {"counts": counts, "starts": begins}
        for name, (window, operator) in self._operators.items():
            saved = found[f"feature {name}"] = {}
            lengths: Mapping[str, Int64s] = {}
            for member in self._members[name]:
                counts = rows[window]
                if member.has_lengths:
                    lengths = lengths or operator.lengths(saved)
                    counts = _sums(lengths[member.name], counts)
                saved[member.name] = cursor.take(member.type, member.shape, counts)
        return found


def key_of(record: bytes) -> bytes:
    """The key of a record."""
    size = int.from_bytes(record[WORD_BYTES : WORD_BYTES + _SIZE_BYTES], "little")
    at = HEAD_WORDS * WORD_BYTES
    return record[at : at + size]


def bytes_of(head: bytes) -> int:
    """How long a record is, by its first words."""
    return WORD_BYTES * int.from_bytes(head[WORD_BYTES + 4 : 2 * WORD_BYTES], "little")


def keys_of(sizes: NDArray[np.int32], keys: NDArray[np.uint8]) -> list[bytes]:
    """Each key of a piece."""
    joined = keys.tobytes()
    ends = np.cumsum(sizes + np.int64(_SIZE_BYTES))
    return [
        joined[end - size : end] for end, size in zip(ends.tolist(), sizes.tolist(), strict=True)
    ]


def ranges(starts: Int64s, counts: Int64s) -> Int64s:
    """start, start + 1, … for each, one after the other."""
    return positions(counts) + np.repeat(starts, counts)


def _members_of(saved: Mapping[str, Any], lengths: Mapping[str, Int64s]) -> list[_Member]:
    """Those with lengths come last: the others say what the lengths are."""
    members = [
        _Member(name, values.dtype, values.shape[1:], name in lengths)
        if isinstance(values, np.ndarray)
        else _Member(name, None, (), name in lengths)
        for name, values in saved.items()
    ]
    return sorted(members, key=lambda member: member.has_lengths)


def _sums(lengths: Int64s, counts: Int64s) -> Int64s:
    """The sum of the lengths of each key's rows."""
    totals = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=totals[1:])
    ends = np.cumsum(counts)
    found: Int64s = totals[ends] - totals[ends - counts]
    return found


def _words_for(size: Int64s) -> Int64s:
    return (size + (WORD_BYTES - 1)) // WORD_BYTES


class _Columns:
    """What the records of some keys will have, member by member."""

    def __init__(self, keys: int) -> None:
        self._columns: list[tuple[Words, Int64s]] = []
        self._totals = np.full(keys, HEAD_WORDS, np.int64)

    def _put(self, words: Words, counts: Int64s) -> None:
        self._columns.append((words, counts))
        self._totals += counts

    def add_keys(self, keys: NDArray[np.uint8], sizes: Int64s) -> None:
        counts = _words_for(sizes)
        padded = np.zeros(WORD_BYTES * int(counts.sum()), np.uint8)
        ends = np.cumsum(sizes + _SIZE_BYTES)
        padded[ranges(WORD_BYTES * (np.cumsum(counts) - counts), sizes)] = keys[
            ranges(ends - sizes, sizes)
        ]
        self._put(padded.view(np.uint64), counts)

    def add(self, values: Any, counts: Int64s) -> None:
        """`counts`: how many elements each key has."""
        if isinstance(values, np.ndarray):
            width = int(np.prod(values.shape[1:], dtype=np.int64))
            self._put(_as_words(values), counts * width)
        else:
            self._add_objects(values, counts)

    def _add_objects(self, values: Sequence[Any], counts: Int64s) -> None:
        texts: list[bytes] = []
        at = 0
        for count in counts.tolist():
            text = packed(values[at : at + count])
            texts += (
                len(text).to_bytes(WORD_BYTES, "little"),
                text,
                bytes(-len(text) % WORD_BYTES),
            )
            at += count
        sizes = np.fromiter(map(len, texts[1::3]), np.int64, len(counts))
        self._put(np.frombuffer(b"".join(texts), np.uint64), 1 + _words_for(sizes))

    def joined(self, sizes: Int64s) -> tuple[Words, Int64s]:
        totals = self._totals + (self._totals & 1)  # a place counts 16 bytes
        starts = np.zeros(len(totals) + 1, np.int64)
        np.cumsum(totals, out=starts[1:])
        words = np.zeros(int(starts[-1]), np.uint64)
        heads = sizes.astype(np.uint64) | (totals.astype(np.uint64) << _HALF_BITS)
        words[starts[:-1] + 1] = heads
        at = starts[:-1] + HEAD_WORDS
        for column, counts in self._columns:
            words[ranges(at, counts)] = column
            at += counts
        return words, starts


class _Cursor:
    """Reads the members of some records, one after the other."""

    def __init__(self, words: Words, at: Int64s) -> None:
        self._words = words
        self._at = at

    def _next(self, counts: Int64s) -> Words:
        found = self._words[ranges(self._at, counts)]
        self._at = self._at + counts
        return found

    def take_keys(self, sizes: Int64s) -> NDArray[np.uint8]:
        counts = _words_for(sizes)
        padded = self._next(counts).view(np.uint8)
        ends = np.cumsum(sizes + _SIZE_BYTES)
        keys = np.zeros((int(ends[-1]) if len(ends) else 0) + _SPARE, np.uint8)
        starts = ends - sizes
        keys[ranges(starts, sizes)] = padded[
            ranges(WORD_BYTES * (np.cumsum(counts) - counts), sizes)
        ]
        wide = np.full(len(sizes), _SIZE_BYTES, np.int64)
        keys[ranges(starts - _SIZE_BYTES, wide)] = sizes.astype(np.uint32).view(np.uint8)
        return keys

    def take(self, type_: Any, shape: tuple[int, ...], counts: Int64s) -> Any:
        if type_ is None:
            return self._take_objects()
        width = int(np.prod(shape, dtype=np.int64))
        words = self._next(counts * width)
        if type_.itemsize == WORD_BYTES:
            return words.view(type_).reshape(-1, *shape)
        kind = np.float64 if type_.kind == "f" else np.int64
        return words.view(kind).astype(type_).reshape(-1, *shape)

    def _take_objects(self) -> list[Any]:
        sizes = self._words[self._at].astype(np.int64)
        found: list[Any] = []
        for at, size in zip((self._at + 1).tolist(), sizes.tolist(), strict=True):
            text = self._words[at : at + (size + WORD_BYTES - 1) // WORD_BYTES].tobytes()
            found += unpacked(text[:size])
        self._at = self._at + 1 + _words_for(sizes)
        return found


def _as_words(values: NDArray[Any]) -> Words:
    """Numbers as 64 bits each."""
    if values.dtype.itemsize != WORD_BYTES:
        values = values.astype(np.float64 if values.dtype.kind == "f" else np.int64)
    return np.ascontiguousarray(values).reshape(-1).view(np.uint64)
