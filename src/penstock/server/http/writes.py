"""`POST /v0/topics/:topic`: appends, as JSON or as a binary batch."""

from __future__ import annotations

import functools
import re
from typing import Final

import msgspec

from penstock import limits
from penstock.engine.batch import (
    Batch,
    RecordSpans,
    bare,
    from_columns,
    from_packed,
    from_spans,
    split_json,
)
from penstock.errors import BatchTooLarge, InvalidArgument
from penstock.server.appends import Answer
from penstock.server.auth import ANYONE, ApiKey, Scope
from penstock.server.errors import forbidden, response_of
from penstock.server.http import bodies
from penstock.server.http.idempotency_keys import key_of
from penstock.server.http.message import JSON, Request, Response
from penstock.server.key_limits import begin_request, end_request
from penstock.server.service import Service
from penstock.topics import validation
from penstock.types import Appended
from penstock.wire import binary_batch as binary
from penstock.wire.models import ABSENT, RecordBody, WriteBody, WriteHead

_BODY = msgspec.json.Decoder(WriteBody)
_HEAD = msgspec.json.Decoder(WriteHead)
_encode = msgspec.json.Encoder().encode
_NULL: Final = b"null"
# Too few for more records than one append may have, and for one that is too large.
PLAIN_BYTES_MAX: Final = 10 * limits.BATCH_RECORDS_MAX
# In a longer body the kernel finds the records in less time than a parser makes objects of them.
_PARSED_BYTES_MAX: Final = 2048
_TRACE = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


