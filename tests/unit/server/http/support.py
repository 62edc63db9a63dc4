"""A host for connections that keeps every request and leaves the answers to the test."""

from __future__ import annotations

import asyncio
from typing import Any

from penstock.server.errors import ApiError, response_of
from penstock.server.http.connection_limits import ConnectionLimits
from penstock.server.http.h1 import Http1Connection
from penstock.server.http.message import Request, Response
from penstock.server.settings import ServerSettings
from penstock.testing import FakeClock
from tests.unit.server.support import Wire

DATE = b"Thu, 01 Jan 1970 00:00:00 GMT"


class Desk:
    """What a connection asks of the server, played by the test. Make one on a running loop."""

    def __init__(self, **settings: Any) -> None:
        self.clock = FakeClock()
        self.connection_limits = ConnectionLimits(ServerSettings(**settings), self.clock)
        self.connection_limits.date = DATE
        self.requests: list[Request] = []
        self.is_echoing = False
        self.screened: list[Request] = []
        self.refusal: ApiError | None = None
        self.body_max: int | None = None
        self.taken_over: list[tuple[asyncio.Transport, str, bytes]] = []

    def handle(self, request: Request) -> None:
        self.requests.append(request)
        if self.is_echoing:
            self.answer(len(self.requests) - 1)

    def screen(self, request: Request) -> int:
        self.screened.append(request)
        if self.refusal is not None:
            raise self.refusal
        return self.connection_limits.body_bytes_max if self.body_max is None else self.body_max

    def take_over_h2(self, transport: asyncio.Transport, peer: str, data: bytes) -> None:
        self.taken_over.append((transport, peer, data))

    def connect(self, peer: str = "127.0.0.1") -> Wire:
        return Wire(Http1Connection(self), peer)

    def answer(self, number: int, response: Response | None = None) -> None:
        """Answer the request with this number; with its path when nothing else is given."""
        request = self.requests[number]
        request.exchange.respond(response or Response(200, request.path.encode()))

    def fail(self, number: int, error: ApiError) -> None:
        self.requests[number].exchange.respond(response_of(error))

    def beat(self, wire: Wire, ms: float) -> None:
        """Let time pass, and let the connection look at its deadlines."""
        self.clock.advance(ms)
        self.connection_limits.now = self.clock.monotonic()
        wire.protocol.beat(self.connection_limits.now)
