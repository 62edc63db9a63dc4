"""Responses that are read in pieces, for threads and for asyncio alike."""

from __future__ import annotations

import socket

import pytest

from penstock.client.attempt_failed import AttemptFailed
from penstock.client.http import HttpRequest
from tests.unit.client.support import Asked, Hold, Side, pair, say, say_and_close

GET = HttpRequest("GET", "/x")


def test_a_stream_brings_its_bytes_as_they_come_and_ends(kind: type[Side]) -> None:
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    with pair(kind, say(head + b"2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n")) as (side, _):
        status, pieces = side.stream(GET)

    assert (status, b"".join(pieces)) == (200, b"abcde")


def test_a_stream_without_a_length_ends_with_its_connection(kind: type[Side]) -> None:
    with pair(kind, say_and_close(b"HTTP/1.1 200 OK\r\n\r\nabc")) as (side, _):
        assert side.stream(GET) == (200, [b"abc"])


def test_a_stream_that_falls_silent_is_late(kind: type[Side]) -> None:
    hold = Hold()

    def begin(asked: Asked, sock: socket.socket) -> bool:
        sock.sendall(b"HTTP/1.1 200 OK\r\n\r\nabc")
        return hold(asked, sock)

    with pair(kind, begin) as (side, _):
        with pytest.raises(AttemptFailed) as caught:
            side.stream(GET, seconds=0.1)
        hold.go.set()

    assert caught.value.is_late
