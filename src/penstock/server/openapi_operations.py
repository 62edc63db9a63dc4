"""What each route is for, takes and answers: one entry a route, for the OpenAPI document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from penstock.server.openapi_schemas import NAME, ROUTER, Schema, ref

JSON: Final = "application/json"
BATCH: Final = "application/vnd.penstock.batch"
EVENTS: Final = "text/event-stream"
TEXT: Final = "text/plain"

_BINARY: Final[Schema] = {"type": "string", "contentEncoding": "binary"}
_SAID: Final = "$response.body#/"


@dataclass(frozen=True, slots=True)
class Good:
    """An answer that is no error: what it means and its body by media type."""

    about: str
    bodies: dict[str, Schema]


@dataclass(frozen=True, slots=True)
class Body:
    """A request's body by media type."""

    bodies: dict[str, Schema]
    is_required: bool = True


@dataclass(frozen=True, slots=True)
class Operation:
    """One route in words. `links` maps a name to (operation, parameters, body or None)."""

    id: str
    summary: str
    about: str
    good: dict[int, Good]
    faults: tuple[str, ...] = ()
    parameters: tuple[Schema, ...] = ()
    body: Body | None = None
    links: tuple[tuple[str, dict[str, str], dict[str, str] | None], ...] = ()
    more: tuple[tuple[str, Any], ...] = ()


def _query(name: str, about: str, schema: Schema) -> Schema:
    return {"name": name, "in": "query", "description": about, "schema": schema}


def _flag(name: str, default: str, about: str) -> Schema:
    words = f"{about} `true` or `1`, `false` or `0`; anything else means the default, {default}."
    return _query(name, words, {"type": "string", "default": default, "examples": ["true"]})


def _header(name: str, about: str, schema: Schema) -> Schema:
    return {"name": name, "in": "header", "description": about, "schema": schema}


def _json(name: str) -> dict[str, Schema]:
    return {JSON: ref(name)}


def _ok(name: str, about: str = "Done.") -> dict[int, Good]:
    return {200: Good(about, _json(name))}


def _name(name: str, about: str, schema: Schema) -> Schema:
    return {"name": name, "in": "path", "required": True, "description": about, "schema": schema}


_ANY: Final[Schema] = {"type": "string", "minLength": 1}
PARAMETERS: Final[dict[str, Schema]] = {
    "topic": _name("topic", "Name of a topic.", NAME),
    "name": _name("name", "Name of a consumer.", NAME),
    "router": _name("router", "Name of a router.", ROUTER),
    "wid": _name("wid", "A session, as `POST /v0/watch` named it.", _ANY),
}

_ROUTER: Final = {"router": f"{_SAID}router"}
_TOPIC: Final = {"topic": f"{_SAID}topic"}
_POSITION: Final = {"topic": f"{_SAID}topic", "name": f"{_SAID}name"}
_AFTER_TOPIC: Final = tuple(
    (name, _TOPIC, None)
    for name in ("getTopic", "append", "diff", "deleteRecords", "listPositions", "dropTopic")
)
_WRITE_FAULTS: Final = (
    "batch_too_large",
    "record_too_large",
    "topic_not_found",
    "seq_mismatch",
    "topic_full",
    "storage_failed",
)
_QUEUE_FAULTS: Final = ("topic_not_found", "not_a_queue", "storage_failed")
_KEY: Final = _header(
    "Idempotency-Key",
    "Used when the body has no `idempotency_key`. At most 256 bytes.",
    {"type": "string", "minLength": 1, "maxLength": 256},
)
_TRACE: Final = _header(
    "traceparent",
    "W3C trace context. Kept in the `meta` of every record that has none yet. What is no such "
    "context is passed over.",
    {"type": "string", "examples": [f"00-{'1' * 32}-{'2' * 16}-01"]},
)
_TOUCH: Final = "Count as a read of the topic: it sets `last_read_ts` and raises its priority."

_PAGING: Final = (
    _query(
        "page_size",
        "1 to 1000, other numbers are brought into that range; 100 when it is left out or no "
        "number.",
        {"type": "string", "default": "100", "examples": ["10"]},
    ),
    _query("cursor", "`next_cursor` of the page before.", {"type": "string"}),
)

