"""`/v0/topics/:topic/positions`: how far named consumers have come, and how far behind."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock import limits
from penstock.server.errors import ApiError, throttled
from penstock.server.http import bodies
from penstock.server.http.message import Request, Response
from penstock.server.http.topics import performance
from penstock.server.service import Service
from penstock.topics import names
from penstock.types import Position
from penstock.wire.models import PositionBody

_BODY = msgspec.json.Decoder(PositionBody)
_encode = msgspec.json.Encoder().encode


class Positions:
    """Handlers of consumer positions. Event loop only."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def put(self, request: Request) -> Response:
        topic, name = request.params
        body = bodies.decoded(request, _BODY)
        names.seq(body.seq)
        handle = self._service.handle(topic)
        epoch = handle.topic.epoch
        if body.epoch is not None and body.epoch != epoch:
            raise ApiError(
                409,
                "epoch_mismatch",
                f"topic {topic!r} was recreated: its epoch is {epoch}, not {body.epoch}",
                {"topic": topic, "expected_epoch": body.epoch, "epoch": epoch},
            )
        found = await self._service.run(self._move, topic, name, body.seq)
        return self._answer(request, topic, found)

    def _move(self, topic: str, name: str, seq: int) -> Position:
        """On a thread: moving a position waits for a sync."""
        known = self._service.handle(topic).topic.consumers
        if name not in known and len(known) >= limits.POSITIONS_MAX:
            raise throttled("max_positions", limits.POSITIONS_MAX)
        return self._service.log.move_position(topic, name, seq)

    async def get(self, request: Request) -> Response:
        topic, name = request.params
        self._service.handle(topic)
        found = await self._service.run(self._service.log.position, topic, name)
        if found is None:
            raise ApiError(
                404,
                "position_not_found",
                f"topic {topic!r} has no consumer position {name!r}",
                {"topic": topic, "name": name},
            )
        return self._answer(request, topic, found)

    async def list(self, request: Request) -> Response:
        topic = request.params[0]
        handle = self._service.handle(topic)
        found = await self._service.run(self._service.log.positions, topic)
        answer = {
            "topic": topic,
            "positions": [_fields(position) for position in found],
            "head_seq": handle.topic.head,
            "performance": performance(self._service, request),
        }
        return Response(200, _encode(answer))

    async def drop(self, request: Request) -> Response:
        topic, name = request.params
        self._service.handle(topic)
        deleted = await self._service.run(self._service.log.drop_position, topic, name)
        answer = {
            "topic": topic,
            "name": name,
            "deleted": deleted,
            "performance": performance(self._service, request),
        }
        return Response(200, _encode(answer))

    def _answer(self, request: Request, topic: str, position: Position) -> Response:
        answer = {
            "topic": topic,
            **_fields(position),
            "head_seq": position.head_seq,
            "performance": performance(self._service, request),
        }
        return Response(200, _encode(answer))


def _fields(position: Position) -> dict[str, Any]:
    fields = msgspec.structs.asdict(position)
    del fields["head_seq"]
    return fields
