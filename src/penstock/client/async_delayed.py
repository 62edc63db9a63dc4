"""Delayed records on a server, over asyncio: its verbs are calls of its client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.client import delayed_calls
from penstock.types import DelayedInfo

if TYPE_CHECKING:
    from penstock.client.async_client import AsyncClient


class AsyncDelayed:
    """The appends with `deliver_at` or `delay_ms` whose time has not come: the `delayed_id` of
    their answer names them."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def infos(self, topic: str, after: int = 0, limit: int = 256) -> list[DelayedInfo]:
        """The delayed batches of a topic with an id past `after`, by their ids."""
        return await self._client._steps(delayed_calls.infos(topic, after, limit))

    async def cancel(self, topic: str, ids: Sequence[int]) -> int:
        """Remove delayed batches, one after the other; how many were still delayed. Durable on
        return."""
        return await self._client._steps(delayed_calls.cancel(topic, ids))

    async def cancel_one(self, topic: str, delayed_id: int) -> None:
        """Remove one delayed batch, or raise DelayedNotFound or AlreadyDelivered. Durable on
        return."""
        await self._client._call(delayed_calls.cancel_one(topic, delayed_id))
