"""The memory of a part that has a bound, and the place for what goes beyond it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from penstock.features.evicted_keys import EvictedKeys
from penstock.features.evicted_records import RecordCodec
from penstock.features.memory_bound import FULL_SHARE, KeyUses, MemoryBound
from penstock.features.table_features import TableFeatures
from penstock.features.table_plan import TablePlan
from penstock.projections.spill import SpillFolder

CHECKED_USES: Final = 1024  # of keys; then the bytes in use are added up again
INDEX_SPARE_BYTES: Final = 1 << 20  # that the index may take beyond the bound


class PartMemory:
    """Of one part. One thread at a time. `allowed` says how much memory the part may take, given
    how much it takes."""

    def __init__(self, plan: TablePlan, folder: SpillFolder, allowed: Callable[[int], int]) -> None:
        self.bound = MemoryBound(allowed(0))
        self._allowed = allowed
        self.uses = KeyUses()
        # Operators without rows: the codec asks them about saved state alone.
        codec = RecordCodec(TableFeatures(plan.features), has_times=plan.cold_after_ms is not None)
        self.evicted = EvictedKeys(folder, codec)
        self._uses = 0

    @property
    def bytes(self) -> int:
        return self.uses.bytes + self.evicted.index_bytes

    def has_room(self, bytes_used: int) -> bool:
        """May the part take so much, without moving keys?"""
        return bytes_used <= FULL_SHARE * self._allowed(bytes_used)

    def is_due(self, keys: int, uses: int) -> bool:
        """Is it time to ask for the surplus? Quick."""
        self._uses += uses
        return self._uses >= CHECKED_USES or self.bound.is_over(keys)

    def surplus(self, bytes_used: int, keys: int) -> int:
        """How many of the keys in memory must leave."""
        uses, self._uses = self._uses, 0
        self.bound.bytes_max = self._allowed(bytes_used)
        return self.bound.surplus(bytes_used, keys, uses)

    def check(self) -> None:
        """MemoryError: what is known of the keys on disk alone takes more than the bound."""
        needed, most = self.evicted.index_bytes, self.bound.bytes_max
        if needed > most + INDEX_SPARE_BYTES:
            raise MemoryError(
                f"what is known of {len(self.evicted)} keys on disk takes {needed} bytes, "
                f"and the part may have {most}: raise memory_max, or remove old keys by cold_after"
            )
