"""What only asyncio has: tasks that are cancelled. The rest is in test_transport.py, for both."""

from __future__ import annotations

import asyncio
import gc
import warnings

import pytest
import uvloop

from penstock.client import address
from penstock.client.async_transport import AsyncTransport
from penstock.client.http import HttpRequest
from penstock.clock import SystemClock
from penstock.errors import Closed
from tests.unit.client.support import DEADLINE_S, Hold, Peer, answer, peer_of, say

GET = HttpRequest("GET", "/x")
HELLO = answer(200, b"hello")


def transport_to(peer: Peer) -> AsyncTransport:
    return AsyncTransport(address.parse(peer.url), SystemClock(), None)


def deadline() -> float:
    return SystemClock().monotonic() + DEADLINE_S


async def until(hold: Hold) -> None:
    assert await asyncio.to_thread(hold.reached.wait, DEADLINE_S)


def test_a_cancelled_call_gives_up_its_connection() -> None:
    """Its answer may still come, and must not be taken for the next one's."""
    hold = Hold(HELLO)

    async def scenario(peer: Peer) -> None:
        transport = transport_to(peer)
        task = asyncio.create_task(transport.exchange(GET, deadline()))
        await until(hold)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await transport.exchange(GET, deadline())).body == b"second"
        await transport.close()

    with peer_of(hold, say(answer(200, b"second"))) as peer:
        asyncio.run(scenario(peer))

        assert [asked.connection for asked in peer.asked] == [1, 2]


def test_a_call_cancelled_before_it_was_sent_leaves_no_connection_open() -> None:
    async def scenario(peer: Peer) -> None:
        transport = transport_to(peer)
        await transport.exchange(GET, deadline())
        task = asyncio.create_task(transport.exchange(GET, deadline()))
        await asyncio.sleep(0)  # it has taken the kept connection, and looks whether it is fresh
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await transport.close()

    with warnings.catch_warnings(record=True) as found, peer_of(say(HELLO)) as peer:
        warnings.simplefilter("always")
        asyncio.run(scenario(peer))
        gc.collect()

        assert len(peer.asked) == 1
    assert not [str(one.message) for one in found if one.category is ResourceWarning]


def test_closing_ends_calls_of_other_tasks() -> None:
    hold = Hold()

    async def scenario(peer: Peer) -> None:
        transport = transport_to(peer)
        task = asyncio.create_task(transport.exchange(GET, deadline()))
        await until(hold)
        await transport.close()
        with pytest.raises(Closed):
            await task

    with peer_of(hold) as peer:
        asyncio.run(scenario(peer))


def test_tasks_at_the_same_time_have_a_connection_each_and_share_them_later() -> None:
    async def scenario(peer: Peer) -> None:
        transport = transport_to(peer)
        for _ in range(3):
            found = await asyncio.gather(*(transport.exchange(GET, deadline()) for _ in range(5)))
            assert [one.body for one in found] == [b"hello"] * 5
        await transport.close()

    with peer_of(say(HELLO)) as peer:
        asyncio.run(scenario(peer))

        assert peer.connections <= 5
        assert len(peer.asked) == 15


def test_uvloop_does_as_well() -> None:
    async def scenario(peer: Peer) -> None:
        transport = transport_to(peer)
        for _ in range(3):
            assert (await transport.exchange(GET, deadline())).body == b"hello"
        await transport.close()

    with peer_of(say(HELLO)) as peer:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(scenario(peer))

        assert [asked.connection for asked in peer.asked] == [1, 1, 1]
