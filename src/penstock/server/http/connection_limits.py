"""Limits and deadlines of connections, and the one timer that enforces them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from email.utils import formatdate
from typing import Final, Protocol

from penstock.clock import Clock
from penstock.server.settings import ServerSettings

HEADER_BYTES_MAX: Final = 64 * 1024
HEADERS_MAX: Final = 128
SCREEN_BYTES: Final = 64 * 1024  # longer bodies are read only for callers who may send them
SMALL_BODY_BYTES: Final = 1024 * 1024  # of requests that carry no records
PIPELINE_MAX: Final = 128  # requests of one connection that wait for their answers
TURN_MAX: Final = 32  # requests or messages of one peer before others have their turn
BODY_GRACE_S: Final = 5.0
LINGER_BYTES_MAX: Final = 64 * 1024 * 1024
LINGER_S: Final = 2.0  # time for a peer that still sends a refused body to read the error
_BEAT_S: Final = 0.5
_TELL_S: Final = 10.0  # between two lines on the same matter

_log = logging.getLogger("penstock.server")


class PeerConnection(Protocol):
    """A connection to one peer. Event loop only."""

    def beat(self, now: float) -> None:
        """Close the connection when the peer has missed a deadline."""

    def shut(self) -> None:
        """Accept no more requests; close after the last answer."""

    def abort(self) -> None:
        """Close at once."""


class ConnectionLimits:
    """Checks the deadlines of every connection on one timer: a timer for each would cost more
    than most requests."""

    def __init__(self, settings: ServerSettings, clock: Clock) -> None:
        self.settings = settings
        self.header_timeout_s = settings.header_timeout_ms / 1000
        self.body_timeout_s = settings.body_timeout_ms / 1000
        self.idle_timeout_s = settings.idle_timeout_ms / 1000
        self.stall_timeout_s = settings.stream_stall_ms / 1000
        self.body_bytes_max = settings.max_body_bytes
        self.body_min_rate = settings.body_min_rate
        self.monotonic = clock.monotonic
        self.now = clock.monotonic()
        self._date = b""
        self.json_head = b""  # of an answer with a JSON body, up to its length
        self.connections_max = settings.max_connections
        self.refused = 0
        self._refused_told = 0
        self._tell_s = 0.0
        self._clock = clock
        self._connections: set[PeerConnection] = set()
        self._peers: dict[str, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_empty = asyncio.Event()

    def __len__(self) -> int:
        return len(self._connections)

    @property
    def date(self) -> bytes:
        """The `date` header's value, renewed with every beat."""
        return self._date

    @date.setter
    def date(self, date: bytes) -> None:
        self._date = date
        self.json_head = (
            b"HTTP/1.1 200 OK\r\ndate: %b\r\nx-content-type-options: nosniff\r\n"
            b"content-type: application/json\r\ncontent-length: " % date
        )

    @property
    def connections(self) -> Iterable[PeerConnection]:
        return list(self._connections)

    def start(self) -> None:
        self.date = formatdate(self._clock.now_ms() / 1000, usegmt=True).encode()
        self._beat()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def admit(self, connection: PeerConnection, peer: str) -> bool:
        """Count a new connection. False when there are too many."""
        most, per_peer = self.connections_max, self.settings.max_connections_per_peer
        if (most and len(self._connections) >= most) or (
            per_peer and self._peers.get(peer, 0) >= per_peer
        ):
            self.refused += 1
            return False
        self._connections.add(connection)
        self._is_empty.clear()
        self._peers[peer] = self._peers.get(peer, 0) + 1
        return True

    def forget(self, connection: PeerConnection, peer: str) -> None:
        if connection in self._connections:
            self._connections.discard(connection)
            left = self._peers.get(peer, 1) - 1
            if left:
                self._peers[peer] = left
            else:
                self._peers.pop(peer, None)
        if not self._connections:
            self._is_empty.set()

    async def empty(self) -> None:
        """Wait until the last connection is closed."""
        if self._connections:
            await self._is_empty.wait()

    def _beat(self) -> None:
        # First, so that an exception below does not stop the timer.
        self._timer = asyncio.get_running_loop().call_later(_BEAT_S, self._beat)
        self.now = self._clock.monotonic()
        self.date = formatdate(self._clock.now_ms() / 1000, usegmt=True).encode()
        for connection in list(self._connections):
            connection.beat(self.now)
        if self.refused > self._refused_told and self.now >= self._tell_s:
            self._tell_refused()

    def _tell_refused(self) -> None:
        """Log refused connections at intervals: a flood must not fill the server's log."""
        _log.warning(
            "%d connections were refused: %d are open, of %d at most (max_connections)",
            self.refused - self._refused_told,
            len(self._connections),
            self.connections_max,
        )
        self._refused_told = self.refused
        self._tell_s = self.now + _TELL_S
