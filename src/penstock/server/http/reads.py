"""`POST /v0/topics/:topic/diff`: reads, with long poll, as JSON or as frames."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec

from penstock.engine.handle import Handle
from penstock.engine.read import ReadOptions
from penstock.engine.read import options as read_options
from penstock.server.feeds import Feed
from penstock.server.http import bodies
from penstock.server.http.message import BATCH, Request, Response
from penstock.server.service import Service
from penstock.topics import validation
from penstock.types import FramesPage, Gap, JsonPage
from penstock.wire import binary_batch as binary
from penstock.wire.models import DiffBody, FollowOptions

_BODY = msgspec.json.Decoder(DiffBody)
LIMIT_DEFAULT: Final = 256
LIMIT_MAX: Final = 1000
BYTES_DEFAULT: Final = 1 << 20
BYTES_MAX: Final = 8 << 20
_WAIT_MS_MAX: Final = 30_000


class ReadHandlers:
    """Handlers of reads. Event loop only."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def diff(self, request: Request) -> Any:
        """Answered at once from memory; otherwise by a coroutine."""
        body = bodies.decoded(request, _BODY, empty=b"{}")
        wanted = wanted_of(body, bytes_default=BYTES_DEFAULT)
        is_binary = BATCH in request.headers.get(b"accept", b"")
        handle = self._service.handle(request.params[0])
        self._service.touch(handle)
        after = body.from_seq
        if after is None and body.from_ts is None:
            after = 0  # before the first record, so that a gap there is reported
        if after is None or is_binary or body.wait_ms or body.consistency == "strong":
            return self._diff(request, body, handle, wanted, is_binary=is_binary)
        validation.seq(after)
        page = self._service.read_hot(handle, after, body.epoch, wanted)
        if page is None:
            return self._diff(request, body, handle, wanted, is_binary=False)
        return self._answer(request, after, page)

    async def _diff(
        self,
        request: Request,
        body: DiffBody,
        handle: Handle,
        wanted: ReadOptions,
        *,
        is_binary: bool,
    ) -> Response:
        service = self._service
        after = body.from_seq
        if after is None:
            after = 0
            if body.from_ts is not None:
                after = await service.run(service.core.seek, handle.name, body.from_ts)
        validation.seq(after)
        poll = Poll(service, handle) if body.wait_ms else None
        if poll is not None:
            request.exchange.on_close = poll.give_up
        try:
            page = await self._read(body, handle, after, wanted, is_binary=is_binary)
            is_empty = not page.count and page.gap is None and page.caught_up
            if poll is not None and is_empty:
                await poll.wait(min(body.wait_ms, _WAIT_MS_MAX) / 1000)
                handle = service.handle(request.params[0])
                page = await self._read(body, handle, after, wanted, is_binary=is_binary)
        finally:
            if poll is not None:
                poll.leave()
        return self._answer(request, after, page)

    async def _read(
        self,
        body: DiffBody,
        handle: Handle,
        after: int,
        wanted: ReadOptions,
        *,
        is_binary: bool,
    ) -> JsonPage | FramesPage:
        service = self._service
        is_strong = body.consistency == "strong"
        if is_binary:
            if not is_strong:
                frames = service.frames_hot(handle, after, body.epoch, wanted)
                if frames is not None:
                    return frames
            return await service.read_frames(handle, after, body.epoch, wanted, is_strong=is_strong)
        if not is_strong:
            page = service.read_hot(handle, after, body.epoch, wanted)
            if page is not None:
                return page
        return await service.read(handle, after, body.epoch, wanted, is_strong=is_strong)

    def _answer(self, request: Request, after: int, page: JsonPage | FramesPage) -> Response:
        elapsed_ms = (self._service.clock.monotonic() - request.started) * 1000
        start = after
        if page.gap is not None:  # a recreated topic is read from its beginning
            is_new = page.gap.reason == "recreated"
            start = page.earliest_seq - 1 if is_new else max(after, page.gap.last)
        fields = page_fields(request.params[0], page, max(0, page.next_seq - start), elapsed_ms)
        if isinstance(page, FramesPage):
            body = binary.encode_page(b"{%b}" % fields, page.frames, page.count)
            return Response(200, body, BATCH)
        return Response(200, b'{"records":%b,%b}' % (page.records, fields))


class Poll:
    """One long poll. It joins the topic's feed before the first read, to miss no append."""

    is_pushed = False

    def __init__(self, service: Service, handle: Handle) -> None:
        self._service = service
        self._woken = asyncio.Event()
        self._feed = service.feeds.subscribe(handle, self)

    def wake(self, feed: Feed) -> None:
        self._woken.set()

    def give_up(self) -> None:
        """The client has disconnected."""
        self._woken.set()

    async def wait(self, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await self._woken.wait()
        except TimeoutError:
            pass

    def leave(self) -> None:
        self._service.feeds.unsubscribe(self._feed, self)


def wanted_of(
    body: DiffBody | FollowOptions,
    *,
    bytes_default: int,
    limit_default: int = LIMIT_DEFAULT,
    tag: Any = None,
) -> ReadOptions:
    """The options of a read, within their limits."""
    return read_options(
        min(body.limit or limit_default, LIMIT_MAX),
        body.node if not isinstance(body.node, str) else [body.node],
        min(body.max_batch_bytes or bytes_default, BYTES_MAX),
        body.tag if tag is None else tag,
        include_tags=body.include_tags,
        include_meta=body.include_meta,
        include_data=getattr(body, "include_data", True),
        is_wire=True,
    )


def page_fields(topic: str, page: JsonPage | FramesPage, scanned: int, elapsed_ms: float) -> bytes:
    """The members of `ReadAnswer` without the records."""
    return (
        b'"topic":"%b","next_from_seq":%d,"head_seq":%d,"earliest_seq":%d,"caught_up":%b,'
        b'"tombstone":%b,"lag":%d,"epoch":%d,'
        b'"performance":{"server_total_ms":%.3f,"records_scanned":%d}'
    ) % (
        topic.encode(),
        page.next_seq,
        page.head_seq,
        page.earliest_seq,
        b"true" if page.caught_up else b"false",
        b"null" if page.gap is None else tombstone_of(page.gap),
        max(0, page.head_seq - page.next_seq),
        page.epoch,
        elapsed_ms,
        scanned,
    )


def tombstone_of(gap: Gap) -> bytes:
    return (
        b'{"gap_from":%d,"gap_to":%d,"reason":"%b","missed_estimate":%d,"earliest_seq":%d,'
        b'"head_seq":%d}'
    ) % (
        gap.first,
        gap.last,
        gap.reason.encode(),
        gap.missed_estimate,
        gap.earliest_seq,
        gap.head_seq,
    )
