"""Calls over sockets, for threads: connections that are kept and used again, and deadlines.

What an attempt came to is told as a value or as `AttemptFailed`; what to do about it is for
`trial` to say. Nothing is ever sent twice here.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import ssl
import threading
from collections.abc import Iterator
from typing import Final

from penstock import forks
from penstock.client.address import Address
from penstock.client.http import BadAnswer, Reader, Request, Response
from penstock.client.retry import Failure
from penstock.clock import Clock
from penstock.errors import Closed

IDLE_S: Final = 30.0  # well below the server's 75 s, so that it is us who let go
IDLE_MAX: Final = 16
_RECEIVE_BYTES: Final = 256 * 1024


class AttemptFailed(Exception):
    """An attempt brought no answer. `is_late`: because the deadline passed."""

    def __init__(self, failure: Failure, why: str, *, is_late: bool = False) -> None:
        super().__init__(why)
        self.failure = failure
        self.is_late = is_late


def failed(failure: Failure, error: Exception) -> AttemptFailed:
    """What an error of the socket or of the reader means for the attempt."""
    is_late = isinstance(error, TimeoutError)
    why = "no answer in time" if is_late else str(error) or type(error).__name__
    if isinstance(error, socket.gaierror):
        why = error.strerror or why
    elif isinstance(error, OSError) and error.errno and not isinstance(error, ssl.SSLError):
        why = os.strerror(error.errno)  # asyncio has a text of its own in its place
    if isinstance(error, ssl.SSLCertVerificationError):
        failure = Failure.UNTRUSTED
        why = f"its certificate is not accepted: {error.verify_message}"
    return AttemptFailed(failure, why, is_late=is_late)


class Connection:
    """One socket, used by one call at a time."""

    def __init__(self, sock: socket.socket, clock: Clock) -> None:
        self.idle_since = 0.0
        self._socket = sock
        self._clock = clock

    def send(self, data: bytes, deadline: float) -> None:
        self._set_timeout(deadline)
        self._socket.sendall(data)

    def receive(self, deadline: float) -> bytes:
        """The next bytes; none when the other side has closed."""
        self._set_timeout(deadline)
        return self._socket.recv(_RECEIVE_BYTES)

    def is_fresh(self) -> bool:
        """Idle, and neither closed by the other side nor sent anything by it."""
        if self._clock.monotonic() - self.idle_since > IDLE_S:
            return False
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return not poll.poll(0)

    def abort(self) -> None:
        """Make a call under way fail at once; from any thread."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.close()

    def _set_timeout(self, deadline: float) -> None:
        left = deadline - self._clock.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)


class Stream:
    """An answer that goes on: its head is here, its body comes in pieces."""

    def __init__(self, connection: Connection, reader: Reader) -> None:
        self.status = reader.status
        self._connection = connection
        self._reader = reader

    def read(self, deadline: float) -> bytes:
        """The next bytes; none when the stream has ended."""
        while True:
            piece = self._reader.take()
            if piece or self._reader.is_done:
                return piece
            data = _received(self._connection, deadline)
            if not data:
                return b""
            _feed(self._reader, data)

    def rest(self, deadline: float) -> Response:
        """All of it, for an answer that turned out to be a short one."""
        parts = []
        while piece := self.read(deadline):
            parts.append(piece)
        return Response(self.status, self._reader.headers, b"".join(parts))


