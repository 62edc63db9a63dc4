"""Requests as the bytes that go over the wire, made once and sent many times."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from benchmarks.load_job import HERE, STAMP

BATCH_TYPE = "application/vnd.penstock.batch"
JSON_TYPE = "application/json"
_IDS_FROM = 1_000_000
_MASK = b"\x37\xfa\x21\x3d"


# HTTP.


def http(
    method: str, path: str, body: bytes = b"", *, content: str = JSON_TYPE, accept: str = ""
) -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    if accept:
        head += f"Accept: {accept}\r\n"
    if method != "GET":
        head += f"Content-Type: {content}\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


def json_batch(payload: bytes, count: int) -> bytes:
    """The body of a write."""
    return b'{"records":[' + b",".join([b'{"data":%b}' % payload] * count) + b"]}"


def binary_batch(payload: bytes, count: int) -> bytes:
    """The same in the length-prefixed form."""
    record = struct.pack("<IIHH", len(payload), 0, 0, 0) + payload
    return b"PSB1" + struct.pack("<I", 2) + b"{}" + struct.pack("<I", count) + record * count


def stamped(payload_bytes: int) -> bytes:
    """A payload of that size with a place for the time."""
    blank = b'{"t":%b,"pad":""}' % STAMP
    return blank[:-2] + b"x" * max(0, payload_bytes - len(blank)) + blank[-2:]


# WebSocket.


def upgrade(path: str) -> bytes:
    return (
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    ).encode()


def text_frame(text: bytes) -> bytes:
    """A masked frame, as a client has to send it."""
    size = len(text)
    if size < 126:
        head = bytes([0x81, 0x80 | size])
    elif size < 1 << 16:
        head = bytes([0x81, 0xFE]) + size.to_bytes(2, "big")
    else:
        head = bytes([0x81, 0xFF]) + size.to_bytes(8, "big")
    mask = (_MASK * (size // 4 + 1))[:size]
    masked = (int.from_bytes(text, "big") ^ int.from_bytes(mask, "big")).to_bytes(size, "big")
    return head + _MASK + masked


# Redis.


def resp(*words: bytes | str | int) -> bytes:
    """One command."""
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(p), p) for p in parts)


def xadd(payload: bytes, count: int) -> bytes:
    """A pipeline of appends. Each is answered with two lines."""
    return resp("XADD", "bench", "*", "d", payload) * count


def xadd_numbered(payload: bytes, numbers: Sequence[int]) -> bytes:
    """Appends with ids that we can ask for later."""
    return b"".join(resp("XADD", "bench", _id(n), "d", payload) for n in numbers)


def xrange(first: int, count: int) -> bytes:
    return resp("XRANGE", "bench", _id(first), "+", "COUNT", count)


def xrange_bytes(payload: bytes, count: int) -> int:
    """The size of the answer: a list of pairs, each an id and a list of field and value."""
    pair = b"*2\r\n" + resp(_id(0)).partition(b"\n")[2] + resp("d", payload)
    return len(b"*%d\r\n" % count) + count * len(pair)


def _id(number: int) -> str:
    """All of one length, so that all answers are of one size."""
    return f"1-{_IDS_FROM + number}"


# NATS.

NATS_HELLO = (
    b'CONNECT {"verbose":false,"pedantic":false,"lang":"raw","version":"0","headers":false}\r\n'
    b"SUB _INBOX.bench%b 1\r\nPING\r\n" % HERE
)


def nats_publish(payload: bytes) -> bytes:
    """A publish that asks for an acknowledgement, which has two lines."""
    return b"PUB bench _INBOX.bench%b %d\r\n%b\r\n" % (HERE, len(payload), payload)
