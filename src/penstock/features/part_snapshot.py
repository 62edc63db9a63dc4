"""Snapshots of a table's part: how a piece of state becomes bytes, and copy on write.

A piece is one section of the projection's file: the length of a head, the head in MessagePack,
padding, then the bytes of arrays. `docs/format/features.md` has the table.
"""

from __future__ import annotations

import functools
import math
import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
import numpy as np

from penstock.features.event_column import Bools, Int64s

PIECE_BYTES: Final = 1 << 20  # of state, about: one piece is saved under the lock
_HEAD_BYTES = struct.Struct("<Q")
_TYPES: Final = frozenset(
    f"<{kind}{size}"
    for kind, sizes in {"i": "248", "u": "248", "f": "48"}.items()
    for size in sizes
) | {"|i1", "|u1", "|b1"}

Piece = dict[str, dict[str, Any]]


def encode(piece: Mapping[str, Mapping[str, Any]]) -> bytes:
    """Groups of arrays of numbers and of JSON-able values, each with its name."""
    head: dict[str, dict[str, Any]] = {}
    blocks: list[bytes] = []
    for group, members in piece.items():
        entries = head[group] = {}
        for name, value in members.items():
            if isinstance(value, np.ndarray):
                kind = _little(value.dtype)
                raw = value.astype(kind, copy=False).tobytes()
                blocks.append(raw)
                if len(raw) % 8:
                    blocks.append(bytes(-len(raw) % 8))
                entries[name] = [kind.str, list(value.shape)]
            else:
                entries[name] = packed(value)
    text = msgspec.msgpack.encode(head)
    padding = bytes(-len(text) % 8)
    return b"".join([_HEAD_BYTES.pack(len(text)), text, padding, *blocks])


def decode(data: memoryview) -> Piece:
    """The opposite of `encode`. The arrays are copies. ValueError: it is not such a piece."""
    if len(data) < _HEAD_BYTES.size:
        raise ValueError("a piece of state ends early")
    (size,) = _HEAD_BYTES.unpack_from(data)
    end = _HEAD_BYTES.size + size
    at = end + -size % 8
    if at > len(data):
        raise ValueError("a piece of state ends early")
    head = msgspec.msgpack.decode(data[_HEAD_BYTES.size : end], type=dict[str, dict[str, Any]])
    piece: Piece = {}
    for group, entries in head.items():
        members = piece[group] = {}
        for name, entry in entries.items():
            if isinstance(entry, bytes):
                members[name] = unpacked(entry)
                continue
            kind, shape = entry
            if kind not in _TYPES:
                raise ValueError(f"an array of type {kind!r} is not saved by this version")
            count = math.prod(shape)
            end = at + count * int(kind[2:])
            if count < 0 or end > len(data):
                raise ValueError("a piece of state ends early")
            members[name] = np.frombuffer(data[at:end], kind).reshape(shape).copy()
            at = end + -end % 8
    return piece


@functools.cache
def _little(kind: np.dtype[Any]) -> np.dtype[Any]:
    """The type with its lower bytes first."""
    return kind.newbyteorder("<")


def packed(value: Any) -> bytes:
    """A JSON-able value, or one with bytes."""
    try:
        return b"m" + msgspec.msgpack.encode(value)
    except OverflowError:  # an integer beyond 64 bits: only JSON has it
        return b"j" + msgspec.json.encode(value)


def unpacked(entry: bytes) -> Any:
    """The opposite of `packed`."""
    return (msgspec.msgpack if entry[:1] == b"m" else msgspec.json).decode(entry[1:])


class PartSnapshot:
    """Gives the state of each key as of when it was made, in pieces. `before_change` saves the keys
    that are about to change; the others are saved a piece at a time, when it is asked for. Those
    that are on disk come last, as `evicted` gives them."""

    def __init__(
        self,
        head: bytes,
        is_pending: Bools,
        piece_slots: int,
        save: Callable[[Int64s], bytes],
        evicted: Iterable[Piece] = (),
    ) -> None:
        self._ready = deque([head])
        self._is_pending = is_pending  # the slots whose state is to be saved yet
        self._piece_slots = piece_slots
        self._save = save
        self._evicted = iter(evicted)
        self._cursor = 0

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if self._ready:
            return self._ready.popleft()
        while self._cursor < len(self._is_pending):
            first = self._cursor
            self._cursor = min(first + self._piece_slots, len(self._is_pending))
            slots = first + np.flatnonzero(self._is_pending[first : self._cursor])
            if len(slots):
                self._is_pending[slots] = False
                return self._save(slots)
        return encode(next(self._evicted))

    def before_change(self, slots: Int64s) -> None:
        """The state of these slots, some of them perhaps not there, is about to change."""
        changing = self.left_out(slots)
        if len(changing):
            self._ready.append(self._save(changing))

    def left_out(self, slots: Int64s) -> Int64s:
        """Those of these slots that are to be saved yet, ascending. From now on that is up to the
        caller."""
        known = slots[(slots >= 0) & (slots < len(self._is_pending))]
        pending = np.unique(known[self._is_pending[known]])
        self._is_pending[pending] = False
        return pending
