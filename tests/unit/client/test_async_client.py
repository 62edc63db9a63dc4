"""What only asyncio has: tasks side by side. The rest is in test_client.py, for both."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from penstock.client.async_client import AsyncClient
from penstock.errors import Closed
from tests.unit.client.support import (
    DEADLINE_S,
    Hold,
    Peer,
    error_answer,
    json_answer,
    page_answer,
    peer_of,
    say,
)


def test_leaving_the_context_closes_it() -> None:
    async def scenario(peer: Peer) -> None:
        async with AsyncClient(peer.url, timeout_s=DEADLINE_S) as client:
            await client.health()
        with pytest.raises(Closed):
            await client.health()

    with peer_of(say(json_answer({}))) as peer:
        asyncio.run(scenario(peer))


def test_closing_ends_following_in_another_task() -> None:
    hold = Hold()

    async def scenario(peer: Peer) -> list[int]:
        client = AsyncClient(peer.url, timeout_s=DEADLINE_S)

        async def follow() -> list[int]:
            return [item.seq async for item in client.follow("t")]

        task = asyncio.create_task(follow())
        assert await asyncio.to_thread(hold.reached.wait, DEADLINE_S)
        await client.close()
        return await task

    with peer_of(say(page_answer(1)), hold) as peer:
        assert asyncio.run(scenario(peer)) == [1]


def test_closing_ends_a_pause_between_attempts() -> None:
    async def scenario(peer: Peer) -> None:
        client = AsyncClient(peer.url, timeout_s=4 * DEADLINE_S)
        task = asyncio.create_task(client.health())
        await asyncio.to_thread(peer.wait_for_asked)
        await client.close()
        with pytest.raises(Closed):
            await task

    with peer_of(say(error_answer(503, "not_ready", retry_after="200"))) as peer:
        asyncio.run(scenario(peer))


def test_following_that_is_left_early_lets_its_connection_go() -> None:
    async def scenario(peer: Peer) -> None:
        async with (
            AsyncClient(peer.url, timeout_s=DEADLINE_S) as client,
            contextlib.aclosing(client.follow("t")) as items,
        ):
            assert (await anext(items)).seq == 1

    with peer_of(say(page_answer(1, 2))) as peer:
        asyncio.run(scenario(peer))

        assert len(peer.asked) == 1
