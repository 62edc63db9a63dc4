"""Payloads that say who wrote them, and that show when a byte of them is wrong."""

from __future__ import annotations

import json
import struct
from typing import Any

from tests.support.history import Value, Write

BATCH = "application/vnd.penstock.batch"


class Garbled(Exception):
    """A payload is not what its writer sent."""


def payload(value: Value) -> dict[str, Any]:
    """Of a size that depends on the number."""
    producer, number = value
    return {"p": producer, "n": number, "x": f"{producer}.{number}|" * (number % 7)}


def value_of(data: Any) -> Value:
    """Who wrote it; Garbled unless every byte is right."""
    try:
        value = data["p"], data["n"]
    except (KeyError, TypeError):
        raise Garbled(f"no payload of ours: {data!r}") from None
    if data != payload(value):
        raise Garbled(f"{value} reads {data!r}")
    return value


def json_records(write: Write, bulk: int = 0) -> list[dict[str, Any]]:
    """With `bulk` bytes of ballast each."""
    ballast = {"meta": "x" * bulk} if bulk else {}
    return [{"data": payload(value)} | ballast for value in write.values]


def binary_body(head: dict[str, Any], write: Write) -> bytes:
    """The binary body as its documentation has it, made without the code under test."""
    texts = [json.dumps(payload(value)).encode() for value in write.values]
    opening = json.dumps(head).encode()
    parts = [struct.pack("<4sI", b"PSB1", len(opening)), opening, struct.pack("<I", len(texts))]
    for text in texts:
        parts += [struct.pack("<IIHH", len(text), 0, 0, 0), text]
    return b"".join(parts)


def frame_records(body: bytes) -> tuple[dict[str, Any], list[tuple[int, Any]]]:
    """(head, records as seq and data) of a binary page, read by hand; docs/format/frame.md."""
    magic, size = struct.unpack_from("<4sI", body)
    if magic != b"PSB1":
        raise Garbled(f"a page begins with {body[:8]!r}")
    head = json.loads(body[8 : 8 + size])
    (count,) = struct.unpack_from("<I", body, 8 + size)
    at = 12 + size
    records = []
    for _ in range(count):
        (length,) = struct.unpack_from("<I", body, at)
        seq, _, node, tag, data = struct.unpack_from("<QQHHI", body, at + 14)
        start = at + 38 + node + tag
        records.append((seq, json.loads(body[start : start + data])["d"]))
        at += 4 + length
    if at != len(body):
        raise Garbled(f"{len(body) - at} bytes follow the last frame")
    return head, records
