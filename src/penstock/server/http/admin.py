"""Health, readiness, metrics, tickets, and the OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec

from penstock.server import metrics, openapi
from penstock.server.auth_tickets import TICKET_TTL_S, AuthTickets
from penstock.server.http.message import Request, Response
from penstock.server.http.routes import Route
from penstock.server.http.topics import performance
from penstock.server.readiness import Readiness
from penstock.server.service import Service
from penstock.wire.answers import HealthAnswer, ReadyAnswer, TicketAnswer

_encode = msgspec.json.Encoder().encode


class Vitals(Protocol):
    """Facts about the whole server."""

    version: str

    def uptime_ms(self) -> int: ...

    def gauges(self) -> metrics.Gauges: ...


class AdminHandlers:
    """Event loop only."""

    def __init__(
        self, service: Service, tickets: AuthTickets, readiness: Readiness, vitals: Vitals
    ) -> None:
        self._service = service
        self._tickets = tickets
        self._readiness = readiness
        self._vitals = vitals
        self._routes: Iterable[Route] = ()
        self._document = b""

    def describe(self, routes: Iterable[Route]) -> None:
        """Set the routes of the OpenAPI document, once, when the table is complete."""
        self._routes = routes

    def openapi(self, request: Request) -> Response:
        """Built on the first request: most servers never get one."""
        if not self._document:
            self._document = openapi.encoded(self._routes, self._vitals.version)
        return Response(200, self._document)

    def health(self, request: Request) -> Response:
        vitals = self._vitals
        failed = self._service.core.failed if self._service.is_open else None
        answer = HealthAnswer(
            status="ok" if failed is None else "failed",
            version=vitals.version,
            uptime_ms=vitals.uptime_ms(),
        )
        return Response(200 if failed is None else 507, _encode(answer))

    def ready(self, request: Request) -> Response:
        self._readiness.check_recovered()
        answer = ReadyAnswer(
            status="ready", wal_replay_complete=True, topics=self._service.core.catalogue.count
        )
        return Response(200, _encode(answer))

    async def metrics(self, request: Request) -> Response:
        gauges = self._vitals.gauges()
        found = await self._service.run(
            metrics.gather, self._service.core, gauges, request.key.may_name
        )
        if b"application/json" in request.headers.get(b"accept", b""):
            return Response(200, _encode(metrics.as_json(found)))
        return Response(200, metrics.as_text(found), b"text/plain; version=0.0.4; charset=utf-8")

    def ticket(self, request: Request) -> Response:
        answer = TicketAnswer(
            ticket=self._tickets.issue(request.key),
            expires_in_ms=round(TICKET_TTL_S * 1000),
            performance=performance(self._service, request),
        )
        return Response(200, _encode(answer))
