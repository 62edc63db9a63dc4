"""The calls of the client's verbs: request, parser of the answer, and whether it may be repeated.

A verb that needs several calls is a generator: it yields a call and is sent the answer. Both
clients execute these calls. The clients themselves name no path and no field of the HTTP API.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from penstock import limits
from penstock.append_options import AppendOptions
from penstock.client import answers
from penstock.client.http import HttpResponse
from penstock.codec.columns import ColumnsPage
from penstock.errors import InvalidArgument
from penstock.types import Appended, JsonPage, Page, Position, Removed, TopicConfig, TopicInfo
from penstock.wire import binary_batch, json_records

T = TypeVar("T")

_JSON = "application/json"
_U64_MAX = (1 << 64) - 1
_WAIT_S_MAX = 30.0
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request. `is_change`: it changes state; `is_repeatable`: it is idempotent; `wait_s`: how
    long the server may wait before it answers; `accepts`: error statuses that are answers."""

    method: str
    target: str
    parse: Callable[[HttpResponse, str], T]
    body: bytes = field(default=b"", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)
    is_change: bool = False
    is_repeatable: bool = True
    key: str | None = None
    wait_s: float = 0.0
    accepts: frozenset[int] = frozenset()


Writes = Sequence[tuple[str, Sequence[Any]]] | Mapping[str, Sequence[Any]]
Steps = Generator[Call[Any], Any, T]


def new_key() -> str:
    """A random idempotency key."""
    return os.urandom(16).hex()


def json_call(
    method: str, target: str, body: Any, parse: Callable[[HttpResponse, str], T], **more: Any
) -> Call[T]:
    """A call with a JSON body."""
    return Call(method, target, parse, _encode(body), {"Content-Type": _JSON}, **more)


def topic_path(topic: str, *more: str) -> str:
    """The path of a topic, or of a resource below it."""
    if not isinstance(topic, str) or not topic:
        raise InvalidArgument(f"invalid topic name {topic!r}: expected a non-empty string")
    try:
        return "/v0/topics/" + "/".join(quote(part, safe="") for part in (topic, *more))
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"invalid name: it is not valid Unicode ({error.reason})") from None


