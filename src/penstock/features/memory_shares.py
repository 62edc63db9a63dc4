"""How much memory each part may take: what its table says, or a share of what all others have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from penstock.features.definition_nodes import FeatureTable
from penstock.features.part_plan import PartSpec
from penstock.limits import TABLE_MEMORY_MIN


class MemoryShares:
    """A table's `memory_max` is divided among its parts by the number of their features. All other
    parts have `bytes_max` together: each may take an equal share of it in any case, and more as
    long as the others leave it. Safe from several threads: parts ask under their own locks."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._own: Mapping[str, int] = {}  # parts whose table says how much
        self._equal = bytes_max
        self._used: dict[str, int] = {}  # by the others, when they asked last

    def divide(self, tables: Mapping[str, FeatureTable], parts: Iterable[PartSpec]) -> None:
        """These are the parts from now on."""
        held = list(parts)
        features: Counter[str] = Counter()
        for part in held:
            features[part.table] += len(part.features)
        own = {
            part.id: max(most * len(part.features) // features[part.table], TABLE_MEMORY_MIN)
            for part in held
            if part.table in tables and (most := tables[part.table].memory_max) is not None
        }
        others = [part.id for part in held if part.id not in own]
        used = {part: self._used.get(part, 0) for part in others}
        self._equal = max(self._bytes_max // max(len(others), 1), TABLE_MEMORY_MIN)
        self._own, self._used = own, used

    def bytes_max(self, part: str, used: int) -> int:
        """How much a part may take, which takes so much now."""
        own = self._own.get(part)
        if own is not None:
            return own
        taken, equal = self._used, self._equal
        if part in taken:
            taken[part] = used
        if used <= equal // 2:  # no need to look at the others
            return equal
        return max(equal, self._bytes_max - sum(list(taken.values())) + used)
