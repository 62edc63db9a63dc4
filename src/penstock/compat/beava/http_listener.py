"""beava's HTTP port. Connections, framing and limits are those of our own HTTP server."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Final

from penstock.compat.beava.replies import BeavaError, json_of
from penstock.server.adapters import (
    ApiError,
    Http1Connection,
    Http2Connection,
    Request,
    Response,
    Site,
)

BODY_BYTES_MAX: Final = 4 << 20
_log = logging.getLogger("penstock.compat.beava")
Answering = Callable[[Request], Awaitable[Response]]


class HttpListener:
    """Event loop only. `answering` makes the answers for a site."""

    def __init__(self, bound: socket.socket, answering: Callable[[Site], Answering]) -> None:
        self._socket = bound
        self._answering = answering
        self._server: asyncio.Server | None = None

    async def start(self, site: Site) -> None:
        await site.features.open()
        port = _HttpPort(site, self._answering(site))
        self._server = await asyncio.get_running_loop().create_server(
            lambda: Http1Connection(port), sock=self._socket
        )

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        else:
            self._socket.close()


class _HttpPort:
    """What the connections of this port ask."""

    def __init__(self, site: Site, answer: Answering) -> None:
        self.connection_limits = site.connection_limits
        self._origins = site.origins
        self._answer = answer
        self._tasks: set[asyncio.Task[None]] = set()

    def screen(self, request: Request) -> int:
        return BODY_BYTES_MAX

    def take_over_h2(self, transport: asyncio.Transport, peer: str, data: bytes) -> None:
        Http2Connection(self, peer).start(transport, data)

    def handle(self, request: Request) -> None:
        """Answer a complete request, now or later."""
        try:
            self._origins.check(request.headers)
        except ApiError as error:
            refusal = BeavaError(error.status, error.code, reason=error.message)
            request.exchange.respond(Response(error.status, json_of(refusal.body())))
            return
        task = asyncio.ensure_future(self._respond(request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _respond(self, request: Request) -> None:
        try:
            response = await self._answer(request)
        except Exception:  # noqa: BLE001 - every exception gets an error answer
            _log.exception("%s %r failed", request.method, request.path)
            error = BeavaError(500, "internal_error", reason="the server's log has the details")
            response = Response(500, json_of(error.body()))
        with contextlib.suppress(ConnectionError):
            request.exchange.respond(response)
