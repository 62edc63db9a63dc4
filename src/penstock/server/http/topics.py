"""`/v0/topics`: create, get, list and delete topics, and delete records from them."""

from __future__ import annotations

import functools
from typing import Any

import msgspec
from msgspec import UNSET

from penstock.engine.handle import Handle
from penstock.errors import TopicExists
from penstock.server.errors import ApiError, invalid
from penstock.server.http import bodies
from penstock.server.http.message import Request, Response
from penstock.server.http.paging import after_of, cursor_of, page_size
from penstock.server.http.routes import PendingAnswer
from penstock.server.service import Service
from penstock.topics import validation
from penstock.types import Removed, TopicInfo
from penstock.wire.answers import (
    Performance,
    RecordsDeletedAnswer,
    TopicAnswer,
    TopicDeletedAnswer,
    TopicListAnswer,
    TopicListRow,
    TopicPutAnswer,
)
from penstock.wire.models import DeleteBody

_CONFIG = msgspec.json.Decoder(dict[str, Any])
_DELETE = msgspec.json.Decoder(DeleteBody)
_encode = msgspec.json.Encoder().encode


class TopicHandlers:
    """Handlers of topics. Event loop only."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def put(self, request: Request) -> Response:
        topic = request.params[0]
        config = bodies.config_of(bodies.decoded(request, _CONFIG, empty=b"{}"))
        validation.topic_name(topic)
        bodies.check_names(request.key, config)
        try:
            info, is_new = await self._service.create(topic, config)
        except TopicExists as error:
            existing = self._service.handle(topic).config.type
            detail = {
                "topic": topic,
                "existing_type": existing,
                "requested_type": config.get("type", "log"),
            }
            raise ApiError(409, "topic_exists_incompatible", str(error), detail) from None
        answer = TopicPutAnswer(
            topic=topic,
            created=is_new,
            config=info.config,
            epoch=info.epoch,
            performance=performance(self._service, request),
        )
        return Response(201 if is_new else 200, _encode(answer))

    async def get(self, request: Request) -> Response:
        handle = self._service.handle(request.params[0])
        if request.flag("touch", True):
            self._service.touch(handle)
        info = await self._info(handle)
        answer = TopicAnswer(
            topic=info.name,
            type=info.config.type,
            head_seq=info.head_seq,
            earliest_seq=info.earliest_seq,
            next_seq=info.next_seq,
            count=info.count,
            bytes=info.bytes,
            config=info.config,
            effective_priority=self._service.priority(handle),
            epoch=info.epoch,
            last_write_ts=info.last_write_ts,
            segments=info.segments,
            last_read_ts=self._service.recency.last_read_ms(info.id),
            performance=performance(self._service, request),
        )
        if info.config.type == "queue":
            if info.config.ttl_ms:
                answer.queue = await self._service.run(self._service.core.queues.counts, handle)
            else:
                answer.queue = self._service.core.queues.counts(handle)
        return Response(200, _encode(answer))

    async def list(self, request: Request) -> Response:
        prefix = request.query("prefix") or ""
        size = page_size(request)
        after = after_of(request)
        key = request.key
        chosen = [
            name
            for name in self._service.core.catalogue.names(prefix)
            if name > after and key.may_name(name)
        ]
        has_config = request.flag("config", False)
        is_touching = request.flag("touch", False)
        rows = []
        for name in chosen[:size]:
            handle = self._service.core.catalogue.find(name)
            if handle is None:
                continue
            if is_touching:
                self._service.touch(handle)
            info = await self._info(handle)
            row = TopicListRow(
                topic=info.name,
                head_seq=info.head_seq,
                earliest_seq=info.earliest_seq,
                count=info.count,
                bytes=info.bytes,
                durable=info.config.durable,
                effective_priority=self._service.priority(handle),
                epoch=info.epoch,
            )
            if has_config:  # for callers that would otherwise get each topic
                row.config = info.config
                row.segments = info.segments
                row.last_write_ts = info.last_write_ts
            rows.append(row)
        answer = TopicListAnswer(
            topics=rows,
            next_cursor=cursor_of(chosen[size - 1]) if len(chosen) > size else UNSET,
            performance=performance(self._service, request),
        )
        return Response(200, _encode(answer))

    async def drop(self, request: Request) -> Response:
        topic = request.params[0]
        gone = await self._service.run(self._drop, topic, request.flag("if_empty", False))
        answer = TopicDeletedAnswer(
            topic=topic,
            deleted=gone is not None,
            routers_removed=gone or (),
            performance=performance(self._service, request),
        )
        return Response(200, _encode(answer))

    def _drop(self, topic: str, if_empty: bool) -> tuple[str, ...] | None:
        """The routers that were removed with the topic; None when there is no such topic."""
        core = self._service.core
        with core.catalogue.changing:
            handle = core.catalogue.find(topic)
            if handle is None:
                return None
            count = core.catalogue.info(handle).count
            if if_empty and count:
                raise ApiError(
                    409,
                    "topic_not_empty",
                    f"topic {topic!r} is not empty: it has {count} records, and if_empty is set",
                    {"topic": topic, "count": count},
                )
            self._service.recency.forget(handle.id)
            routers = core.routing.touching(topic)
            core.drop(topic)
            return tuple(routers)

    def delete(self, request: Request) -> PendingAnswer:
        """Delete records: `POST /v0/topics/:topic/delete`. Answered by callback."""
        topic = request.params[0]
        body = bodies.decoded(request, _DELETE)
        if body.before_seq is None and body.match is None and not body.seqs:
            raise invalid("nothing to delete: specify before_seq, match or seqs")
        bodies.check_seqs(body.seqs)
        if body.before_seq is not None:
            validation.seq(body.before_seq)
        if body.match is not None:
            validation.tag_match(body.match)
        pending = PendingAnswer(functools.partial(self._deleted, request))
        self._service.delete(topic, body.before_seq, body.match, body.seqs, pending.resolve)
        return pending

    def _deleted(self, request: Request, removed: Removed) -> Response:
        answer = RecordsDeletedAnswer(
            topic=request.params[0],
            deleted=removed.deleted,
            earliest_seq=removed.earliest_seq,
            head_seq=removed.head_seq,
            count=removed.count,
            bytes=removed.bytes,
            performance=performance(self._service, request),
        )
        return Response(200, _encode(answer))

    async def _info(self, handle: Handle) -> TopicInfo:
        """On a thread for a topic with a TTL, which may log expiries, and for a topic that waits
        for its routers; on the loop for others."""
        catalogue = self._service.core.catalogue
        if handle.config.ttl_ms or handle.is_behind:
            return await self._service.run(catalogue.info, handle)
        return catalogue.info(handle)


def elapsed_ms(service: Service, request: Request) -> float:
    return round((service.clock.monotonic() - request.started) * 1000, 3)


def performance(service: Service, request: Request) -> Performance:
    """The `performance` of a 2xx answer."""
    return Performance(server_total_ms=elapsed_ms(service, request))


def performance_text(service: Service, request: Request) -> bytes:
    """The same as a member of an answer that is formatted as bytes."""
    return b'"performance":' + _encode(performance(service, request))
