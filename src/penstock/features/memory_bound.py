"""How many keys of a part stay in memory, and which of them go. Pure."""

from __future__ import annotations

from typing import Final

import numpy as np

from penstock.features.event_column import Int64s
from penstock.features.key_index import grown

FULL_SHARE: Final = 0.7  # of the bound; arrays grow by a quarter, which then fits
EVICTED_SHARE: Final = 16  # of the keys, one in so many goes at once
EVICTED_MAX: Final = 20_000  # but not more than that

_BATCH_MAX: Final = (1 << 32) - 1


class MemoryBound:
    """Memory of keys that leave is used again, but not given back. So the number of keys that are
    in memory when it is nearly full is the most from then on. If memory grows all the same, because
    the state of each key does, all keys leave, and the part begins with empty arrays."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._keys_max: int | None = None  # None: as many as there are

    def is_over(self, keys: int) -> bool:
        """Quick: are there more keys than the most?"""
        return self._keys_max is not None and keys > self._keys_max

    def surplus(self, bytes_used: int, keys: int, uses: int) -> int:
        """How many of the keys must leave, so that there is room for about as many `uses` as there
        were since the last time. All of them: memory grew beyond the bound, and the part begins
        with empty arrays."""
        if bytes_used <= FULL_SHARE * self.bytes_max:
            self._keys_max = None
            return 0
        if bytes_used > self.bytes_max:
            self._keys_max = None
            return keys
        if self._keys_max is None:
            self._keys_max = keys
        if keys <= self._keys_max:
            return 0
        room = min(self._keys_max // EVICTED_SHARE, EVICTED_MAX)
        room = max(room, min(uses, self._keys_max // 2))
        return keys - self._keys_max + room


class KeyUses:
    """When each slot was used last, as the number of a batch. One thread at a time."""

    def __init__(self) -> None:
        self._last = np.zeros(8, np.uint32)
        self._batch = 1

    @property
    def bytes(self) -> int:
        return self._last.nbytes

    def note(self, slots: Int64s, used: int) -> None:
        """A batch uses these slots, which are below `used`."""
        if used > len(self._last):
            self._last = grown(self._last, max(used, len(self._last) * 5 // 4), 0)
        if self._batch == _BATCH_MAX:
            self._last >>= 1
            self._batch >>= 1
        self._batch += 1
        self._last[slots] = self._batch

    def oldest(self, slots: Int64s, count: int) -> Int64s:
        """Those of these slots that were used longest ago, ascending."""
        if count >= len(slots):
            return slots
        return np.sort(slots[np.argpartition(self._last[slots], count)[:count]])
