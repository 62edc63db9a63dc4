"""A TCP proxy for HTTP/1.1 that harms what passes through it, by a seeded schedule.

It reads requests and answers whole, so that it knows where they end: that is what makes "after the
request was sent and before the answer" a place, and not a race. Runs in a thread of its own.
"""

from __future__ import annotations

import asyncio
import enum
import random
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any

Address = tuple[str, int]
LIMIT_BYTES = 1 << 20
LATENCY_S_MAX = 0.020
LATE_S_MAX = 0.060
SLICED_BYTES_MAX = 4096  # the rest goes in one piece: the point is made by then
STREAM_BITS_MAX = 20  # a stream is cut after at most so many bytes, as a power of two
_RESET = struct.pack("ii", 1, 0)  # linger for no time: what is unsent is dropped, the peer told


class Fault(enum.Enum):
    """What happens to one request."""

    NONE = "none"
    LATENCY = "latency"  # both ways
    SLICE = "slice"  # one byte at a time, both ways
    HALF_CLOSE = "half-close"  # the server sees the end of the input and must still answer
    BLACK_HOLE = "black-hole"  # the server gets it; no answer ever comes back
    DUPLICATE = "duplicate"  # delivered twice, on two connections, at about the same time
    RESET_UNSENT = "reset-unsent"  # the server never hears of it
    RESET_IN_REQUEST = "reset-in-request"  # the server gets the beginning
    RESET_SENT = "reset-sent"  # the server has it all and may be at work
    RESET_ANSWERED = "reset-answered"  # the server has done it; the answer is dropped
    RESET_IN_REPLY = "reset-in-reply"  # the caller gets the beginning of the answer
    RESET_LATE = "reset-late"  # the server gets it a while after the caller was cut off


RESETS = frozenset(fault for fault in Fault if fault.value.startswith("reset"))

# Shares out of a hundred requests; what is left passes unharmed.
ROUGH: Mapping[Fault, float] = {
    Fault.LATENCY: 4,
    Fault.SLICE: 2,
    Fault.HALF_CLOSE: 2,
    Fault.BLACK_HOLE: 0.1,
    Fault.DUPLICATE: 4,
    Fault.RESET_UNSENT: 2,
    Fault.RESET_IN_REQUEST: 3,
    Fault.RESET_SENT: 4,
    Fault.RESET_ANSWERED: 4,
    Fault.RESET_IN_REPLY: 3,
    Fault.RESET_LATE: 2,
}


class Schedule:
    """Which fault comes when. Depends on the seed and the numbers of connection and request
    alone, not on how calls happen to interleave."""

    def __init__(self, seed: object, shares: Mapping[Fault, float]) -> None:
        self._seed = seed
        self._faults = list(shares)
        self._weights = list(shares.values())
        rest = 100 - sum(self._weights)
        if rest > 0:
            self._faults.append(Fault.NONE)
            self._weights.append(rest)

    def choose(self, connection: int, request: int) -> tuple[Fault, random.Random]:
        """The fault, and the chances to be taken with its details."""
        chance = random.Random(f"{self._seed}.{connection}.{request}")
        (fault,) = chance.choices(self._faults, self._weights)
        return fault, chance


class _Cut(Exception):
    """The connection was harmed beyond use."""


