"""`/v0/watch`: watch sessions, which follow many topics, and their event streams."""

from __future__ import annotations

from typing import Final

import msgspec

from penstock import limits
from penstock.engine.read import ReadOptions
from penstock.errors import TopicNotFound
from penstock.server import last_event_id
from penstock.server.auth import ApiKey
from penstock.server.errors import (
    ApiError,
    invalid,
    name_forbidden,
    not_acceptable,
    throttled,
    unauthorized,
)
from penstock.server.http import bodies
from penstock.server.http.message import EVENTS, Request, Response
from penstock.server.http.reads import wanted_of
from penstock.server.http.topics import performance
from penstock.server.key_limits import OpenStreams
from penstock.server.service import Service
from penstock.server.settings import ServerSettings
from penstock.server.sse import EventStream
from penstock.server.subscription import MATCHES_MAX, Cursor
from penstock.server.watch_sessions import SESSION_TTL_MS, WatchSessions
from penstock.topics import validation
from penstock.wire.answers import StartView, WatchAnswer
from penstock.wire.models import Follow, FollowOptions, WatchBody

_BODY = msgspec.json.Decoder(WatchBody)
_encode = msgspec.json.Encoder().encode
_BYTES_DEFAULT: Final = 256 * 1024
_HEARTBEAT_MS: Final = (1_000, 60_000)
HEADERS: Final = (
    (b"content-type", EVENTS),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)


class WatchHandlers:
    """Handlers of watch sessions. Event loop only."""

    def __init__(
        self,
        service: Service,
        sessions: WatchSessions,
        open_streams: OpenStreams,
        settings: ServerSettings,
        *,
        is_open: bool,
    ) -> None:
        self._service = service
        self._sessions = sessions
        self._open_streams = open_streams
        self._heartbeat_min_ms = min(_HEARTBEAT_MS[0], settings.test_min_heartbeat_ms)
        self._is_open = is_open
        self.streams: set[EventStream] = set()

    async def create(self, request: Request) -> Response:
        body = bodies.decoded(request, _BODY)
        if not 1 <= len(body.topics) <= limits.WATCH_TOPICS_MAX:
            raise invalid(
                f"{len(body.topics)} topics in one watch: expected 1 to {limits.WATCH_TOPICS_MAX}"
            )
        is_lenient = request.flag("lenient", False)
        chosen = Chosen(self._service, request.key, body, bytes_default=_BYTES_DEFAULT)
        for name, follow in body.topics.items():
            await chosen.add(name, follow, is_lenient=is_lenient)
        low, high = self._heartbeat_min_ms, _HEARTBEAT_MS[1]
        session = self._sessions.create(
            request.key,
            chosen.cursors,
            chosen.patterns,
            heartbeat_ms=max(low, min(high, body.heartbeat_ms)),
            is_strong=body.consistency == "strong",
        )
        answer = WatchAnswer(
            wid=session.wid,
            stream_url=f"/v0/watch/{session.wid}",
            session_ttl_ms=SESSION_TTL_MS,
            topics=chosen.report(),
            performance=performance(self._service, request),
        )
        return Response(200, _encode(answer))

    def stream(self, request: Request) -> None:
        accept = request.headers.get(b"accept", b"")
        if accept and EVENTS not in accept and b"*/*" not in accept:
            raise not_acceptable(accept)
        session = self._sessions.find(request.params[0])
        if session is None:
            raise ApiError(
                404,
                "not_found",
                "no such watch session: it expired, or was never opened; POST /v0/watch opens one",
            )
        if not self._is_open and request.key is not session.key:
            raise unauthorized("wrong key: stream the watch session with the key that opened it")
        for older in list(session.streams):
            if isinstance(older, EventStream):  # the client reconnected
                older.finish("replaced", "a newer connection streams this session")
        self._open_streams.enter(session.key)
        last_event_id.rewind(session.cursors, request.headers.get(b"last-event-id"))
        stream = request.exchange.start_stream(HEADERS)
        events_ = EventStream(self._service, session, stream, self._ended)
        if not events_.is_over:
            self.streams.add(events_)
            session.streams.append(events_)

    def _ended(self, stream: EventStream) -> None:
        self.streams.discard(stream)
        self._open_streams.leave(stream.session.key)
        self._sessions.leave(stream.session, stream)


class Chosen:
    """The topics of a watch or a subscription, checked, with their start seqs."""

    def __init__(
        self,
        service: Service,
        key: ApiKey,
        options: FollowOptions,
        *,
        bytes_default: int,
        limit_default: int = 256,
    ) -> None:
        self._service = service
        self._key = key
        self._options = options
        if options.tag is not None:  # checked even if each topic has a tag of its own
            validation.tag_match(options.tag)
        self._bounds = {"bytes_default": bytes_default, "limit_default": limit_default}
        self.cursors: dict[str, Cursor] = {}
        self.patterns: dict[str, ReadOptions] = {}

    async def add(self, name: str, follow: Follow, *, is_lenient: bool) -> None:
        validation.seq(follow.from_seq)
        wanted = wanted_of(self._options, tag=follow.tag, **self._bounds)
        if name.endswith("*"):
            prefix = name[:-1]
            self.patterns[prefix] = wanted
            for found in self._service.core.catalogue.names(prefix):
                if found not in self.cursors and self._key.may_name(found):
                    if len(self.cursors) >= MATCHES_MAX:
                        raise throttled("max_matched_topics", MATCHES_MAX)
                    await self._start(found, follow, wanted)
            return
        if not self._key.may_name(name):
            raise name_forbidden(name)
        if self._service.core.catalogue.find(name) is None:
            if is_lenient:
                return
            raise TopicNotFound(name)
        await self._start(name, follow, wanted)

    async def _start(self, name: str, follow: Follow, wanted: ReadOptions) -> None:
        handle = self._service.core.catalogue.find(name)
        if handle is None:
            return
        if handle.is_behind:
            await self._service.run(self._service.core.catalogue.refresh, handle)
        seq = follow.from_seq
        if follow.tail:
            seq = handle.head
        elif follow.from_ts is not None:
            seq = await self._service.run(self._service.core.seek, name, follow.from_ts)
        epoch = handle.epoch if follow.epoch is None else follow.epoch
        self.cursors[name] = Cursor(name, seq, epoch, wanted)

    def report(self) -> dict[str, StartView]:
        """Where each topic starts, for the answer."""
        found: dict[str, StartView] = {}
        for name, cursor in self.cursors.items():
            handle = self._service.core.catalogue.find(name)
            if handle is not None:
                extent = handle.extent()
                found[name] = StartView(
                    from_seq=cursor.seq,
                    head_seq=extent.head_seq,
                    earliest_seq=extent.earliest_seq,
                    epoch=handle.epoch,
                )
        return found
