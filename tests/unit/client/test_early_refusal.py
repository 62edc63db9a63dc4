"""A server that refuses a large request and closes before it has read all of it, and the client."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from penstock.client.attempt_failed import AttemptFailed, Failure
from penstock.client.http import HttpRequest
from tests.unit.client.support import DEADLINE_S, Side, answer


@contextlib.contextmanager
def server(end: Callable[[socket.socket], object]) -> Iterator[str]:
    """Reads the start of one request, then ends the connection in its way."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            sock, _ = listener.accept()
            with sock:
                sock.recv(1000)
                end(sock)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join(DEADLINE_S)


LARGE = HttpRequest("POST", "/", {}, b"x" * 5_000_000)


def test_a_refusal_that_comes_before_the_body_was_read_is_heard(kind: type[Side]) -> None:
    """A server answers 413 at once and closes; what we are still sending meets a closed door."""

    def refuse(sock: socket.socket) -> None:
        sock.sendall(answer(413, b"no", connection="close"))
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(1 << 20):
            pass

    with server(refuse) as url, contextlib.closing(kind(url)) as side:
        response = side.exchange(LARGE)

    assert (response.status, response.body) == (413, b"no")


def test_a_close_without_an_answer_is_a_lost_request(kind: type[Side]) -> None:
    with (
        server(lambda sock: None) as url,
        contextlib.closing(kind(url)) as side,
        pytest.raises(AttemptFailed) as caught,
    ):
        side.exchange(LARGE)

    assert caught.value.failure is Failure.LOST
