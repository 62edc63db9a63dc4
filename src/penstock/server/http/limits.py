"""Bounds and deadlines of connections, and the one clock hand that enforces them all."""

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
LINGER_S: Final = 2.0  # for a peer that still sends what was refused to read the refusal
_BEAT_S: Final = 0.5
_TELL_S: Final = 10.0  # between two lines on the same matter

_log = logging.getLogger("penstock.server")


class Connection(Protocol):
    """One peer. Event loop only."""

    def beat(self, now: float) -> None:
        """Close yourself when the peer is late."""

    def shut(self) -> None:
        """Take no more requests; close when the last answer is out."""

    def abort(self) -> None:
        """Close at once."""


class Stall:
    """How long a peer has taken nothing of what it was sent."""

    __slots__ = ("_left", "_since_s", "_timeout_s")

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._left = 0
        self._since_s = 0.0

    def is_over(self, left: int, now: float) -> bool:
        """With `left` bytes unsent, has it lasted too long? Less than at the last look is progress,
        however little; more came from us."""
        if not left or left < self._left or not self._since_s:
            self._since_s = now
        self._left = left
        return now - self._since_s > self._timeout_s


class Watchman:
    """Knows every connection and looks after their deadlines on one timer: a timer for each
    would cost more than most requests do."""

    def __init__(self, settings: ServerSettings, clock: Clock) -> None:
        self.settings = settings
        self.header_timeout_s = settings.header_timeout_ms / 1000
        self.body_timeout_s = settings.body_timeout_ms / 1000
        self.idle_timeout_s = settings.idle_timeout_ms / 1000
        self.stall_timeout_s = settings.stream_stall_ms / 1000
        self.body_bytes_max = settings.max_body_bytes
        self.body_min_rate = settings.body_min_rate
        self.now = clock.monotonic()
        self.date = b""
        self.connections_max = settings.max_connections
        self.refused = 0
        self._refused_told = 0
        self._tell_s = 0.0
        self._clock = clock
        self._connections: set[Connection] = set()
        self._peers: dict[str, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_empty = asyncio.Event()

    def __len__(self) -> int:
        return len(self._connections)

    @property
    def connections(self) -> Iterable[Connection]:
        return list(self._connections)

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def start(self) -> None:
        self.date = formatdate(self._clock.now_ms() / 1000, usegmt=True).encode()
        self._beat()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def admit(self, connection: Connection, peer: str) -> bool:
        """Count a new connection, unless there are too many."""
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

    def forget(self, connection: Connection, peer: str) -> None:
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
        """Wait until the last connection is gone."""
        if self._connections:
            await self._is_empty.wait()

    def _beat(self) -> None:
        # Set first: whatever goes wrong below, deadlines go on being held.
        self._timer = asyncio.get_running_loop().call_later(_BEAT_S, self._beat)
        self.now = self._clock.monotonic()
        self.date = formatdate(self._clock.now_ms() / 1000, usegmt=True).encode()
        for connection in list(self._connections):
            connection.beat(self.now)
        if self.refused > self._refused_told and self.now >= self._tell_s:
            self._tell_refused()

    def _tell_refused(self) -> None:
        """Now and then: whoever floods us must not fill the server's log as well."""
        _log.warning(
            "%d connections were refused: %d are open, of %d at most (max_connections)",
            self.refused - self._refused_told,
            len(self._connections),
            self.connections_max,
        )
        self._refused_told = self.refused
        self._tell_s = self.now + _TELL_S