OPERATIONS: Final[dict[tuple[str, str], Operation]] = {
    ("GET", "/v0/topics"): Operation(
        "listTopics",
        "List topics",
        "Sorted by name. A key with prefixes sees the topics it may name and no others.",
        _ok("TopicList", "A page of topics; `next_cursor` is there when more follow."),
        parameters=(
            _query("prefix", "Only names that begin so.", {"type": "string"}),
            *_PAGING,
            _flag("touch", "false", _TOUCH),
            _flag("config", "false", "Give each topic's configuration, segments and last write."),
        ),
        links=(("listTopics", {"query.cursor": f"{_SAID}next_cursor"}, None),),
    ),
    ("PUT", "/v0/topics/:topic"): Operation(
        "putTopic",
        "Create or configure a topic",
        "The body is the whole configuration: what it leaves out goes back to its default. "
        "No body means all defaults.",
        {
            200: Good("The topic existed and has this configuration now.", _json("TopicPut")),
            201: Good("The topic was created.", _json("TopicPut")),
        },
        ("not_found", "topic_exists_incompatible", "storage_failed"),
        body=Body(_json("TopicConfigBody"), is_required=False),
        links=_AFTER_TOPIC,
    ),
    ("GET", "/v0/topics/:topic"): Operation(
        "getTopic",
        "Look at a topic",
        "Its ends, size and configuration as of now.",
        _ok("Topic", "The topic."),
        ("not_found", "topic_not_found"),
        parameters=(_flag("touch", "true", _TOUCH),),
        links=_AFTER_TOPIC,
    ),
    ("DELETE", "/v0/topics/:topic"): Operation(
        "dropTopic",
        "Delete a topic",
        "With all its records and positions. A topic that is not there is no error. One that is "
        "created later under the same name has another epoch.",
        _ok("TopicDeleted", "It is gone; `deleted` says whether it was there."),
        ("not_found", "topic_not_empty", "storage_failed"),
        parameters=(
            _name("topic", "Any name: one that cannot be a topic's is not there either.", _ANY),
            _flag("if_empty", "false", "Only when it has no records."),
        ),
    ),
    ("POST", "/v0/topics/:topic"): Operation(
        "append",
        "Append records",
        "All of them or none, with consecutive seqs. The answer comes when the topic's durability "
        "class is met. A call that repeats an idempotency key writes nothing and gets the first "
        "answer again with `deduped: true`. `config` counts only when this call creates the "
        "topic, and then needs the scope admin. The binary body is described in "
        "docs/format/batch.md.",
        {
            200: Good("Written, or written before.", _json("Written")),
            201: Good("Written, and the topic was created for it.", _json("Written")),
        },
        ("not_found", "not_a_queue", *_WRITE_FAULTS),
        parameters=(
            _flag("return_seqs", "true", "Answer with the list `seqs`."),
            _KEY,
            _TRACE,
        ),
        body=Body({JSON: ref("WriteBody"), BATCH: _BINARY}),
        links=(
            ("diff", _TOPIC, None),
            ("putPosition", {"topic": f"{_SAID}topic"}, {"seq": f"{_SAID}last_seq"}),
            ("deleteRecords", _TOPIC, {"before_seq": f"{_SAID}last_seq"}),
        ),
    ),
    ("POST", "/v0/topics/:topic/diff"): Operation(
        "diff",
        "Read records",
        "Records after `from_seq`, oldest first. `next_from_seq` is the next `from_seq`: it moves "
        "past records that were filtered out, too. What was lost without anyone asking for it is "
        "a tombstone in the first answer that passes it. No body means all defaults. With "
        "`Accept: application/vnd.penstock.batch` the answer is binary (docs/format/batch.md).",
        {200: Good("A page of records, which may be empty.", {JSON: ref("Diff"), BATCH: _BINARY})},
        ("not_found", "topic_not_found", "storage_failed"),
        body=Body(_json("DiffBody"), is_required=False),
        links=(("diff", _TOPIC, {"from_seq": f"{_SAID}next_from_seq"}),),
    ),
    ("POST", "/v0/topics/:topic/delete"): Operation(
        "deleteRecords",
        "Delete records",
        "Those whose tag matches and those in `seqs`, as far as they lie below `before_seq`; with "
        "`before_seq` alone everything below it. One of the three must be given.",
        _ok("RecordsDeleted", "They are gone; `deleted` says how many."),
        ("not_found", "batch_too_large", "topic_not_found", "storage_failed"),
        body=Body(_json("DeleteBody")),
        links=(("diff", _TOPIC, None),),
    ),
    ("GET", "/v0/topics/:topic/schedules"): Operation(
        "listSchedules",
        "List recurring jobs",
        "Jobs that were appended with `cron`, by seq, and when each is due next. One that is ready "
        "or in flight is due now. Delete a job by its seq, and it comes no more.",
        _ok("ScheduleList", "The recurring jobs of the queue."),
        ("not_found", "topic_not_found", "not_a_queue"),
    ),
    ("GET", "/v0/routers"): Operation(
        "listRouters",
        "List routers",
        "Sorted by name. A key with prefixes sees those whose name, source and destination it may "
        "name. Totals may lag behind.",
        _ok("RouterList", "A page of routers; `next_cursor` is there when more follow."),
        parameters=(
            _query("prefix", "Only names that begin so.", {"type": "string"}),
            _query("source", "Only those from this topic.", {"type": "string"}),
            _query("dest", "Only those to this topic.", {"type": "string"}),
            *_PAGING,
        ),
        links=(("listRouters", {"query.cursor": f"{_SAID}next_cursor"}, None),),
    ),
    ("PUT", "/v0/routers/:router"): Operation(
        "putRouter",
        "Create or change a router",
        "Records appended to `source` from now on are copied to `dest`. Missing topics are "
        "created. A router that exists keeps its position and its ends; all else may change.",
        {
            200: Good("The router existed and has these rules now.", _json("RouterPut")),
            201: Good("The router was created.", _json("RouterPut")),
        },
        (
            "not_found",
            "topic_not_found",
            "topic_exists_incompatible",
            "router_cycle",
            "storage_failed",
        ),
        body=Body(_json("RouterBody")),
        links=(("getRouter", _ROUTER, None), ("dropRouter", _ROUTER, None)),
    ),
    ("GET", "/v0/routers/:router"): Operation(
        "getRouter",
        "Look at a router",
        "`forwarded_total` counts everything that its source had when it was asked for.",
        _ok("Router", "The router."),
        ("not_found", "router_not_found"),
        links=(("dropRouter", _ROUTER, None),),
    ),
    ("DELETE", "/v0/routers/:router"): Operation(
        "dropRouter",
        "Delete a router",
        "What it copied stays. One that is not there is no error.",
        _ok("RouterDeleted", "It is gone; `deleted` says whether it was there."),
        ("not_found", "storage_failed"),
        parameters=(
            _name("router", "Any name: one that cannot be a router's is not there either.", _ANY),
        ),
    ),
    ("POST", "/v0/batch"): Operation(
        "appendBatch",
        "Append to several topics at once",
        "All of it or nothing, over 1 to 64 different topics.",
        _ok("BatchWritten", "Written, or written before; `results` in the order of `writes`."),
        _WRITE_FAULTS,
        parameters=(_KEY, _TRACE),
        body=Body(_json("BatchBody")),
    ),
    ("GET", "/v0/topics/:topic/positions"): Operation(
        "listPositions",
        "List consumer positions",
        "Sorted by name, at most 1,000.",
        _ok("PositionList", "The positions of the topic."),
        ("not_found", "topic_not_found"),
    ),
    ("PUT", "/v0/topics/:topic/positions/:name"): Operation(
        "putPosition",
        "Move a consumer's position",
        "Up to and including `seq` everything has been dealt with. Durable. It may be moved back. "
        "`epoch`, when given, must be the topic's.",
        _ok("Position", "The position, and how far behind it is."),
        ("not_found", "topic_not_found", "epoch_mismatch", "storage_failed"),
        body=Body(_json("PositionBody")),
        links=(("getPosition", _POSITION, None), ("dropPosition", _POSITION, None)),
    ),
    ("GET", "/v0/topics/:topic/positions/:name"): Operation(
        "getPosition",
        "Look at a consumer's position",
        "`lag_records` counts the live records past it, exactly; `lag_ms` is the age of the "
        "oldest of them, 0 when there is none.",
        _ok("Position", "The position, and how far behind it is."),
        ("not_found", "topic_not_found", "position_not_found"),
        links=(("putPosition", _POSITION, {"seq": f"{_SAID}seq"}),),
    ),
    ("DELETE", "/v0/topics/:topic/positions/:name"): Operation(
        "dropPosition",
        "Forget a consumer's position",
        "One that is not there is no error.",
        _ok("PositionDeleted", "It is gone; `deleted` says whether it was there."),
        ("not_found", "topic_not_found", "storage_failed"),
    ),
    ("POST", "/v0/watch"): Operation(
        "watch",
        "Open a watch session",
        "1 to 256 topics to follow on one stream. A key that ends in `*` is a prefix and stands "
        "for all topics that begin so, also those to come. A session without a stream is "
        "forgotten after five minutes.",
        _ok("Watch", "The session; `stream_url` is where its events are."),
        ("topic_not_found", "storage_failed"),
        parameters=(_flag("lenient", "false", "Leave topics out that do not exist."),),
        body=Body(_json("WatchBody")),
        links=(("stream", {"wid": f"{_SAID}wid"}, None),),
    ),
    ("GET", "/v0/watch/:wid"): Operation(
        "stream",
        "Stream a watch session",
        "Server-sent events without end (docs/api/sse.md). With keys, only the key that opened "
        "the session may stream it, given as a header, as `?token=` or as a ticket.",
        {200: Good("The events. `id` is a cursor to resume from.", {EVENTS: {"type": "string"}})},
        ("not_found", "not_acceptable"),
        parameters=(
            _header(
                "Last-Event-ID",
                "The last `id` that arrived. The session goes back to it; it never goes forward. "
                "What cannot be read is passed over.",
                {"type": "string"},
            ),
        ),
        more=(
            (
                "x-penstock-events",
                {
                    "record": ref("EventRecord"),
                    "tombstone": ref("EventTombstone"),
                    "caught-up": ref("EventCaughtUp"),
                    "topic-deleted": ref("EventTopicDeleted"),
                    "error": ref("EventError"),
                },
            ),
        ),
    ),
    ("GET", "/v0/ws"): Operation(
        "socket",
        "Open a WebSocket",
        "JSON texts both ways (docs/api/websocket.md). HTTP/1.1 only. A command has `op` and may "
        "have `request_id`, any JSON, which its reply repeats.",
        {101: Good("Upgraded: the rest is WebSocket.", {})},
        more=(
            (
                "x-penstock-commands",
                {
                    "subscribe": ref("Subscribe"),
                    "unsubscribe": ref("Unsubscribe"),
                    "publish": ref("Publish"),
                    "ping": {"type": "object"},
                },
            ),
            (
                "x-penstock-messages",
                {
                    "subscribed": ref("MessageSubscribed"),
                    "unsubscribed": ref("MessageUnsubscribed"),
                    "ack": ref("MessageAck"),
                    "pong": ref("MessagePong"),
                    "record": ref("MessageRecord"),
                    "caught_up": ref("MessageCaughtUp"),
                    "tombstone": ref("MessageTombstone"),
                    "topic_deleted": ref("MessageTopicDeleted"),
                    "error": ref("MessageError"),
                },
            ),
        ),
    ),
    ("GET", "/v0/sender"): Operation(
        "sender",
        "Take the frames of a sender",
        "For `penstock.Sender` (docs/api/sender.md). HTTP/1.1 only. `X-Penstock-Sender` names the "
        "sender, `X-Penstock-Fsn` is the number of its first frame on this connection.",
        {101: Good("Upgraded: the rest is frames over WebSocket.", {})},
    ),
    ("GET", "/api/v4/write"): Operation(
        "qwpWrite",
        "Ingest over QWP",
        "For QuestDB clients (docs/compat.md). HTTP/1.1 only.",
        {101: Good("Upgraded: the rest is QWP over WebSocket.", {})},
        ("upgrade_required",),
    ),
    ("GET", "/write/v4"): Operation(
        "qwpWriteToo",
        "Ingest over QWP, by its other path",
        "As `GET /api/v4/write`.",
        {101: Good("Upgraded: the rest is QWP over WebSocket.", {})},
        ("upgrade_required",),
    ),
    ("POST", "/v0/topics/:topic/claim"): Operation(
        "claim",
        "Claim jobs of a queue",
        "Leases up to `max` ready jobs to `node`. Fewer, or none, is no error; with `wait_ms` an "
        "empty queue is waited for that long. Jobs that were out before come first. One that "
        "would be delivered once too often goes to the dead letters instead.",
        _ok("Claimed", "The jobs, each with its lease."),
        ("not_found", *_QUEUE_FAULTS),
        body=Body(_json("ClaimBody")),
        links=(("getTopic", _TOPIC, None),),
    ),
    ("POST", "/v0/topics/:topic/ack"): Operation(
        "ack",
        "Acknowledge jobs",
        "They are done and deleted, all with one sync. A job that `node` does not hold, or not "
        "under the lease named in `lease_ids`, is skipped.",
        _ok("Acked"),
        ("not_found", "batch_too_large", *_QUEUE_FAULTS),
        body=Body(_json("SettleBody")),
    ),
    ("POST", "/v0/topics/:topic/nack"): Operation(
        "nack",
        "Give jobs back",
        "They are ready again, at once or after `delay_ms`.",
        _ok("Nacked"),
        ("not_found", "batch_too_large", *_QUEUE_FAULTS),
        body=Body(_json("NackBody")),
    ),
    ("POST", "/v0/topics/:topic/extend"): Operation(
        "extend",
        "Keep jobs for longer",
        "Their leases end `lease_ms` from now.",
        _ok("Extended"),
        ("not_found", "batch_too_large", *_QUEUE_FAULTS),
        body=Body(_json("ExtendBody")),
    ),
    ("POST", "/v0/topics/:topic/redrive"): Operation(
        "redrive",
        "Redrive dead letters",
        "Moves records of a dead-letter topic back to the queues they came from, or to `to`: those "
        "in `seqs`, those whose tag matches, or all past `after`, at most `limit` in one call. No "
        "body means all defaults.",
        _ok("Redriven", "What went, and why others stayed."),
        ("not_found", "batch_too_large", "topic_not_found", "storage_failed"),
        body=Body(_json("RedriveBody"), is_required=False),
    ),
    ("GET", "/v0/topics/:topic/work"): Operation(
        "work",
        "Have jobs pushed",
        "An event stream that keeps up to `max` leases; each job is an event. When the "
        "connection ends, what was pushed on it and is not done is ready for others.",
        {200: Good("The stream.", {EVENTS: {"type": "string"}})},
        ("not_found", "not_acceptable", *_QUEUE_FAULTS),
        parameters=(
            _query("node", "Who works. Needed.", {"type": "string", "maxLength": 128}),
            _query("max", "Leases held at once, 1 to 1000.", {"type": "string", "default": "1"}),
            _query("lease_ms", "How long each lease lasts.", {"type": "string"}),
            _query("ticket", "A ticket, for browsers.", {"type": "string"}),
            _query("token", "A key, for clients that cannot set headers.", {"type": "string"}),
        ),
        more=(("x-penstock-events", {"job": ref("EventJob"), "error": ref("EventError")}),),
    ),
    ("GET", "/v0/audit"): Operation(
        "audit",
        "Read the audit",
        "Who created, configured, deleted or redrove what, oldest first, refused attempts too. "
        "`next_from_seq` is the next `from_seq`.",
        _ok("Audit", "A page of acts, which may be empty."),
        parameters=(
            _query("from_seq", "Only those past this seq.", {"type": "string", "default": "0"}),
            _query("limit", "1 to 10,000.", {"type": "string", "default": "256"}),
        ),
    ),
    ("POST", "/v0/tickets"): Operation(
        "issueTicket",
        "Get a ticket",
        "It stands for the key of this call, once, within 30 seconds, in `?ticket=` of a stream: "
        "for browsers, which cannot set headers there. A body is not looked at.",
        _ok("Ticket", "The ticket."),
    ),
    ("GET", "/v0/metrics"): Operation(
        "metrics",
        "Read metrics",
        "Prometheus text, or JSON when `Accept` has `application/json`.",
        {200: Good("The figures as of now.", {TEXT: {"type": "string"}, JSON: ref("Metrics")})},
    ),
    ("GET", "/v0/openapi.json"): Operation(
        "openapi",
        "This document",
        "Answered also while the log is being recovered.",
        {200: Good("This document.", {JSON: {"type": "object"}})},
    ),
}


def _probe(operation_id: str, alias: str, summary: str, about: str, good: dict[int, Good]) -> None:
    """A probe has a second address for those who look for it at the root."""
    path = f"/v0/{operation_id}"
    for suffix, where in (("", path), ("Root", alias)):
        OPERATIONS["GET", where] = Operation(f"{operation_id}{suffix}", summary, about, good)


_probe(
    "health",
    "/healthz",
    "Is the process alive?",
    "Answered also while the log is being recovered. 507 when a disk error has closed the log: "
    "it can be read and not written, and a restart is needed.",
    {
        200: Good("Alive.", _json("Health")),
        507: Good("Alive, but the log is closed for writing.", _json("Health")),
    },
)
_probe(
    "ready",
    "/readyz",
    "Does it take requests?",
    "503 `not_ready` with `detail.replay_progress` while the log is being recovered.",
    _ok("Ready", "Recovery is over."),
)
