"""State of keys that need items in a varying number: chains of the fold kernel, in one pool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.features import fold_kernel
from penstock.features.event_column import Int64s
from penstock.features.operators.row_state import RowArray, RowState, array_of

ITEM_INTS = 4  # the last is the item that follows
ITEM_FLOATS = 2


class ChainedRows(RowState):
    """Columns of keys and items are described at the fold that writes them. The first of a key is
    where its chain begins; in saved state, how many items it has."""

    def __init__(self, *, ints: int, floats: int) -> None:
        super().__init__(
            keys=RowArray(np.int64, width=ints), key_floats=RowArray(np.float64, width=floats)
        )
        self.pool = np.zeros(2, np.int64)
        self.items: NDArray[Any] = np.zeros((0, ITEM_INTS), np.int64)
        self.item_floats: NDArray[Any] = np.zeros((0, ITEM_FLOATS), np.float64)

    @property
    def keys(self) -> NDArray[Any]:
        return self.arrays["keys"]

    @property
    def key_floats(self) -> NDArray[Any]:
        return self.arrays["key_floats"]

    def reserve(self, items: int) -> None:
        """Make room for this many more items."""
        capacity = len(self.items)
        if int(self.pool[1]) + items > capacity:
            capacity = max(int(self.pool[1]) + items, capacity + capacity // 4)
            for name in ("items", "item_floats"):
                old = getattr(self, name)
                grown = np.zeros((capacity, old.shape[1]), old.dtype)
                grown[: len(old)] = old
                setattr(self, name, grown)

    def items_of(self, rows: Int64s) -> tuple[Int64s, Int64s]:
        """How many items each key has, and where they are, one key after the other."""
        rows = np.ascontiguousarray(rows)
        lengths = np.zeros(len(rows), np.int64)
        fold_kernel.chosen.chain_lengths(rows, self.keys, self.items, lengths)
        found = np.zeros(int(lengths.sum()), np.int64)
        fold_kernel.chosen.list_chains(rows, self.keys, self.items, found)
        return lengths, found

    def clear(self, rows: Int64s) -> None:
        fold_kernel.chosen.free_chains(np.ascontiguousarray(rows), self.keys, self.items, self.pool)
        super().clear(rows)

    def save(self, rows: Int64s) -> Mapping[str, Any]:
        lengths, found = self.items_of(rows)
        saved = dict(super().save(rows))
        saved["keys"][:, 0] = lengths
        saved["items"] = self.items[found, :-1]
        saved["item_floats"] = self.item_floats[found]
        return saved

    def lengths(self, saved: Mapping[str, Any]) -> Mapping[str, Int64s]:
        return dict.fromkeys(("items", "item_floats"), saved["keys"][:, 0])

    def load(self, rows: Int64s, saved: Mapping[str, Any]) -> None:
        rows = np.ascontiguousarray(rows)
        keys = array_of(saved, "keys", np.int64, *self.keys[rows].shape)
        lengths = np.ascontiguousarray(keys[:, 0])
        total = int(lengths.sum())
        if total < 0 or lengths.min(initial=0) < 0:
            raise ValueError("saved state 'keys': expected lengths of 0 or more")
        items = array_of(saved, "items", np.int64, total, ITEM_INTS - 1)
        item_floats = array_of(saved, "item_floats", np.float64, total, ITEM_FLOATS)
        super().load(rows, saved)
        self.keys[rows, 0] = 0
        self.reserve(total)
        found = np.zeros(total, np.int64)
        fold_kernel.chosen.link_chains(rows, lengths, self.keys, self.items, found, self.pool)
        self.items[found, :-1] = items
        self.item_floats[found] = item_floats

    @property
    def bytes(self) -> int:
        return super().bytes + self.items.nbytes + self.item_floats.nbytes
