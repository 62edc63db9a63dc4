"""What a WebSocket peer says and hears: subscribe, unsubscribe, publish, ping."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from penstock import limits
from penstock.engine.batch import Batch
from penstock.engine.engine import Outcome
from penstock.engine.handle import Handle
from penstock.server import events
from penstock.server.auth import ANYONE, Scope
from penstock.server.errors import ApiError, api_error, forbidden, invalid, throttled
from penstock.server.http import bodies
from penstock.server.http.limits import SMALL_BODY_BYTES
from penstock.server.http.message import Request
from penstock.server.http.watches import Chosen
from penstock.server.http.writes import appended_fields, batch_of, ensure, put_off
from penstock.server.service import Service
from penstock.server.subscription import Cursor, Subscription
from penstock.server.websocket import Peer, WebSocket
from penstock.types import Appended, Gap, JsonPage
from penstock.wire.models import Command, Follow, Publish, Subscribe, Unsubscribe

_COMMAND = msgspec.json.Decoder(Command)
_SUBSCRIBE = msgspec.json.Decoder(Subscribe)
_UNSUBSCRIBE = msgspec.json.Decoder(Unsubscribe)
_PUBLISH = msgspec.json.Decoder(Publish)
_encode = msgspec.json.Encoder().encode
_NULL = b"null"
_LIMIT_DEFAULT = 1000
_BYTES_DEFAULT = 1 << 20
_TASKS_MAX = 8  # subscriptions and first publications of one peer under way
_PATTERNS_MAX = 256


class Commands:
    """One peer. Event loop only. Its cursors die with the socket."""

    def __init__(
        self,
        service: Service,
        socket: WebSocket,
        request: Request,
        on_end: Callable[[Commands], None],
        inflight_max: int = 0,
    ) -> None:
        self._inflight_max = inflight_max  # of its key; 0: any number
        self._publishing = 0
        self._service = service
        self._socket = socket
        self.request = request  # its key and headers hold for the whole connection
        # One key for every publication would make all but the first a repetition of it.
        request.headers.pop(b"idempotency-key", None)
        self.key = request.key
        self._on_end = on_end
        self._is_over = False
        self._subscription = Subscription(service, self)
        self._tasks: set[asyncio.Task[None]] = set()
        socket.attach(
            Peer(self._text, self._binary, self._subscription.pump, self.end, self._is_busy)
        )

    def end(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._subscription.close()
            self._on_end(self)

    def finish(self, code: str, message: str) -> None:
        """Say why, and close in order."""
        self._error(_NULL, ApiError(503, code, message))
        self._socket.close(1001, message)

    # What the peer says.

    def _binary(self, data: bytes) -> None:
        self._error(_NULL, ApiError(400, "unsupported_message", "messages are JSON texts"))

    def _text(self, text: bytes) -> None:
        request_id = _NULL
        try:
            command = _command(text)
            request_id = bytes(command.request_id) or _NULL
            _check_size(text, command.op)
            match command.op:
                case "publish":
                    self._publish(request_id, text)
                case "subscribe":
                    self._later(request_id, self._subscribe(request_id, text))
                case "unsubscribe":
                    self._unsubscribe(request_id, text)
                case "ping":
                    self._send(b'{"op":"pong","request_id":%b}' % request_id)
                case _:
                    message = "the op is none that is known"
                    self._error(request_id, ApiError(400, "invalid_json", message))
        except Exception as error:  # noqa: BLE001 - the peer gets an answer whatever it is
            self._error(request_id, api_error(error))

    async def _subscribe(self, request_id: bytes, text: bytes) -> None:
        self._need(Scope.READ)
        body = bodies.parsed(text, _SUBSCRIBE)
        wanted = dict(body.topics)
        if body.topic is not None:
            wanted[body.topic] = Follow(
                from_seq=body.from_seq,
                tail=body.tail,
                from_ts=body.from_ts,
                epoch=body.epoch,
                tag=None,
            )
        if not wanted:
            raise invalid("give topic or topics")
        chosen = Chosen(
            self._service,
            self.key,
            body,
            bytes_default=_BYTES_DEFAULT,
            limit_default=_LIMIT_DEFAULT,
        )
        if sum(name.endswith("*") for name in wanted) > _PATTERNS_MAX:
            raise throttled("max_patterns", _PATTERNS_MAX)
        for name, follow in wanted.items():
            await chosen.add(name, follow, is_lenient=body.lenient)
        if self._is_over:
            return
        if len({*self._subscription.patterns, *chosen.patterns}) > _PATTERNS_MAX:
            raise throttled("max_patterns", _PATTERNS_MAX)
        self._send(
            b'{"op":"subscribed","request_id":%b,"topics":%b}'
            % (request_id, _encode(chosen.report()))
        )
        subscription = self._subscription
        for prefix, options in chosen.patterns.items():
            subscription.add_pattern(prefix, options, self.key.may_name)
        for cursor in chosen.cursors.values():
            handle = self._service.log.find(cursor.name)
            if handle is None:
                self.deleted(cursor)
            else:
                subscription.add(cursor, handle)
        for prefix in chosen.patterns:
            for name in self._service.log.names(prefix):
                subscription.created(name)  # while the others were looked up
        subscription.pump()

    def _unsubscribe(self, request_id: bytes, text: bytes) -> None:
        body = bodies.parsed(text, _UNSUBSCRIBE)
        gone = list(dict.fromkeys([*([body.topic] if body.topic else []), *body.topics]))
        for name in gone:
            if name.endswith("*"):
                self._subscription.remove_pattern(name[:-1])
            else:
                self._subscription.remove(name)
        self._send(
            b'{"op":"unsubscribed","request_id":%b,"topics":%b}' % (request_id, _encode(gone))
        )

    def _publish(self, request_id: bytes, text: bytes) -> None:
        bodies.check_count(text, limits.BATCH_RECORDS_MAX)
        body = bodies.parsed(text, _PUBLISH)
        self._need(Scope.WRITE)
        if not self.key.may_name(body.topic):
            raise forbidden("this key may not use that name", body.topic)
        if body.config is not None:
            self._need(Scope.ADMIN)
            bodies.check_names(self.key, body.config)
        batch = batch_of(body, body.records, self.request)
        handle = self._service.find(body.topic)
        if handle is None:
            self._later(request_id, self._publish_first(request_id, body, batch))
        else:
            self._submit(request_id, handle, body, batch, created=False)

    async def _publish_first(self, request_id: bytes, body: Publish, batch: Batch) -> None:
        created = await ensure(self._service, body.topic, body)
        handle = self._service.handle(body.topic)
        self._submit(request_id, handle, body, batch, created=created)

    def _submit(
        self, request_id: bytes, handle: Handle, body: Publish, batch: Batch, *, created: bool
    ) -> None:
        service = self._service
        started = service.clock.monotonic()
        key = self.key
        if body.is_for_later:
            batch = put_off(service, body, batch)

        def resolved(outcome: Outcome) -> None:
            if key is not ANYONE:
                key.in_flight -= 1
                self._publishing -= 1
                self._socket.go_on()
            answer = service.log.answer(outcome, batch)
            if not isinstance(answer, Appended):
                self._error(request_id, api_error(answer))
                return
            fields = appended_fields(
                answer,
                created=created,
                has_seqs=body.return_seqs,
                elapsed_ms=(service.clock.monotonic() - started) * 1000,
            )
            if not body.return_seqs:
                fields += b',"seqs":null'
            self._send(b'{"op":"ack","request_id":%b,%b}' % (request_id, fields))

        if key is not ANYONE:
            key.in_flight += 1
            self._publishing += 1
        try:
            service.append(
                handle,
                batch,
                resolved,
                body.expected_seq,
                is_patient=body.disable_backpressure,
            )
        except BaseException:
            if key is not ANYONE:
                key.in_flight -= 1
                self._publishing -= 1
            raise

    def _later(self, request_id: bytes, work: Any) -> None:
        async def guarded() -> None:
            try:
                await work
            except Exception as error:  # noqa: BLE001 - the peer gets an answer whatever it is
                self._error(request_id, api_error(error))

        task = asyncio.ensure_future(guarded())
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _is_busy(self) -> bool:
        """Not by what others with the same key have under way: nobody would say when to go on."""
        is_full = self._inflight_max and self._publishing >= self._inflight_max
        return bool(is_full) or len(self._tasks) >= _TASKS_MAX

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._socket.go_on()

    def _need(self, scope: Scope) -> None:
        if self.key is not ANYONE and not self.key.may(scope):
            raise forbidden("this key lacks the scope for it")

    # The sink of the subscription.

    @property
    def is_full(self) -> bool:
        return self._socket.is_full

    def added(self, cursor: Cursor) -> None:
        """Cursors live in the subscription alone."""

    def record(self, cursor: Cursor, after: int, page: JsonPage) -> None:
        feed = cursor.feed
        if feed is not None:
            key = self._socket.framing, after, cursor.epoch, cursor.kind
            held = feed.shared.get(key)
            if held is None or held[0] is not page:  # another page of this place may hold more
                fields = events.record_fields(cursor.name, after, page)
                held = page, self._socket.framed(b'{"op":"record",%b}' % fields)
                feed.keep(key, held)
            self._socket.write(held[1])

    def tombstone(self, cursor: Cursor, gap: Gap) -> None:
        self._send(b'{"op":"tombstone",%b}' % events.tombstone_fields(cursor.name, gap, gap.reason))

    def caught_up(self, cursor: Cursor, head: int) -> None:
        self._send(b'{"op":"caught_up",%b}' % events.head_fields(cursor.name, head))

    def deleted(self, cursor: Cursor) -> None:
        self._send(b'{"op":"topic_deleted",%b}' % events.deleted_fields(cursor.name))

    def failed(self, error: Exception) -> None:
        self._error(_NULL, api_error(error))

    # What the peer hears.

    def _send(self, text: bytes) -> None:
        self._socket.write(self._socket.framed(text))

    def _error(self, request_id: bytes, error: ApiError) -> None:
        fields: dict[str, Any] = {"code": error.code, "message": error.message}
        if error.detail is not None:
            fields["detail"] = error.detail
        self._send(b'{"op":"error","request_id":%b,%b' % (request_id, _encode(fields)[1:]))


def _command(text: bytes) -> Command:
    try:
        return bodies.parsed(text, _COMMAND)
    except ApiError as error:
        raise ApiError(400, "invalid_json", error.message) from None


def _check_size(text: bytes, op: str) -> None:
    """Only what carries records may be large."""
    if len(text) > SMALL_BODY_BYTES and op != "publish":
        message = f"a message of this kind has at most {SMALL_BODY_BYTES} bytes"
        raise ApiError(413, "payload_too_large", message)
