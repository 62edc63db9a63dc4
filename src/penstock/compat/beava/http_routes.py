"""The routes of beava over HTTP: a request in, an answer out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from penstock.compat.beava import bodies
from penstock.compat.beava.bodies import BatchGetBody, get_of, read_of
from penstock.compat.beava.pusher import Acked
from penstock.compat.beava.replies import BeavaError, json_of, push_answer
from penstock.compat.beava.verbs import BeavaVerbs
from penstock.feature_types import PushSync
from penstock.server.adapters import JSON, Request, Response

_REPLAY: Final = ((b"x-beava-idempotent-replay", b"1"),)
_Handler = Callable[[Request, str], Awaitable[Response]]


class HttpRoutes:
    """Event loop only. A path may have one name behind it, as in `/push/Ride`."""

    def __init__(self, verbs: BeavaVerbs) -> None:
        self._verbs = verbs
        self._plain: Mapping[str, tuple[str, _Handler]] = {
            "ping": ("POST", self._ping),
            "register": ("POST", self._register),
            "push": ("POST", self._push),
            "push-sync": ("POST", self._push_sync),
            "get": ("POST", self._get),
            "batch_get": ("POST", self._batch_get),
            "reset": ("POST", self._reset),
            "health": ("GET", self._health),
            "ready": ("GET", self._ready),
        }
        self._named: Mapping[str, tuple[str, _Handler]] = {
            "push": ("POST", self._push),
            "push-sync": ("POST", self._push_sync),
            "push-batch": ("POST", self._push_batch),
            "get": ("GET", self._get_feature),
        }

    async def answer(self, request: Request) -> Response:
        """The answer, errors included."""
        try:
            handler, name = self._found(request)
            return await handler(request, name)
        except BeavaError as error:
            return Response(error.status, json_of(error.body()))

    def _found(self, request: Request) -> tuple[_Handler, str]:
        verb, has_name, name = request.path.strip("/").partition("/")
        found = (self._named if has_name else self._plain).get(verb)
        if found is None and verb == "get" and has_name:
            found = self._named["get"]
        if found is None or not request.path.startswith("/"):
            raise BeavaError(404, "not_found", path=request.path)
        method, handler = found
        if request.method != method:
            raise BeavaError(405, "method_not_allowed", method=request.method, path=request.path)
        return handler, name

    async def _ping(self, request: Request, name: str) -> Response:
        return _ok({"pong": True, "registry_version": self._verbs.version})

    async def _health(self, request: Request, name: str) -> Response:
        return _ok({"status": "ok"})

    async def _ready(self, request: Request, name: str) -> Response:
        return _ok({"status": "ready"})

    async def _register(self, request: Request, name: str) -> Response:
        kind = request.headers.get(b"content-type", b"").partition(b";")[0]
        if kind.strip().lower() != JSON:
            raise BeavaError(
                415,
                "unsupported_media_type",
                self._verbs.version,
                path="/register",
                reason="expected application/json",
            )
        return _ok(await self._verbs.registrar.register(request.body))

    async def _reset(self, request: Request, name: str) -> Response:
        return _ok(await self._verbs.registrar.reset())

    # Events.

    async def _push(self, request: Request, name: str) -> Response:
        return await self._pushed(request, name, None)

    async def _push_sync(self, request: Request, name: str) -> Response:
        return await self._pushed(request, name, "per_event")

    async def _pushed(self, request: Request, name: str, sync: PushSync | None) -> Response:
        if name:
            event, data = unquote(name), request.body
        else:
            event, data = _named_event(request.body)
        return _acked(await self._verbs.pusher.push(event, data, sync))

    async def _push_batch(self, request: Request, name: str) -> Response:
        """One object, or an array of them: all or none."""
        body = request.body
        datas = [body]
        if body.lstrip()[:1] == b"[":
            try:
                datas = [bytes(one) for one in bodies.objects(body)]
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise BeavaError(400, "invalid_event", reason=str(error)) from None
            if not datas:
                raise BeavaError(400, "invalid_event", reason="expected one event or more")
        return _acked(await self._verbs.pusher.push_all(unquote(name), datas))

    # Rows.

    async def _get(self, request: Request, name: str) -> Response:
        return _ok(await self._verbs.reader.get(get_of(request.body)))

    async def _batch_get(self, request: Request, name: str) -> Response:
        return _ok(await self._verbs.reader.batch_get(read_of(BatchGetBody, request.body)))

    async def _get_feature(self, request: Request, name: str) -> Response:
        feature, _, key = name.partition("/")
        return _ok(await self._verbs.reader.feature(unquote(feature), unquote(key)))


def _named_event(body: bytes) -> tuple[str, bytes]:
    try:
        push = bodies.json_push(body)
    except msgspec.ValidationError as error:
        raise BeavaError(400, "missing_event_name_in_body", reason=str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BeavaError(400, "invalid_json_body", reason=str(error)) from None
    return push.event, bytes(push.data)


def _acked(acked: Acked) -> Response:
    """A repetition gets what the first push got, and a header."""
    answer = push_answer(acked.seq, acked.version)
    return Response(200, answer, headers=_REPLAY if acked.is_replay else ())


def _ok(answer: Mapping[str, Any]) -> Response:
    return Response(200, json_of(answer))
