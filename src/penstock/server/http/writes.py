"""`POST /v0/topics/:topic`: appends, as JSON or as a binary batch."""

from __future__ import annotations

import hashlib
import re
from typing import Any, Final

import msgspec

from penstock import limits
from penstock.engine.batch import Batch, bare, from_columns, from_laid
from penstock.engine.engine import Outcome
from penstock.engine.handle import Handle
from penstock.errors import BatchTooLarge, InvalidArgument, TopicNotFound
from penstock.server.auth import ANYONE, ApiKey, Scope
from penstock.server.errors import forbidden, invalid, response_of
from penstock.server.http import bodies
from penstock.server.http.message import Request, Response
from penstock.server.service import Service
from penstock.topics import names
from penstock.types import Appended
from penstock.wire import batch as binary
from penstock.wire.models import ABSENT, RecordBody, WriteBody, WriteHead

_BODY = msgspec.json.Decoder(WriteBody)
_HEAD = msgspec.json.Decoder(WriteHead)
_encode = msgspec.json.Encoder().encode
_NULL: Final = b"null"
_TRACE = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


class Writes:
    """Handlers of appends. Event loop only."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def append(self, request: Request) -> Any:
        """Answered by callback when the topic exists, which is nearly always."""
        topic = request.params[0]
        if bodies.is_json(request):
            bodies.check_count(request.body, limits.BATCH_RECORDS_MAX)
            body: WriteHead = bodies.parsed(request.body, _BODY)
            self._check_config(request.key, topic, body)
            batch = batch_of(body, body.records, request)  # type: ignore[attr-defined]
        else:
            text, at, count = binary.split_head(request.body)
            body = bodies.parsed(text, _HEAD)
            self._check_config(request.key, topic, body)
            batch = binary_batch_of(body, at, count, request)
        handle = self._service.find(topic)
        if handle is None:
            return self._create_first(request, topic, body, batch)
        self._submit(request, handle, body, batch, created=False)
        return None

    async def _create_first(
        self, request: Request, topic: str, body: WriteHead, batch: Batch
    ) -> None:
        created = await ensure(self._service, topic, body)
        self._submit(request, self._service.handle(topic), body, batch, created=created)

    def _submit(
        self, request: Request, handle: Handle, body: WriteHead, batch: Batch, *, created: bool
    ) -> None:
        if body.is_for_later:
            batch = put_off(self._service, body, batch)
        pending = Pending(self._service, request, batch, created)
        self._service.append(
            handle,
            batch,
            pending.resolved,
            body.expected_seq,
            is_patient=body.disable_backpressure,
        )
        pending.enter()

    def _check_config(self, key: ApiKey, topic: str, body: WriteHead) -> None:
        bodies.check_names(key, body.config)
        if body.config is None or key.may(Scope.ADMIN):
            return
        if self._service.log.find(topic) is None:
            raise forbidden("creating a topic with a configuration needs the admin scope", topic)


class Pending:
    """A write that waits for its commit class. Event loop only."""

    __slots__ = ("_batch", "_created", "_is_counted", "_request", "_service")

    def __init__(self, service: Service, request: Request, batch: Batch, created: bool) -> None:
        self._service = service
        self._request = request
        self._batch = batch
        self._created = created
        self._is_counted = False

    def enter(self) -> None:
        """It is under way: count it for its key."""
        if self._request.key is not ANYONE:
            self._is_counted = True
            self._request.key.in_flight += 1

    def resolved(self, outcome: Outcome) -> None:
        service, request = self._service, self._request
        if self._is_counted:
            request.key.in_flight -= 1
        answer = service.log.answer(outcome, self._batch)
        if not isinstance(answer, Appended):
            request.exchange.respond(response_of(answer))
            return
        elapsed_ms = (service.clock.monotonic() - request.started) * 1000
        has_seqs = not request.query_text or request.flag("return_seqs", True)
        body = appended_fields(
            answer, created=self._created, has_seqs=has_seqs, elapsed_ms=elapsed_ms
        )
        request.exchange.respond(Response(201 if self._created else 200, b"{%b}" % body))


def put_off(service: Service, body: WriteHead, batch: Batch) -> Batch:
    """The same jobs, not to be handed out before their time."""
    return service.log.queues.timing.later(
        batch, body.deliver_at, body.delay_ms, body.cron, body.timezone
    )


async def ensure(service: Service, topic: str, body: WriteHead) -> bool:
    """Create the topic of a write if it may; true when this call did."""
    config = {} if body.config is None else bodies.config_of(body.config)
    may_create = body.create
    if may_create is None:
        may_create = bool(config.get("auto_create", True))
    if not may_create:
        raise TopicNotFound(topic)
    names.topic_name(topic)
    return await service.ensure(topic, config)


def appended_fields(answer: Appended, *, created: bool, has_seqs: bool, elapsed_ms: float) -> bytes:
    """The members of a write's answer."""
    seqs = b""
    if has_seqs:
        if answer.count == 1:
            seqs = b',"seqs":[%d]' % answer.first_seq
        else:
            seqs = b',"seqs":' + _encode(range_list(answer.first_seq, answer.last_seq))
    return (
        b'"topic":"%b","first_seq":%d,"last_seq":%d%b,"head_seq":%d,"count":%d,"created":%b,'
        b'"deduped":%b,"epoch":%d,"ts":%d,"performance":{"server_total_ms":%.3f,'
        b'"wal_append_ms":%.3f,"fsync_ms":%.3f%b}'
    ) % (
        answer.topic.encode(),
        answer.first_seq,
        answer.last_seq,
        seqs,
        answer.head_seq,
        answer.count,
        b"true" if created and not answer.deduped else b"false",
        b"true" if answer.deduped else b"false",
        answer.epoch,
        answer.ts,
        elapsed_ms,
        answer.wal_append_ms,
        # A sync that was measured must not round to "there was none".
        max(answer.fsync_ms, 0.001) if answer.fsync_ms else 0.0,
        b',"throttle_wait_ms":%.3f' % answer.throttle_wait_ms if answer.throttle_wait_ms else b"",
    )


