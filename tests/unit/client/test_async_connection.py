"""One connection of an event loop, against a plain socket."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest

from penstock.client.async_connection import AsyncConnection
from penstock.clock import SystemClock
from tests.unit.client.support import DEADLINE_S

CLOCK = SystemClock()


@contextlib.asynccontextmanager
async def pair() -> AsyncIterator[tuple[AsyncConnection, socket.socket]]:
    """(ours, the other end)"""
    ours, other = socket.socketpair()
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(lambda: AsyncConnection(CLOCK), sock=ours)
    connection.idle_since = CLOCK.monotonic()
    with other:
        try:
            yield connection, other
        finally:
            await connection.close()


async def stale(connection: AsyncConnection) -> None:
    for _ in range(10_000):
        if not await connection.is_fresh():
            return
        await asyncio.sleep(0)
    raise AssertionError("it is still fresh")


def soon() -> float:
    return CLOCK.monotonic() + DEADLINE_S


def test_bytes_go_both_ways() -> None:
    async def scenario() -> None:
        async with pair() as (connection, other):
            await connection.send(b"ping", soon())
            assert other.recv(100) == b"ping"
            other.sendall(b"pong")
            assert await connection.receive(soon()) == b"pong"
            other.close()
            assert await connection.receive(soon()) == b""
            assert await connection.receive(soon()) == b""

    asyncio.run(scenario())


def test_what_was_received_before_the_end_is_not_lost() -> None:
    async def scenario() -> None:
        async with pair() as (connection, other):
            other.sendall(b"last words")
            other.close()
            for _ in range(10):
                await asyncio.sleep(0)
            assert not await connection.is_fresh()
            assert await connection.receive(soon()) == b"last words"
            assert await connection.receive(soon()) == b""

    asyncio.run(scenario())


def test_it_is_fresh_until_something_comes_or_it_ends_or_grows_old() -> None:
    async def scenario() -> None:
        async with pair() as (connection, other):
            assert await connection.is_fresh()
            other.sendall(b"x")
            await stale(connection)
        async with pair() as (connection, other):
            other.close()
            await stale(connection)
        async with pair() as (connection, _):
            connection.idle_since -= 1000
            assert not await connection.is_fresh()

    asyncio.run(scenario())


def test_a_reader_that_is_slow_makes_the_writer_wait() -> None:
    """What nobody has read yet is bounded; the rest stays with the sender."""

    async def scenario() -> None:
        async with pair() as (connection, other):
            other.setblocking(False)
            sent = 0
            with contextlib.suppress(BlockingIOError):
                while sent < 1 << 28:
                    sent += other.send(bytes(1 << 16))
                    await asyncio.sleep(0)
            assert sent < 1 << 28
            received = 0
            while received < sent:
                received += len(await connection.receive(soon()))
            assert received == sent

    asyncio.run(scenario())


def test_deadlines_hold_for_both_directions() -> None:
    async def scenario() -> None:
        async with pair() as (connection, _):
            with pytest.raises(TimeoutError):
                await connection.receive(CLOCK.monotonic() + 0.02)
            with pytest.raises(TimeoutError):
                await connection.receive(CLOCK.monotonic() - 1)
            with pytest.raises(TimeoutError):
                await connection.send(bytes(50_000_000), CLOCK.monotonic() + 0.05)

    asyncio.run(scenario())


def test_nothing_can_be_sent_on_a_connection_that_is_gone() -> None:
    async def scenario() -> None:
        async with pair() as (connection, _):
            connection.abort()
            await connection.close()
            with pytest.raises(OSError, match="closed"):
                await connection.send(b"x", soon())

    asyncio.run(scenario())


def test_a_connection_that_ended_by_itself_can_be_closed() -> None:
    """The other side says that it is done and reads on: the rest is sent, then it is over."""

    async def scenario() -> None:
        async with pair() as (connection, other):
            sending = asyncio.create_task(connection.send(b"x" * 5_000_000, soon()))
            await asyncio.sleep(0)
            other.shutdown(socket.SHUT_WR)
            assert await connection.receive(soon()) == b""
            await asyncio.to_thread(lambda: [None for _ in iter(lambda: other.recv(1 << 20), b"")])
            with contextlib.suppress(ConnectionResetError):
                await sending
            await connection.close()
            connection.abort()

    asyncio.run(scenario())
