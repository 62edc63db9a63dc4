"""One entry per route for the OpenAPI document: the request body, the answers, the errors, and a
description. The shapes are the declared models of `wire/`."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field, replace
from typing import Any, Final

from penstock.limits import KEY_BYTES_MAX
from penstock.schema_types import RouterName, TopicName
from penstock.server.openapi_schemas import Model, Schema, TopicConfigBody, schema_of
from penstock.wire import answers, models, stream_messages
from penstock.wire.jobs import JobEvent

JSON: Final = "application/json"
BATCH: Final = "application/vnd.penstock.batch"
EVENTS: Final = "text/event-stream"
TEXT: Final = "text/plain"

_STRING: Final[Schema] = {"type": "string"}
_ANY_NAME: Final[Schema] = {"type": "string", "minLength": 1}
BINARY: Final[Schema] = {"type": "string", "contentEncoding": "binary"}


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that is not an error: a description, and a body for each media type."""

    about: str
    bodies: dict[str, Model | Schema] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Operation:
    """One route. The first sentence of `about` is the summary. Without `body` the route reads no
    body. `faults` are the errors besides those of every route. `links` maps an operation to the
    members of its request (`query.` before a query parameter) and the members of this answer that
    fill them; path parameters are filled from members of the same name. `more` are `x-` members
    that hold models."""

    id: str
    about: str
    answers: dict[int, Answer]
    faults: tuple[str, ...] = ()
    parameters: tuple[Schema, ...] = ()
    body: Model | Schema | None = None
    is_body_required: bool = True
    has_binary_body: bool = False
    links: dict[str, dict[str, str]] = field(default_factory=dict)
    more: dict[str, dict[str, Model | Schema]] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        return self.about.partition(". ")[0]

    @property
    def description(self) -> str:
        return self.about.partition(". ")[2] or self.about


def _ok(model: Model) -> dict[int, Answer]:
    return {200: Answer(_doc(model), {JSON: model})}


def _put(model: Model) -> dict[int, Answer]:
    """200, or 201 when the call created something."""
    return {**_ok(model), 201: Answer(f"Created. {_doc(model)}", {JSON: model})}


def _upgraded(protocol: str) -> dict[int, Answer]:
    return {101: Answer(f"Upgraded: the connection now carries {protocol}.")}


def _doc(model: Model) -> str:
    return " ".join(inspect.cleandoc(model.__doc__ or "").split())


def _parameter(where: str, name: str, about: str, schema: Schema = _STRING) -> Schema:
    return {"name": name, "in": where, "description": about, "schema": schema}


def _query(name: str, about: str, **schema: Any) -> Schema:
    return _parameter("query", name, about, {**_STRING, **schema})


def _flag(name: str, default: str, about: str) -> Schema:
    words = f"{about} `true` or `1`, `false` or `0`; any other value means the default, {default}."
    return _query(name, words, default=default, examples=["true"])


def _name(name: str, about: str, schema: Schema) -> Schema:
    return {**_parameter("path", name, about, schema), "required": True}


PARAMETERS: Final[dict[str, Schema]] = {
    "topic": _name("topic", "Name of a topic.", schema_of(TopicName)),
    "name": _name("name", "Name of a consumer.", schema_of(TopicName)),
    "router": _name("router", "Name of a router.", schema_of(RouterName)),
    "wid": _name("wid", "The `wid` of a watch session.", _ANY_NAME),
}

_AFTER_TOPIC: Final[dict[str, dict[str, str]]] = {
    name: {}
    for name in ("getTopic", "append", "diff", "deleteRecords", "listPositions", "dropTopic")
}
_WRITE_FAULTS: Final = (
    "batch_too_large",
    "record_too_large",
    "topic_not_found",
    "seq_mismatch",
    "topic_full",
    "storage_failed",
)
_QUEUE_FAULTS: Final = ("topic_not_found", "not_a_queue", "storage_failed")
_SETTLE_FAULTS: Final = ("batch_too_large", *_QUEUE_FAULTS)
_KEY: Final = _parameter(
    "header",
    "Idempotency-Key",
    f"Used when the body has no `idempotency_key`. At most {KEY_BYTES_MAX} bytes.",
    {"type": "string", "minLength": 1, "maxLength": KEY_BYTES_MAX},
)
_TRACE: Final = _parameter(
    "header",
    "traceparent",
    "W3C trace context. The server stores it in the `meta` of every record that has none. An "
    "invalid value is ignored.",
    {"type": "string", "examples": [f"00-{'1' * 32}-{'2' * 16}-01"]},
)
_TOUCH: Final = "Count this call as a read of the topic: set `last_read_ts`, raise its priority."
_PAGING: Final = (
    _query(
        "page_size",
        "1 to 1000; other numbers are reduced to this range. 100 when absent or not a number.",
        default="100",
        examples=["10"],
    ),
    _query("cursor", "`next_cursor` of the previous page."),
)

