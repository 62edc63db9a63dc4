"""A bare HTTP/1.1 client over a socket, so that requests no library would send can be sent."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.serving import DEADLINE_S, Address

NO_BODY = {204, 304}


class Ended(Exception):
    """The other side closed the connection before a whole answer."""


@dataclass(frozen=True)
class Reply:
    """One answer. Header names are in lower case; repeated ones are joined by a comma."""

    status: int
    headers: dict[str, str]
    body: bytes = b""
    interim: tuple[int, ...] = field(default=())  # 1xx answers that came first

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def head(
    method: str, target: str, headers: Mapping[str, str] | Iterable[tuple[str, str]] = ()
) -> bytes:
    """A request's head, with nothing added and nothing checked."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in pairs)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


class Connection:
    """One connection. A context manager; every wait has a deadline."""

    def __init__(
        self, address: Address, *, deadline_s: float = DEADLINE_S, receive_bytes: int = 0
    ) -> None:
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.settimeout(deadline_s)
        if receive_bytes:  # before connecting: it bounds the window
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        try:
            self.socket.connect(address)
        except OSError:
            self.socket.close()
            raise
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.host = f"{address[0]}:{address[1]}"
        self._buffer = bytearray()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    # Sending.

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send_what_it_takes(self, data: bytes) -> None:
        """For requests the server may refuse before their end: then sending stops early."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            return

    def send_request(
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """A proper request, unless `headers` says otherwise."""
        wanted = {"Host": self.host} | dict(headers or {})
        if body is not None and "Transfer-Encoding" not in wanted:
            wanted.setdefault("Content-Length", str(len(body)))
        self.send(head(method, target, wanted) + (body or b""))

    def request(
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        self.send_request(method, target, body, headers)
        return self.read_reply(method)

    # Receiving.

    def read_some(self) -> bytes:
        """What has come, at least a byte; empty at the end."""
        if self._buffer:
            data = bytes(self._buffer)
            self._buffer.clear()
            return data
        try:
            return self.socket.recv(1 << 16)
        except ConnectionResetError:
            return b""

    def read_rest(self) -> bytes:
        """Everything until the other side closes."""
        parts = []
        while part := self.read_some():
            parts.append(part)
        return b"".join(parts)

    def read_until(self, mark: bytes) -> bytes:
        """Up to and with `mark`."""
        while (at := self._buffer.find(mark)) < 0:
            self._more()
        return self._take(at + len(mark))

    def read_exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            self._more()
        return self._take(count)

    def read_head(self) -> Reply:
        """Status and headers; the body is still to be read."""
        interim: list[int] = []
        while True:
            lines = self.read_until(b"\r\n\r\n").decode("latin-1").split("\r\n")
            status = int(lines[0].split(" ", 2)[1])
            if status >= 200 or status == 101:
                break
            interim.append(status)
        headers: dict[str, str] = {}
        for line in lines[1:-2]:
            name, _, value = line.partition(":")
            name, value = name.strip().lower(), value.strip()
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        return Reply(status, headers, interim=tuple(interim))

    def read_reply(self, method: str = "GET") -> Reply:
        start = self.read_head()
        return Reply(start.status, start.headers, self._read_body(start, method), start.interim)

    def _read_body(self, start: Reply, method: str) -> bytes:
        if method == "HEAD" or start.status in NO_BODY or start.status == 101:
            return b""
        if start.headers.get("transfer-encoding", "").lower() == "chunked":
            parts = []
            while part := self.read_chunk():
                parts.append(part)
            return b"".join(parts)
        if "content-length" in start.headers:
            return self.read_exactly(int(start.headers["content-length"]))
        return self.read_rest()

    def read_chunk(self) -> bytes:
        """One chunk of a chunked body; empty at its end."""
        while (at := self._buffer.find(b"\r\n")) < 0:
            self._more()
        size = int(self._buffer[:at].split(b";")[0], 16)
        whole = at + 2 + size + 2
        while len(self._buffer) < whole:  # nothing is taken before: this may run out of time
            self._more()
        data = self._take(whole)
        if not data.endswith(b"\r\n"):
            raise AssertionError("a chunk does not end where it says")
        return data[at + 2 : -2]

    def _more(self) -> None:
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionResetError:
            data = b""
        if not data:
            raise Ended(f"closed after {bytes(self._buffer[:200])!r}")
        self._buffer += data

    def _take(self, count: int) -> bytes:
        data = bytes(self._buffer[:count])
        del self._buffer[:count]
        return data
