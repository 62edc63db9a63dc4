"""A server with beava's ports, and a client of its frames, written from the protocol's tables."""

from __future__ import annotations

import json
import re
import socket
import struct
from pathlib import Path
from typing import Any

from tests.support.serving import DEADLINE_S, Server, eventually

JSON, MSGPACK = 1, 2
ERROR = 0xFFFF


class BeavaServer:
    """`penstock serve` with all of beava's ports."""

    def __init__(self, home: Path, **env: str) -> None:
        ports = {f"PENSTOCK_BEAVA_{name}": "127.0.0.1:0" for name in ("HTTP", "TCP", "ADMIN")}
        self.server = Server(home, ports | {"PENSTOCK_BEAVA_TEST_MODE": "1"} | env)

    def start(self) -> BeavaServer:
        self.server.start()
        return self

    def address(self, port: str) -> str:
        """`host:port` of the http, tcp or admin port."""

        def found() -> str:
            lines = re.findall(rf"beava's {port} port: (\S+)", self.server.said())
            return lines[-1] if lines else ""

        return eventually(found, f"the {port} port in the log")

    def url(self, port: str) -> str:
        return f"{'tcp' if port == 'tcp' else 'http'}://{self.address(port)}"


class FrameClient:
    """Speaks beava's frames over one connection."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.wire = socket.create_connection((host, int(port)), timeout=DEADLINE_S)
        self._read = self.wire.makefile("rb")

    def __enter__(self) -> FrameClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._read.close()
        self.wire.close()

    def send(self, *frames: bytes) -> None:
        self.wire.sendall(b"".join(frames))

    def answer(self) -> tuple[int, int, bytes]:
        """Op, content type and payload of the next answer."""
        length, op, kind = struct.unpack(">IHB", self._read.read(7))
        return op, kind, self._read.read(length - 3)

    def ask(self, op: int, body: Any, kind: int = JSON) -> tuple[int, Any]:
        """One request and its answer, as JSON."""
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send(frame(op, payload, kind))
        found, _, answer = self.answer()
        return found, json.loads(answer)

    def is_closed(self) -> bool:
        return self._read.read(1) == b""


def frame(op: int, payload: bytes, kind: int = JSON) -> bytes:
    return struct.pack(">IHB", 3 + len(payload), op, kind) + payload


def push(event: str, body: Any) -> bytes:
    return frame(0x10, json.dumps({"event": event, "body": body}).encode())


def event(name: str, **fields: str) -> dict[str, Any]:
    """The node of an event."""
    return {
        "kind": "event",
        "name": name,
        "schema": {"fields": fields, "optional_fields": []},
    }


def table(name: str, upstream: str, keys: list[str], **features: dict[str, Any]) -> dict[str, Any]:
    """The node of a table; a feature is its op with its parameters."""
    agg = {
        feature: {"op": given["op"], "params": {k: v for k, v in given.items() if k != "op"}}
        for feature, given in features.items()
    }
    return {
        "kind": "derivation",
        "name": name,
        "output_kind": "table",
        "upstreams": [upstream],
        "table_primary_key": keys,
        "ops": [{"op": "group_by", "keys": keys, "agg": agg}],
        "schema": {"fields": dict.fromkeys(keys, "str"), "optional_fields": []},
    }
