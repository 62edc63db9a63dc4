"""The shapes of the API's bodies as JSON Schema, for the OpenAPI document.

What callers send is derived from the structs that decode it (`wire/models.py`), so the two cannot
drift. What they get is written down here, and a test holds real answers against it.
"""

from __future__ import annotations

import functools
import operator
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin

import msgspec

from penstock import limits
from penstock.types import Cause, QueueRules, TopicConfig
from penstock.wire import models

Schema = dict[str, Any]

_U64_MAX: Final = (1 << 64) - 1
NAME_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._:\-]{0,254}$"

_TEXT: Final[Schema] = {"type": "string"}
_BOOL: Final[Schema] = {"type": "boolean"}
_INT: Final[Schema] = {"type": "integer"}
U64: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": _U64_MAX}
_MS: Final[Schema] = {"type": "number", "minimum": 0}
_MAYBE_U64: Final[Schema] = {"anyOf": [U64, {"type": "null"}]}
ROUTER: Final[Schema] = {
    "type": "string",
    "pattern": r"^[A-Za-z0-9][A-Za-z0-9._:>\-]{0,254}$",
    "maxLength": 255,
}
NAME: Final[Schema] = {"type": "string", "pattern": NAME_PATTERN, "maxLength": 255}
_REASONS: Final = [cause.word for cause in Cause]
BATCH_WRITES_MAX: Final = 64
WATCH_TOPICS_MAX: Final = 256


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def shape(members: Schema, *, optional: tuple[str, ...] = (), about: str = "") -> Schema:
    """An object whose members are all there but for the optional ones."""
    made: Schema = {"type": "object"}
    if about:
        made["description"] = about
    made["required"] = [name for name in members if name not in optional]
    made["properties"] = members
    return made


def array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def components() -> dict[str, Schema]:
    """Every named schema but the errors."""
    return {**_requests(), **_answers(), **_stream()}


# What callers send.

_MODELS: Final = (
    models.WriteHead,
    models.WriteBody,
    models.BatchBody,
    models.DiffBody,
    models.DeleteBody,
    models.WatchBody,
    models.PositionBody,
    models.ClaimBody,
    models.SettleBody,
    models.NackBody,
    models.ExtendBody,
    models.RedriveBody,
    models.RouterBody,
    models.Subscribe,
    models.Unsubscribe,
    models.Publish,
)
_PREDICATES: Final = {  # members that are a tag predicate, declared as "anything" where decoded
    "DiffBody": "tag",
    "Follow": "tag",
    "WatchBody": "tag",
    "Subscribe": "tag",
    "DeleteBody": "match",
    "RedriveBody": "match",
    "RouterBody": "filter",
}


# What the handlers ask of members beyond their type. Numbers that are not here have no upper
# bound: they are clamped. Lengths are in characters, and in bytes of UTF-8 where it is checked.
_NODE: Final = {"minLength": 1, "maxLength": limits.NODE_BYTES_MAX}
_SETTLE: Final = ("SettleBody", "NackBody", "ExtendBody")
_BOUNDS: Final[dict[str, Schema]] = {
    "expected_seq": {"maximum": _U64_MAX},
    "from_seq": {"maximum": _U64_MAX},
    "before_seq": {"maximum": _U64_MAX},
    "seq": {"maximum": _U64_MAX},
    "deliver_at": {"maximum": limits.TIME_MS_MAX},
    "delay_ms": {"maximum": limits.DELAY_MS_MAX},
    "idempotency_key": {"minLength": 1, "maxLength": limits.KEY_BYTES_MAX},
}