class SocketTransport:
    """Safe from several threads: each call has a connection to itself."""

    def __init__(self, address: Address, clock: Clock, tls: ssl.SSLContext | None) -> None:
        self._address = address
        self._clock = clock
        self._tls = tls
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._busy: set[Connection] = set()
        self._is_closed = False
        self._owner_pid = forks.pid()
        forks.add(self)

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def exchange(self, request: Request, deadline: float) -> Response:
        """Send, and read the whole answer. AttemptFailed, or Closed."""
        data = request.render(self._address.authority)
        with self._connected(deadline) as connection:
            reader = Reader()
            self._begin(connection, reader, data, deadline)
            while not reader.is_done:
                _feed(reader, self._some(connection, deadline))
            if reader.is_reusable:
                self._keep(connection)
            return reader.response()

    @contextlib.contextmanager
    def stream(self, request: Request, deadline: float) -> Iterator[Stream]:
        """Send, and hand over the answer as soon as its head is here."""
        data = request.render(self._address.authority)
        with self._connected(deadline) as connection:
            reader = Reader(is_stream=True)
            self._begin(connection, reader, data, deadline)
            while not reader.is_head_done:
                _feed(reader, self._some(connection, deadline))
            yield Stream(connection, reader)

    def close(self) -> None:
        """Let go of everything. Calls under way fail with Closed."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
            busy = list(self._busy)
        for connection in idle:
            connection.close()
        for connection in busy:
            connection.abort()

    @property
    def is_ours(self) -> bool:
        """False in a forked child."""
        return self._owner_pid == forks.pid()

    def closed_error(self) -> Closed:
        """Why no call is made any more."""
        if not self.is_ours:
            return forks.not_ours("client", self._owner_pid)
        return Closed("the client is closed")

    def leave_to_parent(self) -> None:
        """In a forked child: the connections are the parent's. They are closed here without a
        shutdown, which would end them there, too."""
        self._lock = threading.Lock()
        self._is_closed = True
        for connection in (*self._idle, *self._busy):
            connection.close()
        self._idle, self._busy = [], set()

    @contextlib.contextmanager
    def _connected(self, deadline: float) -> Iterator[Connection]:
        """A connection for one call; closed afterwards unless `_keep` took it."""
        connection = self._reuse() or self._connect(deadline)
        with self._lock:
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
            with self._lock:
                is_ours = connection in self._busy
                self._busy.discard(connection)
            if is_ours:
                connection.close()

    def _begin(self, connection: Connection, reader: Reader, data: bytes, deadline: float) -> None:
        try:
            connection.send(data, deadline)
        except OSError as error:
            # A server that refuses a request answers before it has read it all, and closes.
            with contextlib.suppress(AttemptFailed):
                while not reader.is_done:
                    _feed(reader, self._some(connection, deadline))
            if not reader.is_done:
                raise failed(Failure.LOST, error) from None

    def _some(self, connection: Connection, deadline: float) -> bytes:
        data = _received(connection, deadline)
        if not data:
            raise AttemptFailed(Failure.LOST, "the connection was closed before the answer")
        return data

    def _reuse(self) -> Connection | None:
        while True:
            with self._lock:
                if self._is_closed:
                    raise self.closed_error()
                if not self._idle:
                    return None
                connection = self._idle.pop()
            if connection.is_fresh():
                return connection
            connection.close()

    def _connect(self, deadline: float) -> Connection:
        left = deadline - self._clock.monotonic()
        if left <= 0:
            raise AttemptFailed(Failure.NOT_SENT, "no time left to connect", is_late=True)
        host = self._address.host
        try:
            sock = socket.create_connection((host, self._address.port), timeout=left)
            try:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if self._tls is not None:
                    sock.settimeout(max(deadline - self._clock.monotonic(), 0.001))
                    sock = self._tls.wrap_socket(sock, server_hostname=host)
            except BaseException:
                sock.close()
                raise
        except OSError as error:
            raise failed(Failure.NOT_SENT, error) from None
        return Connection(sock, self._clock)

    def _keep(self, connection: Connection) -> None:
        connection.idle_since = self._clock.monotonic()
        with self._lock:
            if not self._is_closed and len(self._idle) < IDLE_MAX:
                self._busy.discard(connection)
                self._idle.append(connection)


def _received(connection: Connection, deadline: float) -> bytes:
    try:
        return connection.receive(deadline)
    except OSError as error:
        raise failed(Failure.LOST, error) from None


def _feed(reader: Reader, data: bytes) -> None:
    try:
        reader.feed(data)
    except BadAnswer as error:
        raise failed(Failure.LOST, error) from None
