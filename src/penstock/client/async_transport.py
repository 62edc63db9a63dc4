"""Calls over asyncio: the same as `transport`, for one event loop."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator

from penstock import forks
from penstock.client.address import Address
from penstock.client.async_connection import AsyncConnection, within
from penstock.client.http import BadAnswer, Reader, Request, Response
from penstock.client.retry import Failure
from penstock.client.transport import IDLE_MAX, AttemptFailed, failed
from penstock.clock import Clock
from penstock.errors import Closed


class Stream:
    """An answer that goes on: its head is here, its body comes in pieces."""

    def __init__(self, connection: AsyncConnection, reader: Reader) -> None:
        self.status = reader.status
        self._connection = connection
        self._reader = reader

    async def read(self, deadline: float) -> bytes:
        """The next bytes; none when the stream has ended."""
        while True:
            piece = self._reader.take()
            if piece or self._reader.is_done:
                return piece
            data = await _received(self._connection, deadline)
            if not data:
                return b""
            _feed(self._reader, data)

    async def rest(self, deadline: float) -> Response:
        """All of it, for an answer that turned out to be a short one."""
        parts = []
        while piece := await self.read(deadline):
            parts.append(piece)
        return Response(self.status, self._reader.headers, b"".join(parts))


class AsyncTransport:
    """For the tasks of one event loop: each call has a connection to itself."""

    def __init__(self, address: Address, clock: Clock, tls: ssl.SSLContext | None) -> None:
        self._address = address
        self._clock = clock
        self._tls = tls
        self._idle: list[AsyncConnection] = []
        self._busy: set[AsyncConnection] = set()
        self._is_closed = False
        self._owner_pid = forks.pid()
        forks.add(self)

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    async def exchange(self, request: Request, deadline: float) -> Response:
        """Send, and read the whole answer. AttemptFailed, or Closed."""
        data = request.render(self._address.authority)
        async with self._connected(deadline) as connection:
            reader = Reader()
            await self._begin(connection, reader, data, deadline)
            while not reader.is_done:
                _feed(reader, await self._some(connection, deadline))
            if reader.is_reusable:
                self._keep(connection)
            return reader.response()

    @contextlib.asynccontextmanager
    async def stream(self, request: Request, deadline: float) -> AsyncIterator[Stream]:
        """Send, and hand over the answer as soon as its head is here."""
        data = request.render(self._address.authority)
        async with self._connected(deadline) as connection:
            reader = Reader(is_stream=True)
            await self._begin(connection, reader, data, deadline)
            while not reader.is_head_done:
                _feed(reader, await self._some(connection, deadline))
            yield Stream(connection, reader)

    async def close(self) -> None:
        """Let go of everything. Calls under way fail with Closed."""
        self._is_closed = True
        idle, self._idle = self._idle, []
        for connection in (*self._busy, *idle):
            connection.abort()
        for connection in idle:
            await connection.close()

    def closed_error(self) -> Closed:
        """Why no call is made any more."""
        if self._owner_pid != forks.pid():
            return forks.not_ours("client", self._owner_pid)
        return Closed("the client is closed")

    def leave_to_parent(self) -> None:
        """In a forked child: the connections and their event loop are the parent's."""
        self._is_closed = True
        self._idle, self._busy = [], set()

    @contextlib.asynccontextmanager
    async def _connected(self, deadline: float) -> AsyncIterator[AsyncConnection]:
        """A connection for one call; closed afterwards unless `_keep` took it."""
        connection = await self._reuse() or await self._connect(deadline)
        self._busy.add(connection)
        try:
            if self._is_closed:
                raise self.closed_error()
            yield connection
        except AttemptFailed:
            if self._is_closed:
                raise self.closed_error() from None
            raise
        finally:
            if connection in self._busy:
                self._busy.discard(connection)
                await connection.close()

    async def _begin(
        self, connection: AsyncConnection, reader: Reader, data: bytes, deadline: float
    ) -> None:
        try:
            await connection.send(data, deadline)
        except OSError as error:
            # A server that refuses a request answers before it has read it all, and closes.
            with contextlib.suppress(AttemptFailed):
                while not reader.is_done:
                    _feed(reader, await self._some(connection, deadline))
            if not reader.is_done:
                raise failed(Failure.LOST, error) from None

    async def _some(self, connection: AsyncConnection, deadline: float) -> bytes:
        data = await _received(connection, deadline)
        if not data:
            raise AttemptFailed(Failure.LOST, "the connection was closed before the answer")
        return data

    async def _reuse(self) -> AsyncConnection | None:
        while True:
            if self._is_closed:
                raise self.closed_error()
            if not self._idle:
                return None
            connection = self._idle.pop()
            try:
                await asyncio.sleep(0)  # so that the loop can tell it what has come in
            except asyncio.CancelledError:
                connection.abort()
                raise
            if connection.is_fresh():
                return connection
            await connection.close()

    async def _connect(self, deadline: float) -> AsyncConnection:
        host = self._address.host
        try:
            async with within(self._clock, deadline):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: AsyncConnection(self._clock), host, self._address.port, ssl=self._tls
                )
        except OSError as error:
            raise failed(Failure.NOT_SENT, error) from None
        return connection

    def _keep(self, connection: AsyncConnection) -> None:
        connection.idle_since = self._clock.monotonic()
        if not self._is_closed and len(self._idle) < IDLE_MAX:
            self._busy.discard(connection)
            self._idle.append(connection)


async def _received(connection: AsyncConnection, deadline: float) -> bytes:
    try:
        return await connection.receive(deadline)
    except OSError as error:
        raise failed(Failure.LOST, error) from None


def _feed(reader: Reader, data: bytes) -> None:
    try:
        reader.feed(data)
    except BadAnswer as error:
        raise failed(Failure.LOST, error) from None