class _Side:
    """One of the two connections that meet here."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    async def message(self) -> bytes:
        """The next request or answer, whole; empty at the end. One without a length, which is
        a stream, is its head alone."""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as error:
            if error.partial:
                raise _Cut from None
            return b""
        return head + await self.reader.readexactly(_length(head))

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def send_sliced(self, data: bytes) -> None:
        for at in range(min(len(data), SLICED_BYTES_MAX)):
            await self.send(data[at : at + 1])
            await asyncio.sleep(0)
        await self.send(data[SLICED_BYTES_MAX:])

    def reset(self) -> None:
        with suppress(OSError):
            sock = self.writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.writer.transport.abort()

    def close(self) -> None:
        self.writer.close()


class Proxy:
    """A context manager. `counts` says how often each fault happened."""

    def __init__(self, target: Callable[[], Address], schedule: Schedule) -> None:
        self.counts: Counter[Fault] = Counter()
        self.address: Address = ("", 0)
        self._target = target
        self._schedule = schedule
        self._connections = 0
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._sides: set[_Side] = set()
        self._is_up = threading.Event()
        self._over = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)

    @property
    def resets(self) -> int:
        return sum(self.counts[fault] for fault in RESETS)

    @property
    def url(self) -> str:
        return f"http://{self.address[0]}:{self.address[1]}"

    def __enter__(self) -> Proxy:
        self._thread.start()
        self._is_up.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=LIMIT_BYTES)
        self.address = server.sockets[0].getsockname()[:2]
        self._is_up.set()
        await self._over.wait()
        server.close()
        # Also those that were accepted at the last moment and have no task of ours yet.
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
        for side in self._sides:  # one whose task was cancelled before it began is open still
            side.writer.transport.abort()
        await asyncio.sleep(0)  # the loop closes them

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        client = _Side(reader, writer)
        self._sides.add(client)
        self._begin(self._meet(self._connections, client))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _meet(self, number: int, client: _Side) -> None:
        try:
            server = await self._connect()
        except OSError:
            client.reset()
            return
        try:
            await self._pass_on(number, client, server)
        except (OSError, asyncio.IncompleteReadError, _Cut):
            client.reset()
            server.reset()
        finally:
            client.close()
            server.close()

    async def _connect(self) -> _Side:
        server = _Side(*await asyncio.open_connection(*self._target(), limit=LIMIT_BYTES))
        self._sides.add(server)
        return server

    async def _pass_on(self, connection: int, client: _Side, server: _Side) -> None:
        number = 0
        while request := await client.message():
            number += 1
            fault, chance = self._schedule.choose(connection, number)
            self.counts[fault] += 1
            await self._carry(fault, chance, request, client, server)

    async def _carry(
        self, fault: Fault, chance: random.Random, request: bytes, client: _Side, server: _Side
    ) -> None:
        """One request there and its answer back, or what the fault leaves of that."""
        match fault:
            case Fault.RESET_UNSENT:
                raise _Cut
            case Fault.RESET_IN_REQUEST:
                await server.send(request[: chance.randrange(1, len(request))])
                await asyncio.sleep(chance.uniform(0, LATENCY_S_MAX))
                raise _Cut
            case Fault.RESET_LATE:
                self._deliver(request, chance.uniform(0, LATE_S_MAX))
                raise _Cut
            case Fault.RESET_SENT:
                await server.send(request)
                raise _Cut
            case Fault.SLICE:
                await server.send_sliced(request)
            case Fault.LATENCY:
                await asyncio.sleep(chance.uniform(0, LATENCY_S_MAX))
                await server.send(request)
            case Fault.DUPLICATE:
                self._deliver(request, chance.choice((0.0, chance.uniform(0, LATE_S_MAX))))
                await server.send(request)
            case Fault.HALF_CLOSE:
                await server.send(request)
                server.writer.write_eof()
            case _:
                await server.send(request)
        await self._answer(fault, chance, client, server)

    async def _answer(
        self, fault: Fault, chance: random.Random, client: _Side, server: _Side
    ) -> None:
        reply = await server.message()
        if not reply:
            raise _Cut
        match fault:
            case Fault.RESET_ANSWERED:
                raise _Cut
            case Fault.RESET_IN_REPLY:
                await client.send(reply[: chance.randrange(1, len(reply))])
                raise _Cut
            case Fault.BLACK_HOLE:
                await client.reader.read()  # until the caller gives up
                raise _Cut
            case Fault.SLICE:
                await client.send_sliced(reply)
            case Fault.LATENCY:
                await asyncio.sleep(chance.uniform(0, LATENCY_S_MAX))
                await client.send(reply)
            case _:
                await client.send(reply)
        if not _has_length(reply):
            await self._stream(chance, client, server)
        if fault is Fault.HALF_CLOSE:
            client.close()

    async def _stream(self, chance: random.Random, client: _Side, server: _Side) -> None:
        """An answer without an end goes on until one side leaves, or is cut somewhere: often
        soon, sometimes late."""
        left = round(2 ** chance.uniform(0, STREAM_BITS_MAX))
        gone = asyncio.ensure_future(client.reader.read())
        gone.add_done_callback(lambda _: server.reset())
        try:
            while piece := await server.reader.read(LIMIT_BYTES):
                await client.send(piece[:left])
                left -= len(piece)
                if left <= 0:
                    self.counts[Fault.RESET_IN_REPLY] += 1
                    raise _Cut
        finally:
            gone.cancel()

    def _deliver(self, request: bytes, delay_s: float) -> None:
        """Send a copy on a connection of its own; nobody waits for its answer but us."""

        async def deliver() -> None:
            await asyncio.sleep(delay_s)
            with suppress(OSError, asyncio.IncompleteReadError, _Cut):
                server = await self._connect()
                try:
                    await server.send(request)
                    await server.message()
                finally:
                    server.close()

        self._begin(deliver())


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


def _has_length(reply: bytes) -> bool:
    head = reply.partition(b"\r\n\r\n")[0]
    return b"\r\ncontent-length:" in head.lower()
