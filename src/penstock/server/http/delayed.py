"""`/v0/topics/:topic/delayed`: the records of a topic whose time has not come."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET

from penstock.server.errors import invalid
from penstock.server.http.message import Request, Response
from penstock.server.http.topics import performance
from penstock.server.service import Service
from penstock.wire.answers import DelayedCancelledAnswer, DelayedListAnswer, DelayedRow

_encode = msgspec.json.Encoder().encode
_LIMIT: Final = 100
_LIMIT_MAX: Final = 1000
_ID_MAX: Final = (1 << 64) - 1


class DelayedHandlers:
    """Handlers of delayed records. Event loop only."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def list(self, request: Request) -> Response:
        handle = self._service.handle(request.params[0])
        limit = max(1, min(_LIMIT_MAX, request.number("limit", _LIMIT)))
        after = request.number("after", 0)
        infos = self._service.core.delayed.infos
        found = await self._service.run(infos, handle.name, after, limit + 1)
        shown = found[:limit]
        answer = DelayedListAnswer(
            topic=handle.name,
            delayed=[msgspec.convert(one, DelayedRow, from_attributes=True) for one in shown],
            next_after=shown[-1].id if len(found) > limit else UNSET,
            performance=performance(self._service, request),
        )
        return Response(200, _encode(answer))

    async def cancel(self, request: Request) -> Response:
        handle = self._service.handle(request.params[0])
        delayed_id = _id_of(request.params[1])
        await self._service.run(self._service.core.delayed.cancel_one, handle.name, delayed_id)
        answer = DelayedCancelledAnswer(
            topic=handle.name,
            delayed_id=delayed_id,
            deleted=True,
            performance=performance(self._service, request),
        )
        return Response(200, _encode(answer))


def _id_of(text: str) -> int:
    found = int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else -1
    if not 0 <= found <= _ID_MAX:
        raise invalid(f"invalid id of a delayed batch {text[:40]!r}: expected its delayed_id")
    return found
