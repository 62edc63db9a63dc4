"""The commands of a WebSocket peer and their answers: subscribe, unsubscribe, publish, ping."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from penstock import limits
from penstock.server import events
from penstock.server.appends import Answer, Batch
from penstock.server.auth import ANYONE, Scope
from penstock.server.errors import ApiError, api_error, forbidden, invalid, throttled
from penstock.server.http import bodies
from penstock.server.http.connection_limits import SMALL_BODY_BYTES
from penstock.server.http.message import Request
from penstock.server.http.watches import Chosen
from penstock.server.http.writes import (
    PLAIN_BYTES_MAX,
    PlainRecord,
    appended_fields,
    batch_of,
    plain_batch,
)
from penstock.server.key_limits import begin_request, end_request
from penstock.server.service import Service
from penstock.server.subscription import Cursor, Subscription
from penstock.server.websocket import WebSocket, WebSocketCallbacks
from penstock.types import Appended, Gap, JsonPage
from penstock.wire import binary_batch as binary
from penstock.wire.models import (
    Command,
    Follow,
    Publish,
    Subscribe,
    Unsubscribe,
    WriteHead,
    WriteOptions,
)

_COMMAND = msgspec.json.Decoder(Command)
_SUBSCRIBE = msgspec.json.Decoder(Subscribe)
_UNSUBSCRIBE = msgspec.json.Decoder(Unsubscribe)
_PUBLISH = msgspec.json.Decoder(Publish)
_encode = msgspec.json.Encoder().encode
_NULL = b"null"
_LIMIT_DEFAULT = 1000
_BYTES_DEFAULT = 1 << 20
_TASKS_MAX = 8  # subscriptions of one peer under way, and publications that wait for a topic
_PATTERNS_MAX = 256


class _PublishCommand(WriteHead, kw_only=True, frozen=True):
    """A publication with only payloads, decoded in one step instead of with `Command` and
    `Publish`."""

    topic: str
    records: list[PlainRecord]
    return_seqs: bool = True
    op: str
    request_id: msgspec.Raw = msgspec.Raw(_NULL)


_PUBLISH_COMMAND = msgspec.json.Decoder(_PublishCommand)


class PendingPublication:
    """A publication that waits for its commit class. Event loop only."""

    __slots__ = (
        "_peer",
        "has_seqs",
        "is_counted",
        "is_waiting",
        "request_id",
        "started_s",
    )

    def __init__(self, peer: WebSocketCommands, request_id: bytes, has_seqs: bool) -> None:
        self._peer = peer
        self.request_id = request_id
        self.has_seqs = has_seqs
        self.started_s = peer.monotonic()
        self.is_counted = False  # for its key
        self.is_waiting = False  # or was, in its topic's queue

    def respond(self, answer: Answer) -> None:
        self._peer.answer(self, answer)


class WebSocketCommands:
    """One peer. Event loop only. Its cursors end with the connection."""

    def __init__(
        self,
        service: Service,
        socket: WebSocket,
        request: Request,
        on_end: Callable[[WebSocketCommands], None],
        inflight_max: int = 0,
    ) -> None:
        self._inflight_max = inflight_max  # of its key; 0: any number
        self._publishing = 0
        self._waiting = 0  # publications in the queues of their topics
        self._service = service
        self.monotonic = service.clock.monotonic
        self._socket = socket
        self.request = request  # its key and headers hold for the whole connection
        # One key for every publication would make all but the first a repetition of it.
        request.headers.pop(b"idempotency-key", None)
        self._is_traced = b"traceparent" in request.headers  # and so is each of its records
        self.key = request.key
        self._on_end = on_end
        self._is_over = False
        self._subscription = Subscription(service, self)
        self._tasks: set[asyncio.Task[None]] = set()
        socket.attach(
            WebSocketCallbacks(
                self._text, self._binary, self._subscription.pump, self.end, self._is_busy
            )
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
        self._error(_NULL, ApiError(400, "unsupported_message", "expected a JSON text message"))

    def _text(self, text: bytes) -> None:
        request_id = _NULL
        try:
            body = None if self._is_traced else _publication(text)
            if body is not None:
                request_id = bytes(body.request_id) or _NULL
                self._check_publication(body.topic, body)
                batch = plain_batch(body.records)
                self._append(request_id, body.topic, batch, body, body.return_seqs)
                return
            command = _command(text)
            request_id = bytes(command.request_id) or _NULL
            _check_size(text, command.op)
            match command.op:
                case "publish":
                    bodies.check_count(text, limits.BATCH_RECORDS_MAX)
                    self._publish(request_id, bodies.parsed(text, _PUBLISH))
                case "subscribe":
                    self._later(request_id, self._subscribe(request_id, text))
                case "unsubscribe":
                    self._unsubscribe(request_id, text)
                case "ping":
                    self._send(b'{"op":"pong","request_id":%b}' % request_id)
                case _:
                    message = "unknown op: expected publish, subscribe, unsubscribe or ping"
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
            raise invalid("no topics: specify topic or topics")
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
            handle = self._service.core.catalogue.find(cursor.name)
            if handle is None:
                self.deleted(cursor)
            else:
                subscription.add(cursor, handle)
        for prefix in chosen.patterns:
            for name in self._service.core.catalogue.names(prefix):
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

    def _publish(self, request_id: bytes, body: Publish) -> None:
        self._check_publication(body.topic, body)
        batch = batch_of(body, body.records, self.request)
        self._append(request_id, body.topic, batch, body, body.return_seqs)

    def _check_publication(self, topic: str, body: WriteHead) -> None:
        """Check that this peer may publish."""
        if self.key is not ANYONE:
            self._need(Scope.WRITE)
            if not self.key.may_name(topic):
                raise forbidden("the key may not use this name", topic)
        if body.config is not None:
            self._need(Scope.ADMIN)
            bodies.check_names(self.key, body.config)

    def _append(
        self, request_id: bytes, topic: str, batch: Batch, options: WriteOptions, has_seqs: bool
    ) -> None:
        pending = PendingPublication(self, request_id, has_seqs)
        if not self._service.append(topic, batch, options, pending.respond):
            pending.is_waiting = True
            self._waiting += 1
        if self.key is not ANYONE:
            pending.is_counted = True
            begin_request(self.key)
            self._publishing += 1

    def answer(self, pending: PendingPublication, answer: Answer) -> None:
        """Acknowledge a publication, or say why it failed."""
        if pending.is_counted:
            end_request(self.key)
            self._publishing -= 1
        if pending.is_waiting:
            self._waiting -= 1
        if pending.is_counted or pending.is_waiting:
            self._socket.go_on()
        if not isinstance(answer, Appended):
            self._error(pending.request_id, api_error(answer))
            return
        fields = appended_fields(
            answer,
            has_seqs=pending.has_seqs,
            elapsed_ms=(self.monotonic() - pending.started_s) * 1000,
        )
        if not pending.has_seqs:
            fields += b',"seqs":null'
        ack = b'{"op":"ack","request_id":%b,%b}' % (pending.request_id, fields)
        self._socket.write_soon(self._socket.framed(ack))

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
        """True while this peer has to wait. Other peers with the same key do not count: nothing
        would signal when to continue."""
        is_full = self._inflight_max and self._publishing >= self._inflight_max
        return bool(is_full) or len(self._tasks) + self._waiting >= _TASKS_MAX

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._socket.go_on()

    def _need(self, scope: Scope) -> None:
        if self.key is not ANYONE and not self.key.may(scope):
            raise forbidden("the key lacks the scope of this command")

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


def _publication(text: bytes) -> _PublishCommand | None:
    """The message, if it is a publication with only payloads; None when the full parser has to read
    it, also to report errors."""
    size = len(text)
    if size > PLAIN_BYTES_MAX or not text.isascii():
        return None
    if size > binary.SHALLOW_BYTES_MAX and binary.depth_beyond(text, limits.JSON_DEPTH_MAX):
        return None
    try:
        body = _PUBLISH_COMMAND.decode(text)
    except msgspec.DecodeError:
        return None
    if body.op != "publish" or body.node is not None or not body.records:
        return None
    return body if body.idempotency_key is None else None


def _command(text: bytes) -> Command:
    try:
        return bodies.parsed(text, _COMMAND)
    except ApiError as error:
        raise ApiError(400, "invalid_json", error.message) from None


def _check_size(text: bytes, op: str) -> None:
    """Only messages with records may be large."""
    if len(text) > SMALL_BODY_BYTES and op != "publish":
        message = f"the message is too large: expected at most {SMALL_BODY_BYTES} bytes for this op"
        raise ApiError(413, "payload_too_large", message)