def _requests() -> dict[str, Schema]:
    twins = [_twin(model) for model in _MODELS]
    template = "#/components/schemas/{name}"
    _, found = msgspec.json.schema_components(twins, ref_template=template)
    made: dict[str, Schema] = {name: _trimmed(schema) for name, schema in found.items()}
    for schema in made.values():
        for member, bounds in _BOUNDS.items():
            _bind(schema["properties"].get(member, {}), bounds)
    for name, member in _PREDICATES.items():
        made[name]["properties"][member] = {"anyOf": [ref("TagPredicate"), {"type": "null"}]}
    for name in ("DiffBody", "WatchBody", "Subscribe", "ClaimBody", *_SETTLE):
        _bind(made[name]["properties"]["node"], _NODE)
    for name in _SETTLE:
        members = made[name]["properties"]
        members["seqs"] |= {"maxItems": limits.QUEUE_JOBS_MAX}
        members["seqs"]["items"] |= {"maximum": _U64_MAX}
        _bind(members["lease_ids"], {"pattern": "^(lease_[0-9a-f]{1,16})?$"})
    for name in ("WriteHead", "WriteBody", "TopicWriteBody", "Publish"):
        members = made[name]["properties"]
        members["config"] = {"anyOf": [ref("TopicConfigBody"), {"type": "null"}]}
        _bind(members["node"], {"maxLength": limits.NODE_BYTES_MAX})
    for name in ("WriteBody", "TopicWriteBody", "Publish"):
        made[name]["properties"]["records"] |= {
            "minItems": 1,
            "maxItems": limits.BATCH_RECORDS_MAX,
        }
    record = made["RecordBody"]["properties"]
    _bind(record["tag"], {"maxLength": limits.TAG_BYTES_MAX})
    _bind(record["node"], {"maxLength": limits.NODE_BYTES_MAX})
    made["BatchBody"]["properties"]["writes"] |= {"minItems": 1, "maxItems": BATCH_WRITES_MAX}
    # The parts of a batch share the key of the whole.
    never = {"type": "null"}
    made["TopicWriteBody"]["properties"] |= {"idempotency_key": never, "topic": NAME}
    made["TopicWriteBody"]["properties"] |= {"deliver_at": never, "delay_ms": never}
    made["TopicWriteBody"]["properties"] |= {"cron": never, "timezone": never}
    for name in ("DeleteBody", "RedriveBody"):
        made[name]["properties"]["seqs"] |= {"maxItems": limits.QUEUE_JOBS_MAX}
        made[name]["properties"]["seqs"]["items"] |= {"maximum": _U64_MAX}
    made["RouterBody"]["properties"] |= {"source": NAME, "dest": NAME}
    made["RedriveBody"]["properties"]["to"] = {"anyOf": [NAME, never], "default": None}
    made["RedriveBody"]["properties"]["after"] |= {"maximum": _U64_MAX}
    made["WatchBody"]["properties"]["topics"] |= {
        "minProperties": 1,
        "maxProperties": WATCH_TOPICS_MAX,
    }
    made["TopicConfigBody"] = _config_body()
    made["QueueRulesBody"] = _rules()
    made["TagPredicate"] = _predicate()
    return made


def _bind(schema: Schema, bounds: Schema) -> None:
    """Add bounds to a member, whichever of its forms they are for."""
    kind = "integer" if "maximum" in bounds else "string"
    for form in [schema, *schema.get("anyOf", ())]:
        for one in (form, form.get("items", {})):
            if one.get("type") == kind:
                one.update(bounds)


def _trimmed(schema: Schema) -> Schema:
    return {key: value for key, value in schema.items() if key != "title"}