OPERATIONS: Final[dict[tuple[str, str], Operation]] = {
    ("GET", "/v0/topics"): Operation(
        "listTopics",
        "List topics. Sorted by name. A key with prefixes sees only the topics with these "
        "prefixes.",
        _ok(answers.TopicListAnswer),
        parameters=(
            _query("prefix", "Only names with this prefix."),
            *_PAGING,
            _flag("touch", "false", _TOUCH),
            _flag("config", "false", "Add each topic's configuration, segments and last write."),
        ),
        links={"listTopics": {"query.cursor": "next_cursor"}},
    ),
    ("PUT", "/v0/topics/:topic"): Operation(
        "putTopic",
        "Create or configure a topic. The body is the whole configuration: an absent field gets "
        "its default. An absent body means all defaults.",
        _put(answers.TopicPutAnswer),
        ("topic_exists_incompatible", "storage_failed"),
        body=TopicConfigBody,
        is_body_required=False,
        links=_AFTER_TOPIC,
    ),
    ("GET", "/v0/topics/:topic"): Operation(
        "getTopic",
        "Get a topic. Its seqs, size and configuration.",
        _ok(answers.TopicAnswer),
        ("topic_not_found",),
        parameters=(_flag("touch", "true", _TOUCH),),
        links=_AFTER_TOPIC,
    ),
    ("DELETE", "/v0/topics/:topic"): Operation(
        "dropTopic",
        "Delete a topic. Deletes the topic with all its records and positions. A topic that does "
        "not exist is not an error. A topic created later under the same name has another epoch.",
        _ok(answers.TopicDeletedAnswer),
        ("topic_not_empty", "storage_failed"),
        parameters=(
            _name("topic", "Any name: no topic exists under an invalid one.", _ANY_NAME),
            _flag("if_empty", "false", "Only when the topic has no records."),
        ),
    ),
    ("POST", "/v0/topics/:topic"): Operation(
        "append",
        "Append records. Appends all records or none, with consecutive seqs. The server answers "
        "when the topic's durability class is met. A call that repeats an idempotency key writes "
        "nothing and gets the first answer again with `deduped: true`. `config` applies only when "
        "this call creates the topic, and then needs the scope admin. docs/format/batch.md "
        "describes the binary body.",
        _put(answers.AppendAnswer),
        ("not_a_queue", *_WRITE_FAULTS),
        parameters=(_flag("return_seqs", "true", "Answer with the list `seqs`."), _KEY, _TRACE),
        body=models.WriteBody,
        has_binary_body=True,
        links={
            "diff": {},
            "putPosition": {"seq": "last_seq"},
            "deleteRecords": {"before_seq": "last_seq"},
        },
        more={"x-penstock-batch-head": {"head": models.WriteHead}},
    ),
    ("POST", "/v0/topics/:topic/diff"): Operation(
        "diff",
        "Read records. Records after `from_seq`, oldest first. `next_from_seq` is the next "
        "`from_seq`; it also passes records that the filters rejected. Records lost without a "
        "delete are reported as a tombstone, in the first answer that passes them. An absent body "
        "means all defaults. With `Accept: application/vnd.penstock.batch` the answer is binary "
        "(docs/format/batch.md).",
        {200: Answer(_doc(answers.ReadAnswer), {JSON: answers.ReadAnswer, BATCH: BINARY})},
        ("topic_not_found", "storage_failed"),
        body=models.DiffBody,
        is_body_required=False,
        links={"diff": {"from_seq": "next_from_seq"}},
    ),
    ("POST", "/v0/topics/:topic/delete"): Operation(
        "deleteRecords",
        "Delete records. Deletes the records whose tag matches and the records in `seqs`, below "
        "`before_seq` if given; with `before_seq` alone every record below it. One of the three "
        "is required.",
        _ok(answers.RecordsDeletedAnswer),
        ("batch_too_large", "topic_not_found", "storage_failed"),
        body=models.DeleteBody,
        links={"diff": {}},
    ),
    ("GET", "/v0/topics/:topic/schedules"): Operation(
        "listSchedules",
        "List recurring jobs. Jobs that were appended with `cron`, by seq, and when each is due "
        "next. A job that is ready or in flight is due now. Delete the job by its seq to end the "
        "schedule.",
        _ok(answers.ScheduleListAnswer),
        ("topic_not_found", "not_a_queue"),
    ),
    ("GET", "/v0/routers"): Operation(
        "listRouters",
        "List routers. Sorted by name. A key with prefixes sees the routers whose name, source "
        "and destination have these prefixes. Totals may lag behind.",
        _ok(answers.RouterListAnswer),
        parameters=(
            _query("prefix", "Only names with this prefix."),
            _query("source", "Only routers from this topic."),
            _query("dest", "Only routers to this topic."),
            *_PAGING,
        ),
        links={"listRouters": {"query.cursor": "next_cursor"}},
    ),
    ("PUT", "/v0/routers/:router"): Operation(
        "putRouter",
        "Create or change a router. The router copies records appended to `source` from now on to "
        "`dest`. Missing topics are created. An existing router keeps its cursor and its topics; "
        "its rules may change.",
        _put(answers.RouterPutAnswer),
        ("topic_not_found", "topic_exists_incompatible", "router_cycle", "storage_failed"),
        body=models.RouterBody,
        links={"getRouter": {}, "dropRouter": {}},
    ),
    ("GET", "/v0/routers/:router"): Operation(
        "getRouter",
        "Get a router. `forwarded_total` includes every record that the source had at the time of "
        "the call.",
        _ok(answers.RouterAnswer),
        ("router_not_found",),
        links={"dropRouter": {}},
    ),
    ("DELETE", "/v0/routers/:router"): Operation(
        "dropRouter",
        "Delete a router. Its copies stay. A router that does not exist is not an error.",
        _ok(answers.RouterDeletedAnswer),
        ("storage_failed",),
        parameters=(
            _name("router", "Any name: no router exists under an invalid one.", _ANY_NAME),
        ),
    ),
    ("POST", "/v0/batch"): Operation(
        "appendBatch",
        "Append to several topics at once. Appends everything or nothing, to 1 to 64 different "
        "topics, now: a part has no `deliver_at`, `delay_ms` or `cron`.",
        _ok(answers.BatchAnswer),
        _WRITE_FAULTS,
        parameters=(_KEY, _TRACE),
        body=models.BatchBody,
    ),
    ("GET", "/v0/topics/:topic/positions"): Operation(
        "listPositions",
        "List consumer positions. Sorted by name, at most 1,000.",
        _ok(answers.PositionListAnswer),
        ("topic_not_found",),
    ),
    ("PUT", "/v0/topics/:topic/positions/:name"): Operation(
        "putPosition",
        "Move a consumer's position. The consumer has processed every record up to and including "
        "`seq`. The position is durable and may move back. `epoch`, when given, must be the "
        "topic's.",
        _ok(answers.PositionAnswer),
        ("topic_not_found", "epoch_mismatch", "storage_failed"),
        body=models.PositionBody,
        links={"getPosition": {}, "dropPosition": {}},
    ),
    ("GET", "/v0/topics/:topic/positions/:name"): Operation(
        "getPosition",
        "Get a consumer's position. `lag_records` is the exact number of live records after it; "
        "`lag_ms` is the age of the oldest of them, 0 when there is none.",
        _ok(answers.PositionAnswer),
        ("topic_not_found", "position_not_found"),
        links={"putPosition": {"seq": "seq"}},
    ),
    ("DELETE", "/v0/topics/:topic/positions/:name"): Operation(
        "dropPosition",
        "Delete a consumer's position. A position that does not exist is not an error.",
        _ok(answers.PositionDeletedAnswer),
        ("topic_not_found", "storage_failed"),
    ),
    ("POST", "/v0/watch"): Operation(
        "watch",
        "Open a watch session. 1 to 256 topics to follow on one stream. A name that ends in `*` "
        "is a prefix and means every topic with that prefix, also topics created later. A session "
        "without a stream expires after five minutes.",
        _ok(answers.WatchAnswer),
        ("topic_not_found", "storage_failed"),
        parameters=(_flag("lenient", "false", "Ignore topics that do not exist."),),
        body=models.WatchBody,
        links={"stream": {}},
    ),
    ("GET", "/v0/watch/:wid"): Operation(
        "stream",
        "Stream a watch session. Server-sent events without end (docs/api/sse.md). With keys, "
        "only the key that opened the session may stream it, given as a header, as `?token=` or "
        "as a ticket.",
        {200: Answer("The events. `id` is a cursor to resume from.", {EVENTS: _STRING})},
        ("not_acceptable",),
        parameters=(
            _parameter(
                "header",
                "Last-Event-ID",
                "The last `id` that the client received. The session goes back to it, and never "
                "forward. An invalid value is ignored.",
            ),
        ),
        more={
            "x-penstock-events": {
                "record": stream_messages.RecordEvent,
                "tombstone": stream_messages.TombstoneEvent,
                "caught-up": stream_messages.CaughtUpEvent,
                "topic-deleted": stream_messages.TopicDeletedEvent,
                "error": stream_messages.ErrorEvent,
            }
        },
    ),
    ("GET", "/v0/ws"): Operation(
        "socket",
        "Open a WebSocket. JSON messages in both directions (docs/api/websocket.md). HTTP/1.1 "
        "only. A command has `op` and may have `request_id`, any JSON, which its answer repeats.",
        _upgraded("WebSocket messages"),
        more={
            "x-penstock-commands": {
                "subscribe": models.Subscribe,
                "unsubscribe": models.Unsubscribe,
                "publish": models.Publish,
                "ping": {"type": "object"},
            },
            "x-penstock-messages": {
                "subscribed": stream_messages.SubscribedMessage,
                "unsubscribed": stream_messages.UnsubscribedMessage,
                "ack": stream_messages.AckMessage,
                "pong": stream_messages.PongMessage,
                "record": stream_messages.RecordMessage,
                "caught_up": stream_messages.CaughtUpMessage,
                "tombstone": stream_messages.TombstoneMessage,
                "topic_deleted": stream_messages.TopicDeletedMessage,
                "error": stream_messages.ErrorMessage,
            },
        },
    ),
    ("GET", "/v0/sender"): Operation(
        "sender",
        "Receive the frames of a sender. For `penstock.Sender` (docs/api/sender.md). HTTP/1.1 "
        "only. `X-Penstock-Sender` names the sender, `X-Penstock-Fsn` is the number of its first "
        "frame on this connection.",
        _upgraded("the frames of the sender over WebSocket"),
    ),
    ("GET", "/api/v4/write"): Operation(
        "qwpWrite",
        "Ingest over QWP. For QuestDB clients (docs/compat.md). HTTP/1.1 only.",
        _upgraded("QWP over WebSocket"),
        ("upgrade_required",),
    ),
    ("POST", "/v0/topics/:topic/claim"): Operation(
        "claim",
        "Claim jobs of a queue. Leases up to `max` ready jobs to `node`. Fewer jobs, or none, are "
        "not an error; with `wait_ms` the call waits that long for an empty queue. Jobs delivered "
        "before come first. A job that exceeds `max_deliveries` becomes a dead letter instead.",
        _ok(answers.ClaimAnswer),
        _QUEUE_FAULTS,
        body=models.ClaimBody,
        links={"getTopic": {}},
    ),
    ("POST", "/v0/topics/:topic/ack"): Operation(
        "ack",
        "Acknowledge jobs. The jobs are done: they are deleted, all with one sync. A job that "
        "`node` does not hold, or holds under another lease than `lease_ids` says, is skipped.",
        _ok(answers.AckAnswer),
        _SETTLE_FAULTS,
        body=models.SettleBody,
    ),
    ("POST", "/v0/topics/:topic/nack"): Operation(
        "nack",
        "Return jobs to the queue. The jobs are ready again, at once or after `delay_ms`.",
        _ok(answers.NackAnswer),
        _SETTLE_FAULTS,
        body=models.NackBody,
    ),
    ("POST", "/v0/topics/:topic/extend"): Operation(
        "extend",
        "Extend leases. The leases end `lease_ms` from now.",
        _ok(answers.ExtendAnswer),
        _SETTLE_FAULTS,
        body=models.ExtendBody,
    ),
    ("POST", "/v0/topics/:topic/redrive"): Operation(
        "redrive",
        "Redrive dead letters. Moves records of a dead-letter topic back to the queues they came "
        "from, or to `to`: the records in `seqs`, those whose tag matches, or all after `after`, "
        "at most `limit` in one call. An absent body means all defaults.",
        _ok(answers.RedriveAnswer),
        ("batch_too_large", "topic_not_found", "storage_failed"),
        body=models.RedriveBody,
        is_body_required=False,
    ),
    ("GET", "/v0/topics/:topic/work"): Operation(
        "work",
        "Receive jobs as events. An event stream that keeps up to `max` leases; each job is an "
        "event. When the connection ends, its jobs that are not acknowledged are ready again.",
        {200: Answer("The stream.", {EVENTS: _STRING})},
        ("not_acceptable", *_QUEUE_FAULTS),
        parameters=(
            _query("node", "The name of the worker. Required.", maxLength=128),
            _query("max", "Leases held at once, 1 to 1000.", default="1"),
            _query("lease_ms", "How long each lease lasts."),
            _query("ticket", "A ticket, for browsers."),
            _query("token", "A key, for clients that cannot set headers."),
        ),
        more={"x-penstock-events": {"job": JobEvent, "error": stream_messages.WorkErrorEvent}},
    ),
    ("GET", "/v0/audit"): Operation(
        "audit",
        "Read the audit. Who created, configured, deleted or redrove what, oldest first, with "
        "refused attempts. `next_from_seq` is the next `from_seq`.",
        _ok(answers.AuditAnswer),
        parameters=(
            _query("from_seq", "Only acts after this seq.", default="0"),
            _query("limit", "1 to 10,000.", default="256"),
        ),
    ),
    ("POST", "/v0/tickets"): Operation(
        "issueTicket",
        "Get a ticket. A ticket replaces the key of this call, once, within 30 seconds, in "
        "`?ticket=` of a stream: for browsers, which cannot set headers there. A body is ignored.",
        _ok(answers.TicketAnswer),
    ),
    ("GET", "/v0/metrics"): Operation(
        "metrics",
        "Read metrics. Prometheus text, or JSON when `Accept` has `application/json`.",
        {200: Answer("The current metrics.", {TEXT: _STRING, JSON: answers.MetricsAnswer})},
    ),
    ("GET", "/v0/openapi.json"): Operation(
        "openapi",
        "This document. Also answered during recovery.",
        {200: Answer("This document.", {JSON: {"type": "object"}})},
    ),
    ("GET", "/v0/health"): Operation(
        "health",
        "Check that the process is alive. Also answered during recovery. 507 when a disk error "
        "has closed the log: records can be read and not written, until a restart.",
        {
            **_ok(answers.HealthAnswer),
            507: Answer("The log is closed for writing.", {JSON: answers.HealthAnswer}),
        },
    ),
    ("GET", "/v0/ready"): Operation(
        "ready",
        "Check that the server accepts requests. 503 `not_ready` with `detail.replay_progress` "
        "during recovery.",
        _ok(answers.ReadyAnswer),
    ),
}

# Second paths of the same operation.
for _path, _alias, _id in (
    ("/v0/health", "/healthz", "healthRoot"),
    ("/v0/ready", "/readyz", "readyRoot"),
    ("/api/v4/write", "/write/v4", "qwpWriteToo"),
):
    OPERATIONS["GET", _alias] = replace(OPERATIONS["GET", _path], id=_id)
