"""HTTP calls over asyncio: connections are pooled and reused, and each call has a deadline.

An attempt ends with a response or raises `AttemptFailed`; `retry` decides whether to repeat it.
Nothing is sent twice here.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncIterator

from penstock.client.address import Address
from penstock.client.async_connection import AsyncConnection
from penstock.client.attempt_failed import AttemptFailed, Failure, failed
from penstock.client.connection_pool import Checkout, ConnectionPool
from penstock.client.http import BadAnswer, HttpRequest, HttpResponse, ResponseReader
from penstock.clock import Clock
from penstock.errors import Closed


class AsyncResponseStream:
    """A response whose head has been read; its body is read in pieces."""

    def __init__(self, connection: AsyncConnection, reader: ResponseReader) -> None:
        self.status = reader.status
        self._connection = connection
        self._reader = reader

    async def read(self, deadline: float) -> bytes:
        """The next bytes; empty at the end of the stream."""
        while True:
            piece = self._reader.pop_body()
            if piece or self._reader.is_done:
                return piece
            data = await _received(self._connection, deadline)
            if not data:
                return b""
            _feed(self._reader, data)

    async def rest(self, deadline: float) -> HttpResponse:
        """The whole response, for one that is not a stream."""
        parts = []
        while piece := await self.read(deadline):
            parts.append(piece)
        return HttpResponse(self.status, self._reader.headers, b"".join(parts))


class AsyncTransport:
    """Safe from several tasks of one event loop. Each call has a connection to itself."""

    def __init__(self, address: Address, clock: Clock, tls: ssl.SSLContext | None) -> None:
        self._address = address
        self._clock = clock
        self._tls = tls
        self._pool: ConnectionPool[AsyncConnection] = ConnectionPool(clock)

    @property
    def is_ours(self) -> bool:
        """False in a forked child."""
        return self._pool.is_ours

    def closed_error(self) -> Closed:
        """The error of a call on a closed client."""
        return self._pool.closed_error()

    async def exchange(self, request: HttpRequest, deadline: float) -> HttpResponse:
        """Send a request and read the whole response. Raises AttemptFailed or Closed."""
        data = request.render(self._address.authority)
        async with self._connected(deadline) as checkout:
            connection = checkout.connection
            reader = ResponseReader()
            await self._send(connection, reader, data, deadline)
            while not reader.is_done:
                _feed(reader, await self._receive(connection, deadline))
            checkout.is_reusable = reader.is_reusable
            return reader.response()

    @contextlib.asynccontextmanager
    async def stream(
        self, request: HttpRequest, deadline: float
    ) -> AsyncIterator[AsyncResponseStream]:
        """Send a request and read the head of the response. Raises AttemptFailed or Closed."""
        data = request.render(self._address.authority)
        async with self._connected(deadline) as checkout:
            connection = checkout.connection
            reader = ResponseReader(is_stream=True)
            await self._send(connection, reader, data, deadline)
            while not reader.is_head_done:
                _feed(reader, await self._receive(connection, deadline))
            yield AsyncResponseStream(connection, reader)

    async def close(self) -> None:
        """Close all connections. Calls in progress fail with Closed."""
        busy, idle = self._pool.close()
        for connection in (*busy, *idle):
            connection.abort()
        for connection in idle:
            await connection.close()

    @contextlib.asynccontextmanager
    async def _connected(self, deadline: float) -> AsyncIterator[Checkout[AsyncConnection]]:
        """A connection for one call; kept afterwards if it is reusable, else closed."""
        connection = await self._reuse() or await self._connect(deadline)
        self._pool.add_busy(connection)
        checkout = Checkout(connection)
        try:
            if self._pool.is_closed:
                raise self.closed_error()
            yield checkout
        except AttemptFailed:
            if self._pool.is_closed:
                raise self.closed_error() from None
            raise
        finally:
            if self._pool.release(checkout):
                await connection.close()

    async def _send(
        self, connection: AsyncConnection, reader: ResponseReader, data: bytes, deadline: float
    ) -> None:
        try:
            await connection.send(data, deadline)
        except OSError as error:
            # A server that refuses a request may answer and close before it has read all of it.
            with contextlib.suppress(AttemptFailed):
                while not reader.is_done:
                    _feed(reader, await self._receive(connection, deadline))
            if not reader.is_done:
                raise failed(Failure.LOST, error) from None

    async def _receive(self, connection: AsyncConnection, deadline: float) -> bytes:
        data = await _received(connection, deadline)
        if not data:
            raise AttemptFailed(Failure.LOST, "the connection was closed before the answer")
        return data

    async def _reuse(self) -> AsyncConnection | None:
        """An idle connection that the server has not closed; None when there is none."""
        while connection := self._pool.pop_idle():
            if await connection.is_fresh():
                return connection
            await connection.close()
        return None

    async def _connect(self, deadline: float) -> AsyncConnection:
        try:
            return await AsyncConnection.connect(self._address, self._clock, self._tls, deadline)
        except OSError as error:
            raise failed(Failure.NOT_SENT, error) from None


async def _received(connection: AsyncConnection, deadline: float) -> bytes:
    try:
        return await connection.receive(deadline)
    except OSError as error:
        raise failed(Failure.LOST, error) from None


def _feed(reader: ResponseReader, data: bytes) -> None:
    try:
        reader.feed(data)
    except BadAnswer as error:
        raise failed(Failure.LOST, error) from None