@functools.cache
def _twin(struct: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """The same struct with payloads as plain values: a raw text has no JSON Schema."""
    fields: list[Any] = []
    for field in msgspec.structs.fields(struct):
        kind = _plain(field.type)
        if field.required:
            fields.append((field.name, kind))
        elif field.default_factory is not msgspec.NODEFAULT:
            fields.append((field.name, kind, msgspec.field(default_factory=field.default_factory)))
        else:
            default = None if isinstance(field.default, msgspec.Raw) else field.default
            fields.append((field.name, kind, default))
    namespace = {"__doc__": struct.__doc__}
    return msgspec.defstruct(struct.__name__, fields, kw_only=True, namespace=namespace)


def _plain(kind: Any) -> Any:
    """A type with twins for structs and values for raw texts."""
    if kind is msgspec.Raw:
        return Any
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _twin(kind)
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return functools.reduce(operator.or_, map(_plain, inner))
    if origin in (list, dict):
        return origin[tuple(map(_plain, inner))]
    return kind


def _config_body() -> Schema:
    """All fields may be left out, and null means the same as left out."""
    members = {name: _nullable(one) for name, one in _config()["properties"].items()}
    members["queue"] = {"anyOf": [ref("QueueRulesBody"), {"type": "null"}]}
    about = "A topic's configuration; what is left out or null takes its default."
    return shape(members, optional=tuple(members), about=about)


def _nullable(schema: Schema) -> Schema:
    if "anyOf" in schema:  # null is a value of its own already
        return schema
    if "default" not in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    inner = {key: value for key, value in schema.items() if key != "default"}
    return {"anyOf": [inner, {"type": "null"}], "default": schema["default"]}


def _predicate() -> Schema:
    text = {"type": "string", "minLength": 1}
    glob = {"type": "string", "pattern": r"\*$"}

    def row(operation: str, value: Schema) -> Schema:
        items = [{"const": "tag"}, {"const": operation}, value]
        return {"type": "array", "prefixItems": items, "minItems": 3, "maxItems": 3}

    return {
        "description": (
            "Which tags: text is equality, text that ends in `*` is a literal prefix, "
            '`["tag","Eq",v]` and `["tag","Glob","v*"]` are the same spelled out. '
            "`*` alone takes every tagged record. An untagged record never matches."
        ),
        "anyOf": [text, row("Eq", text), row("Glob", glob)],
    }


# What they get.

_JOB: Final[Schema] = {
    "$seq": U64,
    "lease_id": {"type": "string", "pattern": "^lease_[0-9a-f]+$"},
    "deadline": U64,
    "$ts": U64,
    "deliveries": {"type": "integer", "minimum": 1},
    "data": {},
    "$tag": _TEXT,
    "meta": {},
}


def _config() -> Schema:
    """TopicConfig as it is answered: every field, with the bounds that a topic is held to."""
    template = "#/components/schemas/{name}"
    _, found = msgspec.json.schema_components([TopicConfig], ref_template=template)
    members = found["TopicConfig"]["properties"]
    for name in ("ttl_ms", "cap_records", "cap_bytes", "idempotency_window_ms", "max_deliveries"):
        members[name] |= {"minimum": 0, "maximum": _U64_MAX}
    members["dead_letter"] = {"anyOf": [NAME, {"type": "null"}], "default": None}
    return shape(members, optional=("queue",), about="A topic's configuration, whole.")


def _rules() -> Schema:
    """QueueRules as they are answered; a caller may leave any of them out."""
    _, found = msgspec.json.schema_components([QueueRules])
    schema = _trimmed(found["QueueRules"])
    for name in ("retry_base_ms", "retry_cap_ms"):
        schema["properties"][name] |= {"minimum": 0, "maximum": limits.NACK_DELAY_MS[1]}
    schema["properties"]["retry_jitter"] |= {"minimum": 0, "maximum": 1}
    return schema


def _answers() -> dict[str, Schema]:
    cost = ref("Performance")
    topic = {"topic": _TEXT}
    ends = {"head_seq": U64, "earliest_seq": U64}
    size = {"count": U64, "bytes": U64}
    position = {
        "name": NAME,
        "seq": U64,
        "epoch": U64,
        "ts": U64,
        "lag_records": U64,
        "lag_ms": U64,
    }
    router = {
        "router": ROUTER,
        "source": NAME,
        "dest": NAME,
        "preserve_node": _BOOL,
        "preserve_tag": _BOOL,
        "filter": {
            "anyOf": [
                {"type": "array", "items": _TEXT, "minItems": 3, "maxItems": 3},
                {"type": "null"},
            ]
        },
        "allow_cycle": _BOOL,
        "guarantee": {"enum": ["at_least_once", "exactly_once"]},
    }
    progress = {
        "forwarded_total": U64,
        "cursor": U64,
        "lag_records": U64,
        "stopped": {"anyOf": [_TEXT, {"type": "null"}]},
    }
    settled = {"skipped": array(U64), "ready": U64, "in_flight": U64}
    written = {"first_seq": U64, "last_seq": U64}
    outcome = {"created": _BOOL, "deduped": _BOOL, "epoch": U64}
    on_request = {"config": ref("TopicConfig"), "segments": U64, "last_write_ts": _MAYBE_U64}
    part = {"ts": U64, "topic": NAME, **written, "count": U64, "head_seq": U64, **outcome}
    return {
        "Performance": shape({"server_total_ms": _MS}, about="What the call cost the server."),
        "TopicConfig": _config(),
        "QueueRules": _rules(),
        "TopicPut": shape(
            {**topic, "created": _BOOL, "config": ref("TopicConfig"), "epoch": U64}
            | {"performance": cost}
        ),
        "Topic": shape(
            {
                **topic,
                "type": {"enum": ["log", "queue"]},
                **ends,
                "next_seq": U64,
                **size,
                "config": ref("TopicConfig"),
                "effective_priority": _INT,
                "epoch": U64,
                "last_write_ts": _MAYBE_U64,
                "last_read_ts": _MAYBE_U64,
                "segments": U64,
                "queue": shape(
                    {"ready": U64, "in_flight": U64, "delayed": U64, "dead_lettered": U64},
                    about="Of a queue: its jobs.",
                ),
                "performance": cost,
            },
            optional=("queue",),
        ),
        "Job": shape(_JOB, optional=("$tag", "meta")),
        "Claimed": shape(
            {**topic, "claimed": array(ref("Job")), "count": U64, "ready": U64}
            | {"performance": cost}
        ),
        "Act": shape(
            {"act": _TEXT, "name": _TEXT, "key": {"anyOf": [_TEXT, {"type": "null"}]}}
            | {"peer": _TEXT, "status": _INT, "asked": _TEXT},
            optional=("asked",),
        ),
        "Audit": shape(
            {
                "records": array(shape({"$seq": U64, "$ts": U64, "data": ref("Act")})),
                "next_from_seq": U64,
                "head_seq": U64,
                "caught_up": _BOOL,
                "performance": cost,
            }
        ),
        "Redriven": shape(
            {**topic, "moved": U64, "failed": {"type": "object", "additionalProperties": _TEXT}}
            | {"next_seq": U64, "done": _BOOL, "dry_run": _BOOL, "performance": cost}
        ),
        "Acked": shape({**topic, "acked": U64, **settled, "performance": cost}),
        "Nacked": shape({**topic, "nacked": U64, **settled, "performance": cost}),
        "Extended": shape(
            {**topic, "extended": U64, "skipped": array(U64)}
            | {"deadlines": {"type": "object", "additionalProperties": U64}, "performance": cost}
        ),
        "TopicRow": shape(
            {**topic, **ends, **size}
            | {"durable": _BOOL, "effective_priority": _INT, "epoch": U64, **on_request},
            optional=tuple(on_request),
        ),
        "TopicList": shape(
            {"topics": array(ref("TopicRow")), "next_cursor": _TEXT, "performance": cost},
            optional=("next_cursor",),
        ),
        "TopicDeleted": shape(
            {**topic, "deleted": _BOOL, "routers_removed": array(_TEXT), "performance": cost}
        ),
        "Written": shape(
            {**topic, **written, "seqs": array(U64), "head_seq": U64, "count": U64}
            | {
                **outcome,
                "ts": U64,
                "performance": _write_cost(),
            },
            optional=("seqs",),
        ),
        "BatchPart": shape(part),
        "BatchWritten": shape({"results": array(ref("BatchPart")), "performance": cost}),
        "Record": _record(),
        "Tombstone": _tombstone(),
        "Diff": shape(
            {
                "records": array(ref("Record")),
                **topic,
                "next_from_seq": U64,
                **ends,
                "caught_up": _BOOL,
                "tombstone": {"anyOf": [ref("Tombstone"), {"type": "null"}]},
                "lag": U64,
                "epoch": U64,
                "performance": _cost("records_scanned"),
            }
        ),
        "RecordsDeleted": shape({**topic, "deleted": U64, **ends, **size, "performance": cost}),
        "Position": shape({**topic, **position, "head_seq": U64, "performance": cost}),
        "PositionRow": shape(position),
        "PositionList": shape(
            {**topic, "positions": array(ref("PositionRow")), "head_seq": U64}
            | {"performance": cost}
        ),
        "PositionDeleted": shape({**topic, "name": _TEXT, "deleted": _BOOL, "performance": cost}),
        "Schedule": shape({"$seq": U64, "cron": _TEXT, "timezone": _TEXT, "due": U64}),
        "ScheduleList": shape({**topic, "schedules": array(ref("Schedule")), "performance": cost}),
        "Router": shape({**router, **progress, "performance": cost}),
        "RouterPut": shape({**router, "created": _BOOL, "performance": cost}),
        "RouterRow": shape({**router, **progress}),
        "RouterList": shape(
            {"routers": array(ref("RouterRow")), "next_cursor": _TEXT, "performance": cost},
            optional=("next_cursor",),
        ),
        "RouterDeleted": shape({"router": _TEXT, "deleted": _BOOL, "performance": cost}),
        "Watch": shape(
            {
                "wid": {"type": "string", "pattern": "^wid_[A-Za-z0-9_-]{22}$"},
                "stream_url": _TEXT,
                "session_ttl_ms": U64,
                "topics": {"type": "object", "additionalProperties": ref("Start")},
                "performance": cost,
            }
        ),
        "Start": shape({"from_seq": U64, **ends, "epoch": U64}, about="Where a topic begins."),
        "Ticket": shape({"ticket": _TEXT, "expires_in_ms": U64, "performance": cost}),
        "Health": shape({"status": {"enum": ["ok", "failed"]}, "version": _TEXT, "uptime_ms": U64}),
        "Ready": shape(
            {"status": {"const": "ready"}, "wal_replay_complete": {"const": True}, "topics": U64}
        ),
        "Metrics": _metrics(),
    }


def _cost(*more: str, optional: tuple[str, ...] = ()) -> Schema:
    members = {"server_total_ms": _MS, **dict.fromkeys((*more, *optional), _MS)}
    return shape(members, optional=optional)


def _write_cost() -> Schema:
    """`throttle_wait_ms` is there when the server kept the write waiting under pressure."""
    return _cost("wal_append_ms", "fsync_ms", optional=("throttle_wait_ms",))


def _record() -> Schema:
    members = {"$seq": U64, "$ts": U64, "$node": _TEXT, "$tag": _TEXT, "data": {}, "meta": {}}
    about = "`data` is left out only where `include_data` is false."
    return shape(members, optional=("$node", "$tag", "data", "meta"), about=about)


def _tombstone() -> Schema:
    members = {"gap_from": U64, "gap_to": U64, "reason": {"enum": _REASONS}}
    members |= {"missed_estimate": U64, "earliest_seq": U64, "head_seq": U64}
    about = "Seqs `gap_from` to `gap_to` are gone and nobody asked for it."
    return shape(members, about=about)


_METRICS: Final = """
    topics topics_ephemeral topics_memory topics_disk topics_fsync routers records_live bytes_live
    queue_topics queue_leases_in_flight connections sse_connections watch_sessions uptime_ms
"""
_WAL_METRICS: Final = """
    fsyncs frames batches bytes_written rotations queue_depth queue_depth_peak submit_full_total
    fsync_count fsync_micros_total
"""


def _metrics() -> Schema:
    progress = {"type": "number", "minimum": 0, "maximum": 1}
    wal = shape({**dict.fromkeys(_WAL_METRICS.split(), U64), "read_only": _BOOL})
    counts = dict.fromkeys(_METRICS.split(), U64)
    pressure = shape(
        {
            "pressure": progress,
            "coalesce_ms": _MS,
            "commit_window_ms": {"anyOf": [_MS, {"type": "null"}]},
            "deferring": _BOOL,
            "scheduling_latency_ms": _MS,
            "ready_topics": array(U64),
            "paused_topics": U64,
            "writes_throttled": U64,
            "deliveries": U64,
        }
    )
    members = {**counts, "ready": _BOOL, "replay_progress": progress, "wal": wal}
    return shape({**members, "pressure": pressure})


# What streams carry.


def _stream() -> dict[str, Schema]:
    """Data of SSE events; a WebSocket message has `op` besides."""
    topic: Schema = {"topic": NAME}
    reasons = {"enum": [*_REASONS, "from_seq_too_old"]}
    gap = {"gap_from": U64, "gap_to": U64, "earliest_seq": U64, "head_seq": U64}
    told = {"code": _TEXT, "message": _TEXT}
    events = {
        "Record": {**topic, "from_seq": U64, "to_seq": U64, "head_seq": U64}
        | {"records": array(ref("Record"))},
        "Tombstone": {**topic, "reason": reasons, **gap},
        "CaughtUp": {**topic, "head_seq": U64},
        "TopicDeleted": {**topic, "head_seq": {"const": 0}, "reason": {"const": "deleted"}},
    }
    made = {f"Event{name}": shape(members) for name, members in events.items()}
    made["EventError"] = shape(told)
    made["EventJob"] = shape({**_JOB, **topic}, optional=("$tag", "meta"))
    ops = {"Record": "record", "Tombstone": "tombstone", "CaughtUp": "caught_up"}
    ops["TopicDeleted"] = "topic_deleted"
    for name, op in ops.items():
        made[f"Message{name}"] = shape({"op": {"const": op}, **events[name]})
    made |= _replies()
    return made


def _replies() -> dict[str, Schema]:
    echo: Schema = {"request_id": {"description": "Whatever the command said; null if nothing."}}
    starts = {"type": "object", "additionalProperties": ref("Start")}
    ack = {"op": {"const": "ack"}, **echo, "topic": NAME, "first_seq": U64, "last_seq": U64}
    ack |= {"seqs": {"anyOf": [array(U64), {"type": "null"}]}, "head_seq": U64, "count": U64}
    ack |= {"created": _BOOL, "deduped": _BOOL, "epoch": U64, "ts": U64}
    ack |= {"performance": _write_cost()}
    error = {"op": {"const": "error"}, **echo, "code": _TEXT, "message": _TEXT}
    return {
        "MessageSubscribed": shape({"op": {"const": "subscribed"}, **echo, "topics": starts}),
        "MessageUnsubscribed": shape(
            {"op": {"const": "unsubscribed"}, **echo, "topics": array(_TEXT)}
        ),
        "MessageAck": shape(ack),
        "MessagePong": shape({"op": {"const": "pong"}, **echo}),
        "MessageError": shape({**error, "detail": {"type": "object"}}, optional=("detail",)),
    }
