"""The verbs of a log that put its files in order."""

from __future__ import annotations

import abc
from collections.abc import Callable

from penstock.engine.catalogue import Catalogue
from penstock.engine.checkpoint import CheckpointReport
from penstock.engine.cold import ColdReport
from penstock.engine.keeper import Keeper

Progress = Callable[[int, int], None]


class KeepingVerbs(abc.ABC):
    """A part of `Log`, which makes these two."""

    _catalogue: Catalogue
    _keeper: Keeper

    def checkpoint(
        self, *, everything: bool = False, progress: Progress = lambda done, total: None
    ) -> CheckpointReport:
        """Absorb the WAL into segments and a snapshot. `everything` seals small tails too and
        starts new WAL files, so that all older ones can go."""
        self._catalogue.check_open()
        return self._keeper.checkpoint(everything=everything, progress=progress)

    def compact(self, progress: Progress = lambda done, total: None) -> CheckpointReport:
        """Everything into segments, dead records out of them, absorbed files removed."""
        first = self.checkpoint(everything=True, progress=progress)
        return first.plus(self.checkpoint(everything=True))

    def relocate(self, progress: Progress = lambda done, total: None) -> ColdReport:
        """Move old segments to the cold tier now, as the background does every few seconds.
        OSError and ColdUnavailable when that cannot be written: nothing is lost then."""
        self._catalogue.check_open()
        return self._keeper.relocate(progress=progress)

    def upkeep(self) -> None:
        """What the background thread does on every beat; call it yourself without one."""
        self._keeper.beat()
