"""One connection of beava's TCP port: what it holds, and when it reads. tests/server/test_beava.py
drives it over sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

import pytest

from penstock.clock import SystemClock
from penstock.compat.beava.frames import GET, BeavaFrame, encoded
from penstock.compat.beava.tcp_listener import BeavaConnection
from penstock.server.http.connection_limits import ConnectionLimits
from penstock.server.settings import ServerSettings


class Verbs:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.go = asyncio.Event()

    async def answers(self, requests: Sequence[BeavaFrame]) -> bytes:
        self.asked.append(len(requests))
        await self.go.wait()
        return b"".join(encoded(frame.op, b"{}") for frame in requests)


class Socket:
    """Takes its options."""

    def setsockopt(self, *_: int) -> None:
        """They are for real ones."""


class Wire(asyncio.Transport):
    """Says what became of the connection."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "socket": Socket()})
        self.written = b""
        self.is_read = True
        self.is_over = False

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is buffered."""

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.is_over

    def close(self) -> None:
        self.is_over = True


def connected(verbs: Verbs) -> tuple[BeavaConnection, Wire]:
    limits = ConnectionLimits(ServerSettings(), SystemClock())
    connection = BeavaConnection(verbs, limits, 4 << 20)  # type: ignore[arg-type]
    wire = Wire()
    connection.connection_made(wire)
    return connection, wire


async def settle() -> None:
    """Until nothing that is ready is left to run."""
    for _ in range(20):
        await asyncio.sleep(0)


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


@pytest.mark.parametrize("frames", [[b"x"] * 2_000, [b"x" * (4 << 20)] * 2])
def test_a_connection_with_much_to_do_is_not_read_from(frames: list[bytes]) -> None:
    async def test() -> None:
        verbs = Verbs()
        connection, wire = connected(verbs)
        connection.data_received(encoded(GET, b"first"))
        await settle()

        connection.data_received(b"".join(encoded(GET, payload) for payload in frames))

        assert not wire.is_read
        verbs.go.set()
        await settle()
        assert wire.is_read
        assert verbs.asked == [1, len(frames)]
        assert wire.written == encoded(GET, b"{}") * (1 + len(frames))

    run(test())


def test_the_next_batch_waits_for_a_peer_that_does_not_read() -> None:
    async def test() -> None:
        verbs = Verbs()
        verbs.go.set()
        connection, wire = connected(verbs)
        connection.pause_writing()
        connection.data_received(encoded(GET, b"first"))
        await settle()

        connection.data_received(encoded(GET, b"second"))
        await settle()

        assert verbs.asked == [1]
        connection.resume_writing()
        await settle()
        assert verbs.asked == [1, 1]
        assert wire.written == encoded(GET, b"{}") * 2

    run(test())


def test_a_connection_that_is_shut_closes_after_its_answers() -> None:
    async def test() -> None:
        verbs = Verbs()
        connection, wire = connected(verbs)
        connection.data_received(encoded(GET, b"") * 3)
        connection.shut()
        await settle()

        assert not wire.is_over
        verbs.go.set()
        await settle()
        assert (wire.is_over, wire.written) == (True, encoded(GET, b"{}") * 3)

    run(test())


def test_a_connection_without_work_closes_at_once() -> None:
    async def test() -> None:
        connection, wire = connected(Verbs())

        connection.shut()

        assert (wire.is_over, wire.written) == (True, b"")

    run(test())
