"""One connection of an event loop, used by one call at a time.

An `asyncio.Protocol` and not asyncio's streams: before an idle connection is used again, the
client must know that nothing was received on it meanwhile.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Final, cast

from penstock.client.address import Address
from penstock.client.connection_pool import IDLE_S
from penstock.clock import Clock

_UNREAD_BYTES_MAX: Final = 1024 * 1024


class AsyncConnection(asyncio.Protocol):
    """Belongs to the event loop that created it. `connect`, `send` and `receive` raise OSError, and
    TimeoutError when the deadline passes."""

    def __init__(self, clock: Clock) -> None:
        self.idle_since = 0.0
        self._clock = clock
        self._transport: asyncio.Transport | None = None
        self._unread = bytearray()
        self._is_paused = False
        self._is_over = False
        self._error: Exception | None = None
        self._may_write = asyncio.Event()
        self._may_read = asyncio.Event()
        self._gone = asyncio.Event()

    @classmethod
    async def connect(
        cls, address: Address, clock: Clock, tls: ssl.SSLContext | None, deadline: float
    ) -> AsyncConnection:
        async with within(clock, deadline):
            _, connection = await asyncio.get_running_loop().create_connection(
                lambda: cls(clock), address.host, address.port, ssl=tls
            )
        return connection

    async def send(self, data: bytes, deadline: float) -> None:
        async with within(self._clock, deadline):
            self._raise_lost()
            self._open().write(data)
            await self._may_write.wait()
            self._raise_lost()

    async def receive(self, deadline: float) -> bytes:
        """The next bytes; empty when the server has closed the connection."""
        async with within(self._clock, deadline):
            await self._may_read.wait()
        if not self._unread:
            if self._error is not None:
                raise self._error
            return b""
        data = bytes(self._unread)
        self._unread.clear()
        if not self._is_over:
            self._may_read.clear()
        if self._is_paused:
            self._is_paused = False
            self._open().resume_reading()
        return data

    async def is_fresh(self) -> bool:
        """Idle for less than `IDLE_S`, not closed by the server, and nothing received."""
        try:
            await asyncio.sleep(0)  # the loop delivers what the socket has received
        except asyncio.CancelledError:
            self.abort()
            raise
        is_young = self._clock.monotonic() - self.idle_since <= IDLE_S
        return is_young and not self._unread and not self._is_over

    def abort(self) -> None:
        """Make a call in progress fail at once; unsent bytes are discarded."""
        if not self._gone.is_set():  # asyncio fails on a transport that it has closed by itself
            self._open().abort()

    async def close(self) -> None:
        """Abort: nothing is left to send, so there is no reason to wait for a TLS shutdown."""
        self.abort()
        await self._gone.wait()

    def leave_to_parent(self) -> None:
        """Do nothing: the socket belongs to the parent's event loop."""

    def _open(self) -> asyncio.Transport:
        if self._transport is None:
            raise AssertionError("used before it was connected")
        return self._transport

    def _raise_lost(self) -> None:
        if self._gone.is_set():
            raise self._error or ConnectionResetError("the connection was closed")

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in shape only
        self._may_write.set()

    def data_received(self, data: bytes) -> None:
        self._unread += data
        self._may_read.set()
        if len(self._unread) > _UNREAD_BYTES_MAX and not self._is_paused:
            self._is_paused = True
            self._open().pause_reading()

    def eof_received(self) -> bool:
        self._end()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._error = exc if isinstance(exc, OSError) else None
        self._gone.set()
        self._may_write.set()
        self._end()

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def _end(self) -> None:
        self._is_over = True
        self._may_read.set()


def within(clock: Clock, deadline: float) -> asyncio.Timeout:
    """A timeout for the awaits in its block. TimeoutError at once when the deadline has passed."""
    left = deadline - clock.monotonic()
    if left <= 0:
        raise TimeoutError
    return asyncio.timeout(left)
