"""beava's TCP port: connections whose answers have the order of their requests.

What arrives while requests are at work is the next batch. A peer that does not read its answers is
not read from.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Final, cast

from penstock.compat.beava import frames
from penstock.compat.beava.frame_verbs import FrameVerbs
from penstock.compat.beava.frames import (
    BeavaFrame,
    BeavaFrameReader,
    FrameTooLong,
    FrameTooShort,
    encoded,
)
from penstock.compat.beava.replies import BeavaError, json_of
from penstock.server.adapters import ConnectionLimits, Site, Stall

_BATCH_MAX: Final = 2_000  # requests that are at work at a time
_WAITING_BYTES_MAX: Final = 8 << 20  # of requests that wait; then the peer is not read from
_HEAD_BYTES: Final = 3  # which the declared length counts, and the limit of the payload does not
_log = logging.getLogger("penstock.compat.beava")


class TcpListener:
    """Event loop only. `answering` makes the verbs for a site."""

    def __init__(
        self,
        bound: socket.socket,
        answering: Callable[[Site], FrameVerbs],
        payload_bytes_max: int = frames.PAYLOAD_BYTES_MAX,
    ) -> None:
        self._socket = bound
        self._answering = answering
        self._payload_bytes_max = payload_bytes_max
        self._server: asyncio.Server | None = None

    async def start(self, site: Site) -> None:
        await site.features.open()
        verbs = self._answering(site)
        self._server = await asyncio.get_running_loop().create_server(
            lambda: BeavaConnection(verbs, site.connection_limits, self._payload_bytes_max),
            sock=self._socket,
        )

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        else:
            self._socket.close()


class BeavaConnection(asyncio.Protocol):
    """One client. Event loop only."""

    def __init__(self, verbs: FrameVerbs, limits: ConnectionLimits, payload_bytes_max: int) -> None:
        self._verbs = verbs
        self._limits = limits
        self._reader = BeavaFrameReader(payload_bytes_max)
        self._transport: asyncio.Transport | None = None
        self._peer = ""
        self._waiting: list[BeavaFrame] = []
        self._waiting_bytes = 0  # of their payloads
        self._last_words: bytes | None = None  # sent behind the answers; then it is closed
        self._task: asyncio.Task[None] | None = None
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._is_paused = False
        self._stall = Stall(limits.stall_timeout_s)

    # asyncio.Protocol.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        address = transport.get_extra_info("peername")
        self._peer = str(address[0]) if address else ""
        if not self._limits.admit(self, self._peer):
            transport.close()
            return
        wire = transport.get_extra_info("socket")
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._transport = stream = cast(asyncio.Transport, transport)  # always one
        stream.set_write_buffer_limits(self._limits.settings.stream_buffer_bytes)

    def connection_lost(self, error: Exception | None) -> None:
        self._limits.forget(self, self._peer)
        self._transport = None
        self._waiting.clear()
        self._may_write.set()

    def data_received(self, data: bytes) -> None:
        if self._last_words is not None:
            return
        try:
            for frame in self._reader.feed(data):
                self._waiting.append(frame)
                self._waiting_bytes += len(frame.payload)
        except FrameTooLong as error:
            self._end_with(_too_long(error))
        except FrameTooShort:
            self._end_with(b"")
        if self._is_full and not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()
        if self._waiting and self._task is None:
            self._task = asyncio.ensure_future(self._work())

    def eof_received(self) -> bool:
        """Answers that are still due are sent before the connection closes."""
        self._end_with(b"")
        return self._task is not None

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    @property
    def _is_full(self) -> bool:
        return len(self._waiting) >= _BATCH_MAX or self._waiting_bytes >= _WAITING_BYTES_MAX

    # Answers.

    async def _work(self) -> None:
        try:
            while self._waiting and self._transport is not None:
                batch, self._waiting = self._waiting[:_BATCH_MAX], self._waiting[_BATCH_MAX:]
                self._waiting_bytes = sum([len(frame.payload) for frame in self._waiting])
                if self._is_paused and not self._is_full:
                    self._is_paused = False
                    self._transport.resume_reading()
                self._write(await self._verbs.answers(batch))
                await self._may_write.wait()
        except Exception:  # noqa: BLE001 - of one connection, not of the others
            _log.exception("a connection of %s failed", self._peer)
            self.abort()
        finally:
            self._task = None
            self._close_if_done()

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def _end_with(self, words: bytes) -> None:
        if self._last_words is None:
            self._last_words = words
        self._close_if_done()

    def _close_if_done(self) -> None:
        if self._last_words is None or self._task is not None or self._waiting:
            return
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(self._last_words)
            self._transport.close()

    # The server's side.

    def beat(self, now: float) -> None:
        """A connection may be silent for ever: the client does not connect again."""
        unsent = 0 if self._transport is None else self._transport.get_write_buffer_size()
        if self._stall.is_over(unsent, now):
            self.abort()

    def shut(self) -> None:
        self._end_with(b"")

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


def _too_long(error: FrameTooLong) -> bytes:
    limit = error.limit + _HEAD_BYTES
    found = BeavaError(
        400,
        "frame_too_large",
        declared=error.declared,
        limit=limit,
        message=f"declared frame length {error.declared} exceeds limit {limit}",
    )
    return encoded(frames.ERROR, json_of(found.body()))