def _seq(what: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _U64_MAX:
        raise InvalidArgument(f"invalid {what} {value!r}: expected a number from 0 to 2^64-1")
    return value


# Topics.


def create(name: str, config: dict[str, Any]) -> Steps[TopicInfo]:
    """Checks the names of the settings: a server ignores settings that it does not know."""

    def parse(response: HttpResponse, source: str) -> answers.Put:
        return answers.decoded(response, answers.Put, source)

    unknown = sorted(set(config) - set(TopicConfig.__struct_fields__))
    if unknown:
        known = ", ".join(TopicConfig.__struct_fields__)
        raise InvalidArgument(f"unknown topic setting {unknown[0]!r}: expected one of {known}")
    try:
        put = yield json_call("PUT", topic_path(name), config, parse, is_change=True)
    except TypeError as error:
        raise InvalidArgument(f"topic {name!r}: {error}") from None
    if put.created:
        return answers.fresh(put)
    info: TopicInfo = yield topic(name)
    return info


def drop(name: str) -> Call[bool]:
    """Not repeatable: a second attempt could drop a topic that was created in between."""
    return Call("DELETE", topic_path(name), deleted, is_change=True, is_repeatable=False)


def deleted(response: HttpResponse, source: str) -> bool:
    return answers.decoded(response, answers.Deleted, source).deleted


def topic(name: str) -> Call[TopicInfo]:
    return Call("GET", topic_path(name) + "?touch=false", answers.topic)


def topics(prefix: str) -> Steps[list[TopicInfo]]:
    """All pages of the list. For a topic that is listed without its configuration, as by servers
    that do not know `config=true`, a second call gets it."""

    def parse(response: HttpResponse, source: str) -> answers.TopicsPage:
        return answers.decoded(response, answers.TopicsPage, source)

    found: list[TopicInfo] = []
    cursor: str | None = ""
    while cursor is not None:
        asked = {"prefix": prefix, "page_size": "1000", "config": "true"}
        query = urlencode(asked | ({"cursor": cursor} if cursor else {}))
        part: answers.TopicsPage = yield Call("GET", f"/v0/topics?{query}", parse)
        for one in part.topics:
            info = answers.info(one)
            if info is None:
                info = yield _topic_or_none(one.topic)
            if info is not None:  # otherwise it was dropped meanwhile
                found.append(info)
        cursor = part.next_cursor
    return found


def _topic_or_none(name: str) -> Call[TopicInfo | None]:
    def parse(response: HttpResponse, source: str) -> TopicInfo | None:
        return None if response.status == 404 else answers.topic(response, source)

    return Call("GET", topic_path(name) + "?touch=false", parse, accepts=frozenset({404}))


# Records.


def append(
    topic: str,
    payloads: Sequence[Any],
    *,
    tag: str | None,
    node: str | None,
    options: AppendOptions,
    headers: Mapping[str, str],
) -> Call[Appended]:
    held = json_records.columns(payloads, tag=tag)
    head = options.members()
    if json_records.short("node", node) is not None:
        head["node"] = node
    key = options.idempotency_key
    return Call(
        "POST",
        topic_path(topic) + "?return_seqs=false",
        answers.appended,
        binary_batch.encode_write(head, held.datas, held.metas, held.tags, held.nodes),
        {"Content-Type": binary_batch.CONTENT_TYPE, **headers},
        is_change=True,
        is_repeatable=key is not None,
        key=key,
    )


def append_many(
    writes: Writes,
    *,
    tag: str | None,
    node: str | None,
    key: str | None,
    create: bool,
    expected_seqs: Mapping[str, int],
    headers: Mapping[str, str],
) -> Call[list[Appended]]:
    parts = list(writes.items()) if isinstance(writes, Mapping) else list(writes)
    if not parts or not all(isinstance(one, (tuple, list)) and len(one) == 2 for one in parts):
        raise InvalidArgument(
            "invalid writes: expected one or more pairs of a topic and its records"
        )
    stray = sorted(set(expected_seqs) - {topic for topic, _ in parts})
    if stray:
        raise InvalidArgument(f"expected_seqs names {stray[0]!r}, but writes has no records for it")
    json_records.short("node", node)
    body: dict[str, Any] = {"writes": []}
    for topic, payloads in parts:
        topic_path(topic)  # raises if the name is invalid
        one: dict[str, Any] = {
            "topic": topic,
            "records": json_records.objects(json_records.columns(payloads, tag=tag)),
        }
        if node is not None:
            one["node"] = node
        if not create:
            one["create"] = False
        if topic in expected_seqs:
            one["expected_seq"] = _seq("expected_seq", expected_seqs[topic])
        body["writes"].append(one)
    if key is not None:
        body["idempotency_key"] = key
    return Call(
        "POST",
        "/v0/batch",
        answers.appended_many,
        _encode(body),
        {"Content-Type": _JSON, **headers},
        is_change=True,
        is_repeatable=key is not None,
        key=key,
    )


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """The options of a read."""

    after: int = 0
    limit: int | None = None
    node: str | Sequence[str] | None = None
    tag: Any = None
    epoch: int | None = None
    max_bytes: int | None = None
    from_ts: int | None = None
    is_strong: bool = False
    wait_s: float = 0.0

    def body(self) -> bytes:
        asked: dict[str, Any] = {}
        if self.from_ts is None:
            asked["from_seq"] = _seq("after", self.after)
        else:
            asked["from_ts"] = _seq("from_ts", self.from_ts)
        if self.limit is not None:
            if not isinstance(self.limit, int) or self.limit < 1:
                raise InvalidArgument(f"invalid limit {self.limit!r}: expected a positive number")
            asked["limit"] = min(self.limit, limits.READ_RECORDS_MAX)
        if self.node:
            asked["node"] = self.node if isinstance(self.node, str) else list(self.node)
        if self.tag is not None:
            asked["tag"] = self.tag
        if self.epoch is not None:
            asked["epoch"] = self.epoch
        if self.max_bytes:
            asked["max_batch_bytes"] = self.max_bytes
        if self.is_strong:
            asked["consistency"] = "strong"
        if self.wait_s > 0:
            asked["wait_ms"] = round(min(self.wait_s, _WAIT_S_MAX) * 1000)
        try:
            return _encode(asked)
        except TypeError as error:
            raise InvalidArgument(f"invalid read options: {error}") from None


def read(topic: str, wanted: ReadRequest) -> Call[Page]:
    return _diff(topic, wanted, answers.page)


def read_json(topic: str, wanted: ReadRequest, shown: int) -> Call[JsonPage]:
    def parse(response: HttpResponse, source: str) -> JsonPage:
        return answers.json_page(response, shown, source)

    return _diff(topic, wanted, parse)


def read_columns(topic: str, wanted: ReadRequest, columns: int, seq_max: int) -> Call[ColumnsPage]:
    def parse(response: HttpResponse, source: str) -> ColumnsPage:
        return answers.columns_page(response, columns, seq_max, source)

    return _diff(topic, wanted, parse)


def _diff(topic: str, wanted: ReadRequest, parse: Callable[[HttpResponse, str], T]) -> Call[T]:
    headers = {"Content-Type": _JSON, "Accept": binary_batch.CONTENT_TYPE}
    target = topic_path(topic, "diff")
    return Call("POST", target, parse, wanted.body(), headers, wait_s=max(wanted.wait_s, 0.0))


def seek(topic: str, ts_ms: int) -> Steps[int]:
    page: Page = yield read(topic, ReadRequest(from_ts=ts_ms, limit=1))
    return page.records[0].seq - 1 if page.records else page.next_seq


def delete(topic: str, before_seq: int | None, tag: Any, seqs: Sequence[int] = ()) -> Call[Removed]:
    """Repeatable by seq. By tag a second attempt could delete records appended in between."""
    asked: dict[str, Any] = {}
    if before_seq is not None:
        asked["before_seq"] = _seq("before_seq", before_seq)
    if tag is not None:
        asked["match"] = tag
    if seqs:
        asked["seqs"] = [_seq("seqs", seq) for seq in seqs]
    if not asked:
        raise InvalidArgument("nothing to delete: specify before_seq, tag or seqs")
    return json_call(
        "POST",
        topic_path(topic, "delete"),
        asked,
        answers.removed,
        is_change=True,
        is_repeatable=tag is None,
    )


# Consumers.


def move_position(topic: str, name: str, seq: int, epoch: int | None) -> Call[Position]:
    asked = {"seq": _seq("seq", seq)} | ({} if epoch is None else {"epoch": epoch})
    target = topic_path(topic, "positions", name)
    return json_call("PUT", target, asked, answers.position, is_change=True)


def positions(topic: str) -> Call[list[Position]]:
    return Call("GET", topic_path(topic, "positions"), answers.positions)


def position(topic: str, name: str) -> Call[Position]:
    return Call("GET", topic_path(topic, "positions", name), answers.position)


def drop_position(topic: str, name: str) -> Call[bool]:
    target = topic_path(topic, "positions", name)
    return Call("DELETE", target, deleted, is_change=True, is_repeatable=False)


# The server.


def watch(body: dict[str, Any], *, is_lenient: bool) -> Call[answers.WatchGrant]:
    """With `is_lenient` the server leaves out topics that do not exist instead of refusing all."""

    def parse(response: HttpResponse, source: str) -> answers.WatchGrant:
        return answers.decoded(response, answers.WatchGrant, source)

    target = "/v0/watch?lenient=true" if is_lenient else "/v0/watch"
    return json_call("POST", target, body, parse)


def health() -> Call[dict[str, Any]]:
    return Call("GET", "/v0/health", answers.plain)


def ready() -> Call[bool]:
    def parse(response: HttpResponse, source: str) -> bool:
        return response.status == 200

    return Call("GET", "/v0/ready", parse, accepts=frozenset({503}))


def metrics() -> Call[str]:
    return Call("GET", "/v0/metrics", answers.text)


def stats() -> Call[dict[str, Any]]:
    return Call("GET", "/v0/metrics", answers.plain, headers={"Accept": _JSON})
