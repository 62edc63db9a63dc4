"""The connections of one client: idle ones are kept for reuse, busy ones are aborted on close.

Both transports use it. It does no I/O: the transport opens and closes the connections.
"""

from __future__ import annotations

import threading
from typing import Final, Generic, Protocol, TypeVar

from penstock import forks
from penstock.clock import Clock
from penstock.errors import Closed

IDLE_S: Final = 30.0  # well below the server's 75 s, so that the client closes first
IDLE_MAX: Final = 16


class PooledConnection(Protocol):
    """The part of a connection that the pool needs."""

    idle_since: float

    def leave_to_parent(self) -> None:
        """In a forked child: release the socket without ending the parent's connection."""


C = TypeVar("C", bound=PooledConnection)


class Checkout(Generic[C]):
    """A connection while one call uses it. It goes back when the call has ended, and not before:
    the next call may be another thread's."""

    __slots__ = ("connection", "is_reusable")

    def __init__(self, connection: C) -> None:
        self.connection = connection
        self.is_reusable = False


class ConnectionPool(Generic[C]):
    """Safe from several threads. A connection is idle, busy with one call, or not in the pool."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._idle: list[C] = []
        self._busy: set[C] = set()
        self._is_closed = False
        self._owner_pid = forks.pid()
        forks.add(self)

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    @property
    def is_ours(self) -> bool:
        """False in a forked child."""
        return self._owner_pid == forks.pid()

    def closed_error(self) -> Closed:
        """The error of a call on a closed client."""
        if not self.is_ours:
            return forks.not_ours("client", self._owner_pid)
        return Closed("the client is closed")

    def pop_idle(self) -> C | None:
        """Remove and return the connection used last; None when there is none. Raises Closed."""
        with self._lock:
            if self._is_closed:
                raise self.closed_error()
            return self._idle.pop() if self._idle else None

    def add_busy(self, connection: C) -> None:
        """A call uses this connection from now on."""
        with self._lock:
            self._busy.add(connection)

    def release(self, checkout: Checkout[C]) -> bool:
        """A call ends. Its connection is kept for the next one if it is reusable, unless the pool
        is full or closed; true when the call has to close it."""
        connection = checkout.connection
        connection.idle_since = self._clock.monotonic()
        with self._lock:
            if connection not in self._busy:
                return False  # left to the parent process
            self._busy.remove(connection)
            if not checkout.is_reusable or self._is_closed or len(self._idle) >= IDLE_MAX:
                return True
            self._idle.append(connection)
            return False

    def close(self) -> tuple[list[C], list[C]]:
        """Refuse all further calls. Returns the busy and the idle connections."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
            return list(self._busy), idle

    def leave_to_parent(self) -> None:
        """In a forked child: the connections belong to the parent."""
        self._lock = threading.Lock()
        self._is_closed = True
        for connection in (*self._idle, *self._busy):
            connection.leave_to_parent()
        self._idle, self._busy = [], set()
