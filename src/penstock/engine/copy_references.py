"""Decides how the copies of a router's step are logged: as references to the bytes of their source
in the WAL, or with their own bytes.

They are references if the bytes lie in one WAL file, may not be removed too early, and are as
durable as the destination requires. `wal_positions` knows where the bytes lie, and keeps them.

A copy with its own bytes can outlive its source record: a power cut may lose records that the
source has not synced. If a router feeds the source, the source would get the record a second time,
and so would the destination. So the source is synced first.
"""

from __future__ import annotations

from penstock.engine.router_state import ActiveRouter
from penstock.engine.wal_positions import References, WalStep
from penstock.types import FramesPage

_SEQ_AT = 14  # in a frame


class CopyReferences:
    """The references of the steps of all routers. The lock of the step's route is held."""

    def __init__(self, references: References) -> None:
        self._references = references

    def find(
        self, route: ActiveRouter, page: FramesPage, cursor: int
    ) -> tuple[WalStep | None, object]:
        """The positions of these records of the source up to seq `cursor`, and the token that keeps
        the bytes until `release`. Without a position the copies are logged with their bytes: the
        source is synced where that is needed."""
        source = route.source
        step, token = None, None
        if not self.is_too_weak(route):
            with source.lock:
                step = self._positions(route, page, cursor)
            if step is not None:
                token = self._references.admit(step.needs)
                step = None if token is None else step
        if step is None and source.topic.config.durability != "fsync":
            for shard in {one.shard for one in source.upstream()}:
                shard.sync_all()
        return step, token

    def release(self, token: object) -> None:
        """The step is published or has failed. Ignores None."""
        self._references.release(token)

    def is_too_weak(self, route: ActiveRouter) -> bool:
        """True if the destination is more durable than its source."""
        source, dest = route.source.topic.config, route.dest.topic.config
        return dest.durability == "fsync" != source.durability

    def _positions(self, route: ActiveRouter, page: FramesPage, cursor: int) -> WalStep | None:
        """The lock of the source is held."""
        wal_positions = route.source.wal_positions
        if wal_positions is None:
            return None
        wal_positions.prune(min([one.staged for one in route.source.outlets], default=0))
        step = wal_positions.between(route.staged + 1, cursor)
        first = int.from_bytes(page.frames[_SEQ_AT : _SEQ_AT + 8], "little")
        return step if step is not None and step.first <= first else None
