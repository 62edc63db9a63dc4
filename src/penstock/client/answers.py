"""Parsers of the server's answers: from a response to the types of this package."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from penstock.client.http import HttpResponse
from penstock.codec.columns import ColumnsPage
from penstock.errors import ServerError
from penstock.types import Appended, Gap, JsonPage, Page, Position, Removed, TopicConfig, TopicInfo
from penstock.wire import binary_batch
from penstock.wire.json_records import BAD_JSON

T = TypeVar("T")


class _Costs(msgspec.Struct):
    wal_append_ms: float = 0.0
    fsync_ms: float = 0.0
    throttle_wait_ms: float = 0.0


class _Written(msgspec.Struct):
    topic: str
    first_seq: int
    last_seq: int
    count: int
    head_seq: int
    epoch: int = 0
    ts: int = 0
    created: bool = False
    deduped: bool = False
    delayed_id: int = 0
    performance: _Costs = msgspec.field(default_factory=_Costs)


class _WrittenMany(msgspec.Struct):
    results: list[_Written]


class _Tombstone(msgspec.Struct):
    gap_from: int
    gap_to: int
    reason: str
    earliest_seq: int = 0
    head_seq: int = 0
    missed_estimate: int | None = None


class _PageHead(msgspec.Struct):
    next_from_seq: int
    head_seq: int
    earliest_seq: int
    caught_up: bool
    epoch: int = 0
    tombstone: _Tombstone | None = None


class Put(msgspec.Struct):
    """The answer to the creation of a topic."""

    topic: str
    created: bool
    config: TopicConfig
    epoch: int = 0


class _Topic(msgspec.Struct):
    topic: str
    head_seq: int
    earliest_seq: int
    count: int
    bytes: int
    epoch: int = 0
    config: TopicConfig | None = None
    next_seq: int | None = None
    last_write_ts: int | None = None
    segments: int = 0
    id: int | None = None


class TopicsPage(msgspec.Struct):
    """One page of the list of topics."""

    topics: list[_Topic]
    next_cursor: str | None = None


class _Positions(msgspec.Struct):
    positions: list[dict[str, Any]]
    head_seq: int = 0


class Deleted(msgspec.Struct):
    """The answer to a drop: false when there was nothing to drop."""

    deleted: bool


class WatchGrant(msgspec.Struct):
    """The answer to a watch request: the session, its stream and its topics."""

    wid: str
    stream_url: str
    topics: dict[str, dict[str, Any]] = {}


def decoded(response: HttpResponse, kind: type[T], source: str) -> T:
    """Decode the body as this type. Raises ServerError."""
    try:
        return msgspec.json.decode(response.body, type=kind)
    except BAD_JSON as error:
        raise ServerError(source, reason=f"invalid answer: {error}") from None


def plain(response: HttpResponse, source: str) -> dict[str, Any]:
    """The body as a JSON object."""
    return decoded(response, dict[str, Any], source)


def text(response: HttpResponse, source: str) -> str:
    return response.body.decode(errors="replace")


def appended(response: HttpResponse, source: str) -> Appended:
    return _appended(decoded(response, _Written, source))


def appended_many(response: HttpResponse, source: str) -> list[Appended]:
    return [_appended(one) for one in decoded(response, _WrittenMany, source).results]


def _appended(one: _Written) -> Appended:
    return Appended(
        one.topic,
        one.first_seq,
        one.last_seq,
        one.count,
        one.head_seq,
        one.epoch,
        one.ts,
        one.created,
        one.deduped,
        one.performance.wal_append_ms,
        one.performance.fsync_ms,
        one.performance.throttle_wait_ms,
        one.delayed_id,
    )


def page(response: HttpResponse, source: str) -> Page:
    """A page of verified records."""
    head, records = binary_batch.decode_page(_binary(response, source), f"a page from {source}")
    return Page(records, *_place(head, source))


def json_page(response: HttpResponse, shown: int, source: str) -> JsonPage:
    """A page with its records as one JSON array in the form of the HTTP API."""
    body = _binary(response, source)
    head, array, count = binary_batch.project_page(
        body, shown | binary_batch.DOLLAR, f"a page from {source}"
    )
    return JsonPage(array, count, *_place(head, source))


def columns_page(response: HttpResponse, columns: int, seq_max: int, source: str) -> ColumnsPage:
    """A page with its records as columns, up to seq `seq_max`."""
    body = _binary(response, source)
    head, found = binary_batch.columns_page(body, columns, seq_max, f"a page from {source}")
    return ColumnsPage(found, *_place(head, source))


def _binary(response: HttpResponse, source: str) -> bytes:
    if not response.headers.get("content-type", "").startswith(binary_batch.CONTENT_TYPE):
        raise ServerError(source, reason="invalid answer to a read: expected a binary page")
    return response.body


def _place(fields: dict[str, Any], source: str) -> tuple[Gap | None, int, int, int, bool, int]:
    try:
        head = msgspec.convert(fields, _PageHead)
    except msgspec.ValidationError as error:
        raise ServerError(source, reason=f"invalid answer: {error}") from None
    gap = None if head.tombstone is None else _gap(head.tombstone)
    return gap, head.next_from_seq, head.head_seq, head.earliest_seq, head.caught_up, head.epoch


def _gap(stone: _Tombstone) -> Gap:
    missed = stone.missed_estimate
    if missed is None:
        missed = max(0, stone.gap_to - stone.gap_from + 1)
    return Gap(
        stone.gap_from, stone.gap_to, stone.reason, missed, stone.earliest_seq, stone.head_seq
    )


def gap(event: bytes) -> Gap:
    """The gap of a tombstone event. Raises msgspec.DecodeError."""
    return _gap(msgspec.json.decode(event, type=_Tombstone))


def topic(response: HttpResponse, source: str) -> TopicInfo:
    found = info(decoded(response, _Topic, source))
    if found is None:
        raise ServerError(source, reason="invalid answer: the topic's configuration is missing")
    return found


def info(one: _Topic) -> TopicInfo | None:
    """The topic; None when the answer has no configuration, which lists may leave out."""
    if one.config is None:
        return None
    return TopicInfo(
        one.topic,
        one.epoch if one.id is None else one.id,
        one.epoch,
        one.config,
        one.head_seq,
        one.earliest_seq,
        one.head_seq + 1 if one.next_seq is None else one.next_seq,
        one.count,
        one.bytes,
        one.segments,
        one.last_write_ts,
    )


def fresh(put: Put) -> TopicInfo:
    """A topic that has just been created."""
    return TopicInfo(put.topic, put.epoch, put.epoch, put.config, 0, 1, 1, 0, 0, 0, None)


def removed(response: HttpResponse, source: str) -> Removed:
    return decoded(response, Removed, source)


def position(response: HttpResponse, source: str) -> Position:
    return decoded(response, Position, source)


def positions(response: HttpResponse, source: str) -> list[Position]:
    found = decoded(response, _Positions, source)
    try:
        return [
            msgspec.convert({"head_seq": found.head_seq, **one}, Position)
            for one in found.positions
        ]
    except msgspec.ValidationError as error:
        raise ServerError(source, reason=f"invalid answer: {error}") from None