class PlainRecord(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A record that has nothing but its payload."""

    data: msgspec.Raw


class _PlainWriteBody(WriteHead, kw_only=True, frozen=True):
    """A `WriteBody` of such records: decoded in less time, and refused when there is more."""

    records: list[PlainRecord]


_PLAIN_BODY = msgspec.json.Decoder(_PlainWriteBody)


class WriteHandlers:
    """Handlers of appends. Event loop only."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def append(self, request: Request) -> None:
        """Answered by callback."""
        topic = request.params[0]
        body: WriteHead
        is_short = len(request.received) <= _PARSED_BYTES_MAX
        plain = _plain_write(request) if is_short else None
        if plain is not None:
            body, batch = plain
        elif bodies.is_json(request):
            body, batch = self._json_write(request, topic)
        else:
            text, at, count = binary.split_head(request.received)
            body = bodies.parsed(text, _HEAD)
            if body.config is not None:
                self._check_config(request.key, topic, body)
            batch = binary_batch_of(body, at, count, request)
        pending = PendingWrite(self._service, request)
        self._service.append(topic, batch, body, pending.respond)
        pending.count()

    def _json_write(self, request: Request, topic: str) -> tuple[WriteHead, Batch]:
        """A write as JSON of any size and with any options."""
        split = None if b"traceparent" in request.headers else split_json(request.received)
        if split is None:
            plain = _plain_write(request)
            if plain is not None:
                return plain
            bodies.check_count(request.body, limits.BATCH_RECORDS_MAX)
            body = bodies.parsed(request.body, _BODY)
        else:  # plain records: they stay in the body until they are frames
            body = bodies.parsed(split[0], _BODY)
        if body.config is not None:
            self._check_config(request.key, topic, body)
        if split is None:
            return body, batch_of(body, body.records, request)
        return body, _batch_of_spans(body, split[1], request)

    def _check_config(self, key: ApiKey, topic: str, body: WriteHead) -> None:
        bodies.check_names(key, body.config)
        if not key.may(Scope.ADMIN) and self._service.config_of(topic) is None:
            raise forbidden("creating a topic with a configuration needs the admin scope", topic)


def _plain_write(request: Request) -> tuple[WriteHead, Batch] | None:
    """A write with only payloads, without a key, as most are; None when the full
    parser has to read it, also to report errors."""
    headers = request.headers
    if len(request.received) > PLAIN_BYTES_MAX or headers.get(b"content-type") != JSON:
        return None
    text = request.body
    if not text.isascii():
        return None
    if b"idempotency-key" in headers or b"traceparent" in headers:
        return None
    if len(text) > binary.SHALLOW_BYTES_MAX and binary.depth_beyond(text, limits.JSON_DEPTH_MAX):
        return None
    try:
        body = _PLAIN_BODY.decode(text)
    except msgspec.DecodeError:
        return None
    if body.config is not None or body.node is not None:
        return None
    if body.idempotency_key is not None or not body.records:
        return None
    return body, plain_batch(body.records)


def plain_batch(records: list[PlainRecord]) -> Batch:
    """A checked batch of records in a body of at most PLAIN_BYTES_MAX bytes, one at least."""
    if len(records) == 1:
        data = bytes(records[0].data)
        return Batch([data], len(data))
    datas = binary.texts_of([record.data for record in records])
    return from_columns(datas, None, None, None, are_valid=True)


class PendingWrite:
    """A write that waits for its commit class. Event loop only."""

    __slots__ = ("_is_counted", "_request", "_service")

    def __init__(self, service: Service, request: Request) -> None:
        self._service = service
        self._request = request
        self._is_counted = False

    def count(self) -> None:
        """The write has begun: count it for its key."""
        if self._request.key is not ANYONE:
            self._is_counted = True
            begin_request(self._request.key)

    def respond(self, answer: Answer) -> None:
        request = self._request
        if self._is_counted:
            end_request(request.key)
        if not isinstance(answer, Appended):
            request.exchange.respond(response_of(answer))
            return
        elapsed_ms = (self._service.clock.monotonic() - request.started) * 1000
        has_seqs = not request.query_text or request.flag("return_seqs", True)
        body = appended_fields(answer, has_seqs=has_seqs, elapsed_ms=elapsed_ms)
        request.exchange.respond(Response(201 if answer.created else 200, b"{%b}" % body))


def appended_fields(answer: Appended, *, has_seqs: bool, elapsed_ms: float) -> bytes:
    """The members of a write's answer."""
    seqs = b""
    if answer.delayed_id:
        seqs = b',"delayed_id":%d' % answer.delayed_id
    elif has_seqs:
        if answer.count == 1:
            seqs = b',"seqs":[%d]' % answer.first_seq
        else:
            seqs = b',"seqs":' + _encode(range_list(answer.first_seq, answer.last_seq))
    return (
        b'"topic":"%b","first_seq":%d,"last_seq":%d%b,"head_seq":%d,"count":%d,"created":%b,'
        b'"deduped":%b,"epoch":%d,"ts":%d,"performance":{"server_total_ms":%.3f,%b}'
    ) % (
        answer.topic.encode(),
        answer.first_seq,
        answer.last_seq,
        seqs,
        answer.head_seq,
        answer.count,
        b"true" if answer.created else b"false",
        b"true" if answer.deduped else b"false",
        answer.epoch,
        answer.ts,
        elapsed_ms,
        _commit_costs(answer.wal_append_ms, answer.fsync_ms, answer.throttle_wait_ms),
    )


@functools.lru_cache(maxsize=64)  # appends that share a commit share its costs
def _commit_costs(wal_append_ms: float, fsync_ms: float, throttle_wait_ms: float) -> bytes:
    return b'"wal_append_ms":%.3f,"fsync_ms":%.3f%b' % (
        wal_append_ms,
        # A sync that was measured must not round to "there was none".
        max(fsync_ms, 0.001) if fsync_ms else 0.0,
        b',"throttle_wait_ms":%.3f' % throttle_wait_ms if throttle_wait_ms else b"",
    )


def range_list(first: int, last: int) -> list[int]:
    return list(range(first, last + 1))


def batch_of(body: WriteHead, records: list[RecordBody], request: Request) -> Batch:
    """A checked batch from parsed JSON."""
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


def _batch_of_spans(body: WriteHead, spans: RecordSpans, request: Request) -> Batch:
    """A checked batch of records that `split_json` has found."""
    _check_count(spans.count)
    node = label("node", body.node, limits.NODE_BYTES_MAX)
    return from_spans(spans, node=node, key=key_of(body.idempotency_key, request))


def is_bare(body: WriteHead, record: RecordBody, request: Request) -> bool:
    """True if there is nothing to store but the payload."""
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
    key = key_of(body.idempotency_key, request)
    node = label("node", body.node, limits.NODE_BYTES_MAX)
    trace = trace_of(request)
    if trace is None:
        batch = from_packed(request.received, at, count, node=node, key=key)
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
    return validation.short_text(what, value, most) if value else None


def trace_of(request: Request) -> bytes | None:
    """The W3C trace context of the request as JSON members, to be stored with its records."""
    parent = request.headers.get(b"traceparent")
    if parent is None or not _TRACE.fullmatch(parent):
        return None
    state = request.headers.get(b"tracestate")
    members = b'"traceparent":"%b"' % parent
    if state is not None and len(state) <= 512 and state.isascii():
        members += b',"tracestate":' + _encode(state.decode())
    return members


def with_trace(metas: list[bytes | None] | None, count: int, trace: bytes) -> list[bytes | None]:
    """Add the trace to metas that are objects and have none; others stay unchanged."""
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