def range_list(first: int, last: int) -> list[int]:
    return list(range(first, last + 1))


def batch_of(body: WriteHead, records: list[RecordBody], request: Request) -> Batch:
    """A checked batch from parsed JSON."""
    if body.expected_seq is not None:
        names.seq(body.expected_seq)
    if len(records) == 1 and is_bare(body, records[0], request):  # as most single writes are
        return bare(bytes(records[0].data), key_of(body.idempotency_key, request))
    _check_count(len(records))
    key = key_of(body.idempotency_key, request)
    datas = binary.texts_of([record.data for record in records])
    metas = column([record.meta for record in records])
    trace = trace_of(request)
    if trace is not None:
        metas = with_trace(metas, len(datas), trace)
    return from_columns(
        datas,
        metas,
        labels("tag", [record.tag for record in records], limits.TAG_BYTES_MAX),
        labels("node", [record.node for record in records], limits.NODE_BYTES_MAX),
        node=label("node", body.node, limits.NODE_BYTES_MAX),
        key=key,
        are_valid=True,
    )


def is_bare(body: WriteHead, record: RecordBody, request: Request) -> bool:
    """Is there nothing to keep but the payload?"""
    return (
        record.meta is ABSENT
        and record.tag is None
        and record.node is None
        and body.node is None
        and b"traceparent" not in request.headers
    )


def binary_batch_of(body: WriteHead, at: int, count: int, request: Request) -> Batch:
    """A checked batch from length-prefixed records."""
    _check_count(count)
    if body.expected_seq is not None:
        names.seq(body.expected_seq)
    key = key_of(body.idempotency_key, request)
    node = label("node", body.node, limits.NODE_BYTES_MAX)
    trace = trace_of(request)
    if trace is None:
        batch = from_laid(request.body, at, count, node=node, key=key)
        if batch is not None:
            return batch
    datas, metas, tags, nodes = binary.split_records(request.body, at, count)
    if trace is not None:
        metas = with_trace(metas, len(datas), trace)
    return from_columns(datas, metas, tags, nodes, node=node, key=key, are_valid=False)


def column(raws: list[msgspec.Raw]) -> list[bytes | None] | None:
    """Metas, with null as absent; None when there are none at all."""
    if raws.count(ABSENT) == len(raws):
        return None
    return [None if text == _NULL else text for text in binary.texts_of(raws)]


def labels(what: str, values: list[str | None], most: int) -> list[bytes | None] | None:
    """Tags or nodes; None when there are none at all."""
    if values.count(None) == len(values):
        return None
    return [label(what, value, most) for value in values]


def label(what: str, value: str | None, most: int) -> bytes | None:
    """Empty is the same as absent."""
    return names.short_text(what, value, most) if value else None


def key_of(given: str | None, request: Request) -> bytes:
    """The idempotency key as the log keeps it. Callers with different API keys never meet: one
    who guesses another's key learns nothing from it."""
    if given is None:
        header = request.headers.get(b"idempotency-key")
        if header is None:
            return b""
        try:
            given = header.decode()
        except UnicodeDecodeError:
            raise invalid("the Idempotency-Key header is not valid UTF-8") from None
    key = names.key_text(given)
    if request.key is ANYONE:
        return key
    return hashlib.sha256(request.key.digest + key).hexdigest().encode()


def trace_of(request: Request) -> bytes | None:
    """The W3C trace context of the request as JSON members, to be kept with its records."""
    parent = request.headers.get(b"traceparent")
    if parent is None or not _TRACE.fullmatch(parent):
        return None
    state = request.headers.get(b"tracestate")
    members = b'"traceparent":"%b"' % parent
    if state is not None and len(state) <= 512 and state.isascii():
        members += b',"tracestate":' + _encode(state.decode())
    return members


def with_trace(metas: list[bytes | None] | None, count: int, trace: bytes) -> list[bytes | None]:
    """The trace joins metas that are objects and have none; others stay as they were sent."""
    alone = b"{%b}" % trace
    if metas is None:
        return [alone] * count
    return [_traced(meta, alone, trace) for meta in metas]


def _traced(meta: bytes | None, alone: bytes, trace: bytes) -> bytes:
    if meta is None:
        return alone
    inner = meta.strip()
    if inner[:1] != b"{" or b'"traceparent"' in inner:
        return meta
    rest = inner[1:].lstrip()
    if rest == b"}":
        return alone
    joined = b"{%b,%b" % (trace, rest)
    # What would be taken without a trace must not be refused because of it.
    is_small = len(joined) <= limits.META_BYTES_MAX and joined.count(b":") <= limits.META_KEYS_MAX
    return joined if is_small else meta


def _check_count(count: int) -> None:
    if not count:
        raise InvalidArgument("records must not be empty")
    if count > limits.BATCH_RECORDS_MAX:
        raise BatchTooLarge(
            f"{count} records in one append, at most {limits.BATCH_RECORDS_MAX} are allowed"
        )
