"""What a peer's machine has not confirmed yet."""

from __future__ import annotations

import socket
import sys

import pytest

from penstock.server.tcp_unacked import unacked_bytes
from tests.support.serving import eventually


@pytest.mark.skipif(sys.platform != "linux", reason="only there the system tells")
def test_what_finds_no_room_on_the_other_side_is_counted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    with near, far:
        near.sendall(b"x")
        eventually(lambda: unacked_bytes(near) == 0, "what fits to be confirmed")

        near.setblocking(False)
        sent = 0
        while (size := _taken(near)) > 0:
            sent += size

        assert 0 < unacked_bytes(near) <= sent


def _taken(link: socket.socket) -> int:
    try:
        return link.send(b"x" * 65_536)
    except BlockingIOError:
        return 0


def test_a_socket_that_is_gone_owes_nothing() -> None:
    gone = socket.socket()
    gone.close()

    assert unacked_bytes(gone) == 0
