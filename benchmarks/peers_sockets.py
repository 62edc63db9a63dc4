"""Prepares peers for a measurement: creates a stream in NATS, writes records to Redis."""

from __future__ import annotations

import socket

import msgspec

from benchmarks.load_requests import resp, xadd_numbered
from benchmarks.server_process import DidNotStart

_TIMEOUT_S = 30
_CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"lang":"raw","version":"0"}\r\n'


def make_stream(port: int, name: str) -> None:
    """A JetStream stream in file storage whose one subject has its name."""
    config = {
        "name": name,
        "subjects": [name],
        "storage": "file",
        "retention": "limits",
        "discard": "old",
        "num_replicas": 1,
        "max_consumers": -1,
        "max_msgs": -1,
        "max_bytes": -1,
        "max_age": 0,
    }
    body = msgspec.json.encode(config)
    subject = f"$JS.API.STREAM.CREATE.{name}".encode()
    with socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_S) as line:
        line.sendall(
            b"%bSUB _INBOX.made 1\r\nPUB %b _INBOX.made %d\r\n%b\r\n"
            % (_CONNECT, subject, len(body), body)
        )
        said = _until(line, b"stream_create_response")
    if b'"error"' in said:
        raise DidNotStart(f"NATS did not create the stream: {said!r}")


def fill_stream(port: int, payload: bytes, count: int) -> None:
    """Records 0 to count of the Redis stream, by our numbers."""
    with socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_S) as line:
        for first in range(0, count, 1_000):
            numbers = range(first, min(first + 1_000, count))
            line.sendall(xadd_numbered(payload, numbers))
            line.sendall(resp("PING"))
            said = _until(line, b"+PONG\r\n")
            if said.startswith(b"-"):
                raise DidNotStart(f"Redis refused the records: {said[:200]!r}")


def _until(line: socket.socket, end: bytes) -> bytes:
    said = b""
    while end not in said:
        piece = line.recv(1 << 16)
        if not piece:
            raise DidNotStart(f"the peer closed the connection: {said[-200:]!r}")
        said += piece
    return said
