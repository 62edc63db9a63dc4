"""A list of bounded length in each row, all in one arena: a short list takes little memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.features import fold_kernel
from penstock.features.event_column import Bools, ColumnType, EventColumn, Int64s
from penstock.features.operators.row_state import RowArray, RowState, array_of, bytes_of
from penstock.features.operators.value_arrays import (
    ARRAY_TYPES,
    SharedTexts,
    bits_in,
    bits_of,
    is_object,
    python_value,
)

ARENA_MIN = 64
ROWS_AT_ONCE = 4096  # when an arena is copied: bounds the memory of the indices
NO_HEADS = np.empty(0, np.uint16)


class RowLists(RowState):
    """10 bytes a row, 12 if lists are rings, and a block of the arena for the values of a row;
    `kernel_source/list_folds.py` says how blocks grow. A full list drops its oldest value for a new
    one if it is a ring; if not, it takes no more.

    When the end of the arena is reached, all blocks are copied into a new one with a quarter more:
    what was left or cleared is gone then.
    """

    def __init__(self, type_: ColumnType, limit: int, is_ring: bool) -> None:
        heads = {"heads": RowArray(np.uint16)} if is_ring else {}
        super().__init__(starts=RowArray(np.int64), lengths=RowArray(np.uint16), **heads)
        self.type: ColumnType = type_
        self.limit = limit
        self._is_ring = is_ring
        self._blocks = np.array([block_of(length, limit) for length in range(limit + 1)], np.int64)
        self._shared = SharedTexts(type_)
        self._arena: NDArray[Any] = np.empty(0, ARRAY_TYPES[type_])
        self._used = np.zeros(1, np.int64)  # of the arena; the kernel changes it

    def append(self, rows: Int64s, passes: Bools, column: EventColumn) -> None:
        """Add the values of events to their rows."""
        values = column.values if is_object(self.type) else bits_of(column)
        shared = self._shared.texts
        done = 0
        while True:
            where = (*self._where(), self._used)
            common = (done, rows, passes, column.is_present, values, self.limit, self._is_ring)
            if is_object(self.type):
                done = fold_kernel.chosen.append_objects(*common, *where, shared)
            else:
                done = fold_kernel.chosen.append_numbers(*common, *where)
            if done == len(rows):
                return
            self._make_room(self.limit)

    def append_times(self, rows: Int64s, passes: Bools, ts: Int64s) -> None:
        """Keep the latest times of each row, in order of time."""
        done = 0
        while True:
            where = (*self._where(), self._used)
            done = fold_kernel.chosen.sort_in_times(done, rows, passes, ts, self.limit, *where)
            if done == len(rows):
                return
            self._make_room(self.limit)

    def values(self, row: int) -> list[Any]:
        """The list of a row, oldest first, JSON-able."""
        start, length = self.arrays["starts"].item(row), self.arrays["lengths"].item(row)
        block: list[Any] = self._arena[start : start + length].tolist()
        if self._is_ring and (head := self.arrays["heads"].item(row)):
            block = block[head:] + block[:head]
        if self.type in ("i64", "str", "json"):
            return block
        return [python_value(self.type, element) for element in block]

    def clear(self, rows: Int64s) -> None:
        if is_object(self.type):
            self._arena[self._places(rows)] = None
        super().clear(rows)

    def save(self, rows: Int64s) -> Mapping[str, Any]:
        values = self._arena[self._places(rows)]
        return {
            "lengths": self.arrays["lengths"][rows],
            "values": values.tolist() if is_object(self.type) else values,
        }

    def lengths(self, saved: Mapping[str, Any]) -> Mapping[str, Int64s]:
        return {"values": saved["lengths"].astype(np.int64)}

    def load(self, rows: Int64s, saved: Mapping[str, Any]) -> None:
        lengths = array_of(saved, "lengths", np.dtype(np.uint16), len(rows))
        if len(lengths) and lengths.max() > self.limit:
            raise ValueError(f"saved list of {lengths.max()} values: expected {self.limit} at most")
        values = array_of(saved, "values", self._arena.dtype, int(lengths.sum(dtype=np.int64)))
        blocks = self._blocks[lengths]
        needed = int(blocks.sum())
        if self._used[0] + needed > len(self._arena):
            self._make_room(needed)
        self.arrays["starts"][rows] = self._used[0] + np.cumsum(blocks) - blocks
        self._used[0] += needed
        self.arrays["lengths"][rows] = lengths
        self._arena[self._places(rows)] = values

    @property
    def bytes(self) -> int:
        return super().bytes + bytes_of(self._arena) + self._blocks.nbytes

    def _where(self) -> tuple[Int64s, NDArray[np.uint16], NDArray[np.uint16], NDArray[Any]]:
        arena = self._arena if is_object(self.type) else bits_in(self._arena)
        heads = self.arrays.get("heads", NO_HEADS)
        return self.arrays["starts"], self.arrays["lengths"], heads, arena

    def _places(self, rows: Int64s) -> Int64s:
        """Where in the arena the values of these rows lie, row by row, oldest first."""
        lengths = self.arrays["lengths"][rows].astype(np.int64)
        places = positions(lengths)
        if self._is_ring:
            places += np.repeat(self.arrays["heads"][rows], lengths)
            places %= np.repeat(lengths, lengths)
        places += np.repeat(self.arrays["starts"][rows], lengths)
        return places

    def _make_room(self, needed: int) -> None:
        """Copy all blocks into a new arena, with room for at least `needed` more values."""
        every = np.flatnonzero(self.arrays["lengths"])
        blocks = self._blocks[self.arrays["lengths"][every]]
        used = int(blocks.sum())
        starts = np.cumsum(blocks) - blocks
        arena = np.empty(used + max(used // 4, needed, ARENA_MIN), self._arena.dtype)
        for at in range(0, len(every), ROWS_AT_ONCE):
            rows = every[at : at + ROWS_AT_ONCE]
            lengths = self.arrays["lengths"][rows].astype(np.int64)
            inside = positions(lengths)
            old = inside + np.repeat(self.arrays["starts"][rows], lengths)
            new = inside + np.repeat(starts[at : at + ROWS_AT_ONCE], lengths)
            arena[new] = self._arena[old]
        self.arrays["starts"][every] = starts
        self._arena = arena
        self._used[0] = used


def block_of(length: int, limit: int) -> int:
    """How many values the block of a list of this length has room for, as in the kernel."""
    return min(limit, 1 << max(1, (length - 1).bit_length())) if length else 0


def positions(lengths: Int64s) -> Int64s:
    """0, 1, … for each list, one list after the other."""
    ends = np.cumsum(lengths)
    return np.arange(int(lengths.sum())) - np.repeat(ends - lengths, lengths)
