"""`/v0/routers`: routers, which copy records from topic to topic."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from penstock.engine.routers import Routers as Routing
from penstock.errors import RouterNotFound
from penstock.server.auth import ApiKey
from penstock.server.errors import name_forbidden
from penstock.server.http import bodies
from penstock.server.http.message import Request, Response
from penstock.server.http.paging import after_of, cursor_of, page_size
from penstock.server.http.topics import performance
from penstock.server.service import Service
from penstock.topics import validation
from penstock.types import RouterInfo, RouterRules
from penstock.wire.answers import (
    RouterAnswer,
    RouterDeletedAnswer,
    RouterListAnswer,
    RouterPutAnswer,
    RouterRow,
)
from penstock.wire.models import RouterBody

_BODY = msgspec.json.Decoder(RouterBody)
_encode = msgspec.json.Encoder().encode


class RouterHandlers:
    """Handlers of routers. Event loop only."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @property
    def _routing(self) -> Routing:
        return self._service.core.routing

    async def put(self, request: Request) -> Response:
        name = request.params[0]
        body = bodies.decoded(request, _BODY)
        _check(request.key, body.source, body.dest)
        match = None if body.filter is None else validation.tag_match(body.filter)
        rules = RouterRules(
            body.preserve_node,
            body.preserve_tag,
            body.allow_cycle,
            body.guarantee == "exactly_once",
            match,
        )
        info = await self._service.run(
            self._routing.put, name, body.source, body.dest, rules, create_dest=body.create_dest
        )
        for topic in (body.source, body.dest):
            self._service.feeds.created(topic)
        answer = RouterPutAnswer(
            created=info.created,
            performance=performance(self._service, request),
            **_settings(info),
        )
        return Response(201 if info.created else 200, _encode(answer))

    async def get(self, request: Request) -> Response:
        name = request.params[0]
        self._allowed(request.key, name)
        info = await self._service.run(self._routing.info, name)
        answer = RouterAnswer(
            performance=performance(self._service, request), **_settings(info), **_progress(info)
        )
        return Response(200, _encode(answer))

    async def list(self, request: Request) -> Response:
        size = page_size(request)
        after = after_of(request)
        key = request.key
        found = await self._service.run(
            self._routing.all,
            request.query("prefix") or "",
            request.query("source") or "",
            request.query("dest") or "",
        )
        chosen = [
            info
            for info in found
            if info.name > after
            and key.may_name(info.name)
            and key.may_name(info.source)
            and key.may_name(info.dest)
        ]
        answer = RouterListAnswer(
            routers=[RouterRow(**_settings(info), **_progress(info)) for info in chosen[:size]],
            next_cursor=cursor_of(chosen[size - 1].name) if len(chosen) > size else UNSET,
            performance=performance(self._service, request),
        )
        return Response(200, _encode(answer))

    async def drop(self, request: Request) -> Response:
        name = request.params[0]
        try:
            self._allowed(request.key, name)
        except RouterNotFound:
            deleted = False
        else:
            deleted = await self._service.run(self._routing.drop, name)
        answer = RouterDeletedAnswer(
            router=name, deleted=deleted, performance=performance(self._service, request)
        )
        return Response(200, _encode(answer))

    def _allowed(self, key: ApiKey, name: str) -> None:
        """A key that may not use a router's topics may not use the router."""
        _check(key, *self._routing.ends(name))


def _check(key: ApiKey, *topics: str) -> None:
    for topic in topics:
        if not key.may_name(topic):
            raise name_forbidden(topic)


def _settings(info: RouterInfo) -> dict[str, Any]:
    return {
        "router": info.name,
        "source": info.source,
        "dest": info.dest,
        "preserve_node": info.preserve_node,
        "preserve_tag": info.preserve_tag,
        "filter": info.filter,
        "allow_cycle": info.allow_cycle,
        "guarantee": "exactly_once" if info.exactly_once else "at_least_once",
    }


def _progress(info: RouterInfo) -> dict[str, Any]:
    return {
        "forwarded_total": info.forwarded_total,
        "cursor": info.cursor,
        "lag_records": info.lag_records,
        "stopped": info.stopped or None,
    }
