"""One blocking connection, against a plain socket."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from penstock.client import address
from penstock.client.http_connection import HttpConnection
from penstock.clock import SystemClock
from tests.support.serving import eventually
from tests.unit.client.support import DEADLINE_S

CLOCK = SystemClock()


@contextlib.contextmanager
def pair() -> Iterator[tuple[HttpConnection, socket.socket]]:
    """(ours, the other end)"""
    ours, other = socket.socketpair()
    connection = HttpConnection(ours, CLOCK)
    connection.idle_since = CLOCK.monotonic()
    with other:
        try:
            yield connection, other
        finally:
            connection.close()


def soon() -> float:
    return CLOCK.monotonic() + DEADLINE_S


def test_it_connects_and_bytes_go_both_ways() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        connection = HttpConnection.connect(address.parse(url), CLOCK, None, soon())
        other, _ = listener.accept()
        with other:
            connection.send(b"ping", soon())
            assert other.recv(100) == b"ping"
            other.sendall(b"pong")
            assert connection.receive(soon()) == b"pong"
        assert connection.receive(soon()) == b""
        connection.close()


def test_it_is_fresh_until_something_comes_or_it_ends_or_grows_old() -> None:
    with pair() as (connection, other):
        assert connection.is_fresh()
        other.sendall(b"x")
        assert not connection.is_fresh()
    with pair() as (connection, other):
        other.close()
        assert not connection.is_fresh()
    with pair() as (connection, _):
        connection.idle_since -= 1000
        assert not connection.is_fresh()


def test_deadlines_hold_for_both_directions() -> None:
    with pair() as (connection, _):
        with pytest.raises(TimeoutError):
            connection.receive(CLOCK.monotonic() + 0.02)
        with pytest.raises(TimeoutError):
            connection.receive(CLOCK.monotonic() - 1)
        with pytest.raises(TimeoutError):
            connection.send(bytes(50_000_000), CLOCK.monotonic() + 0.05)


def test_a_connection_is_not_opened_after_the_deadline() -> None:
    with pytest.raises(TimeoutError):
        HttpConnection.connect(
            address.parse("http://127.0.0.1:9"), CLOCK, None, CLOCK.monotonic() - 1
        )


def test_abort_ends_a_receive_in_another_thread() -> None:
    with pair() as (connection, _):
        received: list[bytes] = []
        thread = threading.Thread(target=lambda: received.append(connection.receive(soon())))
        thread.start()
        eventually(lambda: connection._is_in_call, "a receive")
        connection.abort()
        thread.join(DEADLINE_S)

        assert received == [b""]
        assert connection._socket.fileno() == -1  # closed by the thread that used it


def test_abort_closes_a_connection_that_nobody_uses() -> None:
    """A stream whose reader went away has nobody else to close it."""
    with pair() as (connection, other):
        connection.abort()

        assert connection._socket.fileno() == -1
        assert other.recv(1) == b""
        with pytest.raises(ConnectionAbortedError):
            connection.receive(soon())


def test_a_child_that_leaves_it_to_its_parent_does_not_end_it() -> None:
    ours, other = socket.socketpair()
    with other:
        parent, child = HttpConnection(ours, CLOCK), HttpConnection(ours.dup(), CLOCK)

        child.leave_to_parent()

        parent.send(b"still here", soon())
        assert other.recv(100) == b"still here"
        parent.close()
