"""Syncs of topics whose class promises less, shared by all who wait for one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from penstock.engine.handle import Handle


class SyncTurns:
    """Event loop only. One sync of a group of topics at a time: those who come while it is under
    way share the next one."""

    def __init__(self, sync_all: Callable[[Handle], Awaitable[None]]) -> None:
        self._sync_all = sync_all
        self._under_way: dict[str, asyncio.Future[Any]] = {}  # by `sync_group`
        self._next: dict[str, asyncio.Future[Any]] = {}

    async def sync(self, handle: Handle) -> None:
        """Return when everything that can be read of this topic is past a sync."""
        group = handle.sync_group
        turn = self._next.get(group)
        if turn is None:
            turn = self._next[group] = asyncio.ensure_future(self._take_turn(group, handle))
        await asyncio.shield(turn)  # one caller may give up, the others wait

    async def _take_turn(self, group: str, handle: Handle) -> None:
        before = self._under_way.get(group)
        if before is not None:
            await asyncio.wait([before])
        mine = self._under_way[group] = self._next.pop(group)
        try:
            await self._sync_all(handle)
        finally:
            if self._under_way.get(group) is mine:
                del self._under_way[group]
