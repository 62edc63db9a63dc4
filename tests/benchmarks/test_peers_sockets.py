"""What peers are told before they are measured, and what happens when they refuse."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

import pytest

from benchmarks.peers_sockets import fill_stream, make_stream
from benchmarks.server_process import DidNotStart


def answered(answer: bytes, call: Callable[[int], None]) -> bytes:
    """What one caller says to a server that answers so, and then hangs up."""
    said: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(answer)
                connection.shutdown(socket.SHUT_WR)
                while piece := connection.recv(1 << 16):
                    said.append(piece)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            call(server.getsockname()[1])
        finally:
            thread.join()
    return b"".join(said)


def test_a_stream_is_made_in_file_storage() -> None:
    answer = (
        b'MSG _INBOX.made 1 9\r\n{"type":"io.nats.jetstream.api.v1.stream_create_response"}\r\n'
    )

    said = answered(answer, lambda port: make_stream(port, "bench"))

    assert b"PUB $JS.API.STREAM.CREATE.bench _INBOX.made" in said
    assert b'"storage":"file"' in said


def test_a_stream_that_is_refused_is_told() -> None:
    answer = b'MSG a 1 9\r\n{"type":"stream_create_response","error":{"code":503}}\r\n'

    with pytest.raises(DidNotStart, match="503"):
        answered(answer, lambda port: make_stream(port, "bench"))


def test_a_peer_that_hangs_up_is_told() -> None:
    with pytest.raises(DidNotStart, match="closed"):
        answered(b"INFO {}\r\n", lambda port: make_stream(port, "bench"))


def test_records_are_written_and_waited_for() -> None:
    said = answered(b"$9\r\n1-1000000\r\n+PONG\r\n", lambda port: fill_stream(port, b"{}", 3))

    assert said.count(b"XADD") == 3


def test_records_that_are_refused_are_told() -> None:
    with pytest.raises(DidNotStart, match="OOM"):
        answered(b"-OOM\r\n+PONG\r\n", lambda port: fill_stream(port, b"{}", 1))
