"""One connection of an event loop, used by one call at a time.

A protocol of our own and not asyncio's streams: before a kept connection is used again we must
know that nothing unasked for has come in on it.
"""

from __future__ import annotations

import asyncio
from typing import Final, cast

from penstock.client.transport import IDLE_S
from penstock.clock import Clock

_UNREAD_BYTES_MAX: Final = 1024 * 1024


class AsyncConnection(asyncio.Protocol):
    """Belongs to the loop it was made in. `send` and `receive` raise OSError, TimeoutError
    when the deadline passes."""

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

    async def send(self, data: bytes, deadline: float) -> None:
        async with within(self._clock, deadline):
            self._raise_lost()
            self._open().write(data)
            await self._may_write.wait()
            self._raise_lost()

    async def receive(self, deadline: float) -> bytes:
        """The next bytes; none when the other side has closed."""
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

    def is_fresh(self) -> bool:
        """Idle, and neither closed by the other side nor sent anything by it."""
        is_young = self._clock.monotonic() - self.idle_since <= IDLE_S
        return is_young and not self._unread and not self._is_over

    def abort(self) -> None:
        """Make a call under way fail at once; what was not sent yet is forgotten."""
        if not self._gone.is_set():  # asyncio fails on a transport that it has closed by itself
            self._open().abort()

    async def close(self) -> None:
        """Nothing is left to be sent, so that no goodbye of TLS needs to be waited for."""
        self.abort()
        await self._gone.wait()

    def _open(self) -> asyncio.Transport:
        if self._transport is None:
            raise AssertionError("used before it was connected")
        return self._transport

    def _raise_lost(self) -> None:
        if self._gone.is_set():
            raise self._error or ConnectionResetError("the connection was closed")

    # What the loop calls.

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
    """Bounds what is awaited in it: TimeoutError at the deadline, at once when it has passed."""
    left = deadline - clock.monotonic()
    if left <= 0:
        raise TimeoutError
    return asyncio.timeout(left)
