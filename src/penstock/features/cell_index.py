"""The cells of one window of a table: which row of state has the events of a key and a bucket."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from penstock.features import fold_kernel
from penstock.features.event_column import Int64s
from penstock.features.key_index import grown
from penstock.features.windows import Window

_USED, _FREE, _DROPPED, _LIVE, _TO_CLEAR = range(5)
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
        self._state = np.array([0, -1, -1, 0, 0], np.int64)
        self._swept_first: int | None = None  # the oldest bucket that counted at the last sweep
        self._swept = 0  # slots that have no older one

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
            self._heads = grown(self._heads, size, -1)
            self._tails = grown(self._tails, size, -1)

    def rows(self, slots: Int64s, times: Int64s, largest: Int64s) -> tuple[Int64s, int]:
        """The row of each event, which is made if it is missing, and how many events have none
        (-1): no read can reach their bucket. `largest` is the largest time up to each event."""
        self.reserve(len(slots))
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

    def live(self, slot: int, now_ms: int, largest: int) -> list[int]:
        """The rows of a slot that count at this time, oldest first. A time before the largest one
        of all events does not bring back what is too old for that."""
        first = self.window.first_live_start(max(now_ms, largest))
        found: list[int] = fold_kernel.chosen.live_cells(
            slot, first, now_ms, self._tails, self._newer, self._starts
        )
        return found

    def drop_old(self, slot: int, stop: int, largest: int) -> None:
        """Drop those cells of the slots slot..stop-1 that no read can reach. The slots come in
        turn, round and round: after a round nothing is left until time moves on by a bucket."""
        first = self.window.first_live_start(largest)
        if first != self._swept_first:
            self._swept_first, self._swept = first, 0
        elif self._swept >= len(self._heads):
            return
        self._swept += stop - slot
        fold_kernel.chosen.drop_old_cells(slot, stop, first, *self._links, self._state)

    def drop(self, slots: Int64s) -> None:
        """Drop all cells of these slots."""
        fold_kernel.chosen.drop_cells(slots, *self._links, self._state)

    def dropped(self) -> Int64s:
        """The rows that were dropped and are not free yet."""
        found = np.empty(self._state[_TO_CLEAR], np.int64)
        fold_kernel.chosen.dropped_cells(self._older, self._state, found)
        return found

    def free(self, rows: Int64s) -> None:
        """The dropped rows were cleared."""
        fold_kernel.chosen.free_cells(self._older, self._state, rows)

    def save(self, slots: Int64s, largest: int) -> tuple[NDArray[np.int32], Int64s, Int64s]:
        """The cells of these slots that can still be read: how many each has, their starts, their
        rows."""
        first = self.window.first_live_start(largest)
        chains = slots, first, self._tails, self._newer, self._starts
        counts = np.empty(len(slots), np.int32)
        rows = np.empty(fold_kernel.chosen.count_cells(*chains, counts), np.int64)
        fold_kernel.chosen.gather_cells(*chains, rows)
        return counts, self._starts[rows], rows

    def load(self, slots: Int64s, counts: NDArray[np.int32], starts: Int64s) -> Int64s:
        """Put saved cells into slots that have none; returns their rows."""
        if len(counts) != len(slots) or (counts < 0).any() or int(counts.sum()) != len(starts):
            raise ValueError("the counts of cells are wrong")
        self.reserve(len(starts))
        rows = np.empty(len(starts), np.int64)
        fold_kernel.chosen.link_cells(slots, counts, starts, *self._links, self._state, rows)
        return rows

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

    def reserve(self, cells: int) -> None:
        """Make room for so many more cells."""
        free = self.used - len(self) - int(self._state[_TO_CLEAR])
        wanted = self.used + max(0, cells - free)
        if wanted > len(self._starts):
            size = max(wanted, len(self._starts) * 5 // 4)
            if size > CELLS_MAX:
                raise MemoryError("a window of a feature table has more than 2^31 cells")
            self._older = grown(self._older, size, -1)
            self._newer = grown(self._newer, size, -1)
            self._starts = grown(self._starts, size, 0)
