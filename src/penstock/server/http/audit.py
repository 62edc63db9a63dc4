"""`/v0/audit`: reads the audit, which `access.py` writes."""

from __future__ import annotations

from typing import Final

from penstock.limits import READ_RECORDS_MAX
from penstock.server.http.message import Request, Response
from penstock.server.http.topics import performance_text
from penstock.server.service import Service

_LIMIT: Final = 256


class AuditHandlers:
    """Handlers of the audit. Event loop only."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def get(self, request: Request) -> Response:
        after = request.number("from_seq", 0)
        limit = max(1, min(READ_RECORDS_MAX, request.number("limit", _LIMIT)))
        page = await self._service.run(self._service.core.audit.read, after, limit)
        body = b'{"records":%b,"next_from_seq":%d,"head_seq":%d,"caught_up":%b,%b}' % (
            page.records,
            page.next_seq,
            page.head_seq,
            b"true" if page.caught_up else b"false",
            performance_text(self._service, request),
        )
        return Response(200, body)
