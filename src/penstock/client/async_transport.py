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
from penstock.client.async_early_refusal import send
from penstock.client.async_response_stream import AsyncResponseStream, receive
from penstock.client.attempt_failed import AttemptFailed, Failure, failed
from penstock.client.connection_pool import Checkout, ConnectionPool
from penstock.client.http import HttpRequest, HttpResponse, ResponseReader
from penstock.clock import Clock
from penstock.errors import Closed


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
            await send(connection, reader, data, deadline)
            while not reader.is_done:
                await receive(connection, reader, deadline)
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
            await send(connection, reader, data, deadline)
            while not reader.is_head_done:
                await receive(connection, reader, deadline)
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
