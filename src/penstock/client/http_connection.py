"""One blocking socket of a client, used by one call at a time."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
from typing import Final

from penstock.client.address import Address
from penstock.client.connection_pool import IDLE_S
from penstock.clock import Clock

_RECEIVE_BYTES: Final = 256 * 1024


class HttpConnection:
    """`connect`, `send` and `receive` raise OSError, and TimeoutError when the deadline passes."""

    def __init__(self, sock: socket.socket, clock: Clock) -> None:
        self.idle_since = 0.0
        self._socket = sock
        self._clock = clock
        self._lock = threading.Lock()
        self._is_in_call = False  # a thread is in `send` or `receive`
        self._is_aborted = False

    @classmethod
    def connect(
        cls, address: Address, clock: Clock, tls: ssl.SSLContext | None, deadline: float
    ) -> HttpConnection:
        left_s = _left_s(clock, deadline)
        sock = socket.create_connection((address.host, address.port), timeout=left_s)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is not None:
                sock.settimeout(_left_s(clock, deadline))
                sock = tls.wrap_socket(sock, server_hostname=address.host)
        except BaseException:
            sock.close()
            raise
        return cls(sock, clock)

    def send(self, data: bytes, deadline: float) -> None:
        self._begin(deadline)
        try:
            self._socket.sendall(data)
        finally:
            self._end()

    def receive(self, deadline: float) -> bytes:
        """The next bytes; empty when the server has closed the connection."""
        self._begin(deadline)
        try:
            return self._socket.recv(_RECEIVE_BYTES)
        finally:
            self._end()

    def _begin(self, deadline: float) -> None:
        left_s = _left_s(self._clock, deadline)
        with self._lock:
            if self._is_aborted:
                raise ConnectionAbortedError("the client was closed")
            self._socket.settimeout(left_s)
            self._is_in_call = True

    def _end(self) -> None:
        with self._lock:
            self._is_in_call = False
            if self._is_aborted:
                self.close()

    def is_fresh(self) -> bool:
        """Idle for less than `IDLE_S`, not closed by the server, and nothing received."""
        if self._clock.monotonic() - self.idle_since > IDLE_S:
            return False
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return not poll.poll(0)

    def abort(self) -> None:
        """Make a call in progress fail at once; from any thread. Without one the socket is closed
        here: a stream that is read no more has nobody else to do it."""
        with self._lock:
            self._is_aborted = True
            if not self._is_in_call:
                self.close()
                return
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.close()

    def leave_to_parent(self) -> None:
        """Close the child's descriptor. No shutdown: that would end the parent's connection."""
        self.close()


def _left_s(clock: Clock, deadline: float) -> float:
    left_s = deadline - clock.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s
