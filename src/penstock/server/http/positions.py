"""`/v0/topics/:topic/positions`: positions of consumers, and how far they are behind."""

from __future__ import annotations

import msgspec

from penstock.errors import Overloaded
from penstock.server.errors import ApiError, throttled
from penstock.server.http import bodies
from penstock.server.http.message import Request, Response
from penstock.server.http.topics import performance
from penstock.server.service import Service
from penstock.topics import validation
from penstock.types import Position
from penstock.wire.answers import (
    PositionAnswer,
    PositionDeletedAnswer,
    PositionListAnswer,
    PositionRow,
)
from penstock.wire.models import PositionBody

_BODY = msgspec.json.Decoder(PositionBody)
_encode = msgspec.json.Encoder().encode


class PositionHandlers:
    """Handlers of consumer positions. Event loop only."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def put(self, request: Request) -> Response:
        topic, name = request.params
        body = bodies.decoded(request, _BODY)
        validation.seq(body.seq)
        handle = self._service.handle(topic)
        epoch = handle.epoch
        if body.epoch is not None and body.epoch != epoch:
            raise ApiError(
                409,
                "epoch_mismatch",
                f"topic {topic!r} was recreated: expected epoch {body.epoch}, it has epoch {epoch}",
                {"topic": topic, "expected_epoch": body.epoch, "epoch": epoch},
            )
        consumers = self._service.core.consumers
        try:
            moved = await self._service.submit(consumers.submit_move, handle, name, body.seq)
        except Overloaded as error:
            raise error if error.limit is None else throttled(*error.limit) from None
        if consumers.is_shown_quickly(handle, body.seq):
            found = consumers.shown(handle, moved)
        else:  # it has to read files
            found = await self._service.run(consumers.shown, handle, moved)
        return self._answer(request, topic, found)

    async def get(self, request: Request) -> Response:
        topic, name = request.params
        self._service.handle(topic)
        found = await self._service.run(self._service.core.consumers.get, topic, name)
        if found is None:
            raise ApiError(
                404,
                "position_not_found",
                f"no position of consumer {name!r} in topic {topic!r}",
                {"topic": topic, "name": name},
            )
        return self._answer(request, topic, found)

    async def list(self, request: Request) -> Response:
        topic = request.params[0]
        handle = self._service.handle(topic)
        found = await self._service.run(self._service.core.consumers.all, topic)
        answer = PositionListAnswer(
            topic=topic,
            positions=[
                msgspec.convert(position, PositionRow, from_attributes=True) for position in found
            ],
            head_seq=handle.head,
            performance=performance(self._service, request),
        )
        return Response(200, _encode(answer))

    async def drop(self, request: Request) -> Response:
        topic, name = request.params
        handle = self._service.handle(topic)
        submit_drop = self._service.core.consumers.submit_drop
        deleted = await self._service.submit(submit_drop, handle, name)
        answer = PositionDeletedAnswer(
            topic=topic,
            name=name,
            deleted=deleted,
            performance=performance(self._service, request),
        )
        return Response(200, _encode(answer))

    def _answer(self, request: Request, topic: str, position: Position) -> Response:
        answer = PositionAnswer(
            topic=topic,
            performance=performance(self._service, request),
            **msgspec.structs.asdict(position),
        )
        return Response(200, _encode(answer))
