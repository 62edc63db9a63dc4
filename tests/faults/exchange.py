"""HTTP/1.1 over asyncio streams, bare: what the rigs send and hear, with nothing repeated, hidden
or retried behind their back."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

Address = tuple[str, int]
JSON = {"Content-Type": "application/json"}
LIMIT_BYTES = 1 << 20


class Lost(Exception):
    """No whole answer came; what became of the request is unknown."""


class NotSent(Lost):
    """Nobody listens: the server knows nothing of it."""


class Reply:
    """One answer."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The error's, empty when it is none."""
        if self.status < 300:
            return ""
        return str(self.json["error"]["code"])

    def __repr__(self) -> str:
        return f"<Reply {self.status} {self.body[:200]!r}>"


@contextlib.asynccontextmanager
async def linked(address: Address) -> AsyncIterator[Link]:
    """A connection for a while."""
    link = await Link.open(address)
    try:
        yield link
    finally:
        await link.close()


class Link:
    """One connection. After `Lost` it is closed."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, address: Address) -> Link:
        """`NotSent` when nobody listens."""
        try:
            return cls(*await asyncio.open_connection(*address, limit=LIMIT_BYTES))
        except OSError as error:
            raise NotSent(str(error)) from None

    async def request(
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        try:
            self._send(method, target, body, headers or {})
            await self._writer.drain()
            return await self._reply()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            self.abort()
            raise Lost(repr(error)) from None

    async def post(self, target: str, body: Any, headers: Mapping[str, str] | None = None) -> Reply:
        return await self.request("POST", target, json.dumps(body).encode(), JSON | (headers or {}))

    async def stream(self, target: str, headers: Mapping[str, str]) -> AsyncIterator[bytes]:
        """The pieces of an endless answer, which must be 200; ends when it ends."""
        try:
            self._send("GET", target, None, headers)
            status, found = await self._head()
            if status != 200:
                raise Lost(f"{status}: {await self._body(found)!r}")
            while size := int(await self._reader.readuntil(b"\r\n"), 16):
                yield (await self._reader.readexactly(size + 2))[:-2]
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise Lost(repr(error)) from None
        finally:
            self.abort()

    def abort(self) -> None:
        self._writer.transport.abort()

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    # Inside.

    def _send(
        self, method: str, target: str, body: bytes | None, headers: Mapping[str, str]
    ) -> None:
        lines = [f"{method} {target} HTTP/1.1", "Host: localhost"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        self._writer.write("\r\n".join([*lines, "", ""]).encode() + (body or b""))

    async def _reply(self) -> Reply:
        status, headers = await self._head()
        return Reply(status, headers, await self._body(headers))

    async def _head(self) -> tuple[int, dict[str, str]]:
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {}
        for line in lines[1:-2]:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        return int(lines[0].split(" ")[1]), headers

    async def _body(self, headers: Mapping[str, str]) -> bytes:
        return await self._reader.readexactly(int(headers["content-length"]))
