"""A little server of lines for the load generator to talk to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import cast

OnLine = Callable[["Caller", bytes], None]


class Caller(asyncio.Protocol):
    """One connection to the server. `lines` is all it said; `on_line` answers through `write`."""

    def __init__(self, on_line: OnLine, callers: list[Caller]) -> None:
        self.lines: list[bytes] = []
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._rest = b""
        self._on_line = on_line
        callers.append(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.write = self.transport.write

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self.lines.append(line)
            self._on_line(self, line)

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone.set_result(None)


@asynccontextmanager
async def serving(on_line: OnLine, callers: list[Caller]) -> AsyncIterator[int]:
    """The port; everybody who called is gone afterwards."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Caller(on_line, callers), "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for caller in callers:
            caller.transport.abort()
        await asyncio.gather(*(caller.gone for caller in callers))
        await server.wait_closed()
