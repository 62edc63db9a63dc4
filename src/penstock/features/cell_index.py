"""The cells of one window of a table: which row of state has the events of a key and a bucket."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from penstock.features import fold_kernel
from penstock.features.event_column import Int64s
from penstock.features.windows import Window

_USED, _FREE, _DROPPED, _LIVE = range(4)
CELLS_MAX: Final = (1 << 31) - 1


class CellIndex:
    """A slot has at most one cell for each bucket that can still be read at the table's largest
    time, and perhaps older ones that `drop_old` or the slot's next new cell will drop. Dropped
    cells wait until their rows are cleared. One thread at a time.

    Which cell an event belongs to follows from the events' times alone. The number of the cell
    does not: it depends on how events are divided into batches.
    """

    def __init__(self, window: Window) -> None:
        self.window = window
        self._heads = np.full(8, -1, np.int32)
        self._tails = np.full(8, -1, np.int32)
        self._older = np.full(8, -1, np.int32)
        self._newer = np.full(8, -1, np.int32)
        self._starts = np.zeros(8, np.int64)
        self._state = np.array([0, -1, -1, 0], np.int64)

    def __len__(self) -> int:
        """How many cells there are."""
        return int(self._state[_LIVE])

    @property
    def used(self) -> int:
        """All rows are below this number."""
        return int(self._state[_USED])

    @property
    def bytes(self) -> int:
        """The memory in use."""
        links = self._heads, self._tails, self._older, self._newer
        return sum(array.nbytes for array in links) + self._starts.nbytes

    def grow(self, slots: int) -> None:
        """Make room for so many slots."""
        if slots > len(self._heads):
            size = max(slots, len(self._heads) * 5 // 4)
            self._heads = _longer(self._heads, size)
            self._tails = _longer(self._tails, size)

    def rows(self, slots: Int64s, times: Int64s, largest: Int64s) -> tuple[Int64s, int]:
        """The row of each event, which is made if it is missing, and how many events have none
        (-1): no read can reach their bucket. `largest` is the largest time up to each event."""
        self._reserve(len(slots))
        found = np.empty(len(slots), np.int64)
        missing = fold_kernel.chosen.find_cells(
            slots,
            self.window.buckets_of(times),
            self._firsts(largest),
            *self._links,
            self._state,
            found,
        )
        return found, missing

    def live(self, slot: int, now_ms: int) -> list[int]:
        """The rows of a slot that count at this time, oldest first."""
        first = self.window.first_live_start(now_ms)
        found: list[int] = fold_kernel.chosen.live_cells(
            slot, first, now_ms, self._tails, self._newer, self._starts
        )
        return found

    def has_old(self, slot: int, stop: int, largest: int) -> bool:
        """Would `drop_old` drop anything?"""
        first = self.window.first_live_start(largest)
        return bool(fold_kernel.chosen.has_old_cells(slot, stop, first, self._tails, self._starts))

    def drop_old(self, slot: int, stop: int, largest: int) -> None:
        """Drop those cells of the slots slot..stop-1 that no read can reach."""
        first = self.window.first_live_start(largest)
        fold_kernel.chosen.drop_old_cells(slot, stop, first, *self._links, self._state)

    def drop(self, slots: Int64s) -> None:
        """Drop all cells of these slots."""
        fold_kernel.chosen.drop_cells(slots, *self._links, self._state)

    def dropped(self) -> Int64s:
        """The rows that were dropped and are not free yet."""
        found = []
        cell = int(self._state[_DROPPED])
        while cell >= 0:
            found.append(cell)
            cell = int(self._older[cell])
        return np.array(found, np.int64)

    def free(self, rows: Int64s) -> None:
        """The dropped rows were cleared."""
        fold_kernel.chosen.free_cells(self._older, self._state, rows)

    def save(self, slot: int, stop: int) -> tuple[NDArray[np.int32], Int64s, Int64s]:
        """The cells of the slots slot..stop-1: how many each has, their starts, their rows."""
        counts = np.empty(stop - slot, np.int32)
        total = fold_kernel.chosen.count_cells(slot, self._tails, self._newer, counts)
        rows = np.empty(total, np.int64)
        fold_kernel.chosen.gather_cells(slot, stop - slot, self._tails, self._newer, rows)
        return counts, self._starts[rows], rows

    def load(self, slot: int, counts: NDArray[np.int32], starts: Int64s) -> Int64s:
        """Put saved cells into slots that have none; returns their rows."""
        if (counts < 0).any() or int(counts.sum()) != len(starts):
            raise ValueError("the counts of cells are wrong")
        self.grow(slot + len(counts))
        self._reserve(len(starts))
        used = self.used
        self._starts[used : used + len(starts)] = starts
        fold_kernel.chosen.link_cells(slot, counts, *self._links, self._state)
        return np.arange(used, used + len(starts))

    @property
    def _links(
        self,
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], Int64s]:
        return self._heads, self._tails, self._older, self._newer, self._starts

    def _firsts(self, largest: Int64s) -> Int64s:
        """`first_live_start` of many times."""
        width, length = self.window.bucket_ms, self.window.length_ms
        if self.window.kind == "sliding":
            return ((largest - length) // width + 1) * width
        return largest // width * width + (width - length)

    def _reserve(self, cells: int) -> None:
        wanted = self.used + cells
        if wanted > len(self._starts):
            size = max(wanted, len(self._starts) * 5 // 4)
            if size > CELLS_MAX:
                raise MemoryError("a window of a feature table has more than 2^31 cells")
            self._older = _longer(self._older, size)
            self._newer = _longer(self._newer, size)
            self._starts = np.append(self._starts, np.zeros(size - len(self._starts), np.int64))


def _longer(links: NDArray[np.int32], size: int) -> NDArray[np.int32]:
    return np.append(links, np.full(size - len(links), -1, np.int32))
