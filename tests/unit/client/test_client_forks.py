"""A forked child's copy of a client sends nothing, and ends none of its parent's connections."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest

import penstock
from penstock.errors import Closed
from tests.support.child import in_child
from tests.unit.client.support import DEADLINE_S, Peer, answer, peer_of, say

TOPICS = answer(200, b'{"topics": [], "next": null}')


@pytest.fixture
def peer() -> Iterator[Peer]:
    with peer_of(say(TOPICS), say(TOPICS)) as found:
        yield found


def test_a_child_leaves_the_connections_to_its_parent(peer: Peer) -> None:
    owner = os.getpid()
    with penstock.connect(peer.url, timeout_s=DEADLINE_S) as client:
        client.topics()

        def use() -> None:
            with pytest.raises(Closed, match=f"this client belongs to process {owner}"):
                client.topics()
            client.close()

        assert in_child(use) == ""
        client.topics()

    assert peer.connections == 1, "the kept connection was used again"


def test_an_async_client_is_dead_in_a_child(peer: Peer) -> None:
    owner = os.getpid()

    async def use(client: penstock.AsyncClient) -> None:
        with pytest.raises(Closed, match=f"this client belongs to process {owner}"):
            await client.topics()
        await client.close()

    async def talk() -> penstock.AsyncClient:
        client = penstock.AsyncClient(peer.url, timeout_s=DEADLINE_S)
        await client.topics()
        await client.close()
        return client

    unused = penstock.AsyncClient(peer.url)

    assert in_child(lambda: asyncio.run(use(unused))) == ""
    asyncio.run(talk())
