"""Every error code of the API: its status, its meaning, and the members of its detail.

The OpenAPI document and the pages read this catalogue; the server raises a code where it belongs.
A test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.server.openapi_schemas import Schema, schema_of
from penstock.wire.answers import ErrorDetail


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """One code under one status. `detail` names members of `ErrorDetail`."""

    status: int
    code: str
    meaning: str
    detail: tuple[str, ...] = ()
    has_detail: bool = False  # the detail is always present
    has_all_members: bool = True


def _fault(status: int, code: str, meaning: str, *detail: str) -> ErrorCode:
    return ErrorCode(status, code, meaning, detail, has_detail=bool(detail))


FAULTS: Final = (
    _fault(400, "bad_request", "The bytes are not a valid HTTP request."),
    ErrorCode(
        400,
        "invalid_request",
        "Invalid JSON, a field of the wrong type or out of range, an invalid name, no Host. Of "
        "features, the detail says where and what.",
        ("path", "reason", "event", "table", "feature", "field", "value", "index"),
        has_all_members=False,
    ),
    ErrorCode(400, "batch_too_large", "Too many records or jobs in one call.", ("seqs", "max")),
    _fault(
        400,
        "record_too_large",
        "A record is larger than 1 MiB, or a batch is larger than the topic's `cap_bytes`.",
    ),
    _fault(401, "unauthorized", "No key, or an unknown key."),
    ErrorCode(
        403,
        "forbidden",
        "The key lacks the scope or may not use that name; or a page of another origin called.",
        ("topic",),
    ),
    _fault(404, "not_found", "No such endpoint, or no such watch session."),
    _fault(404, "topic_not_found", "No such topic.", "topic"),
    _fault(404, "router_not_found", "No such router.", "router"),
    _fault(404, "table_not_found", "No such table.", "table"),
    _fault(404, "row_not_found", "The table has no row of this key."),
    _fault(404, "position_not_found", "The topic has no such position.", "topic", "name"),
    _fault(
        404, "delayed_not_found", "The topic never had this delayed batch.", "topic", "delayed_id"
    ),
    _fault(405, "method_not_allowed", "The path exists, with other methods."),
    _fault(406, "not_acceptable", "The answer is an event stream, and `Accept` excludes it."),
    _fault(408, "request_timeout", "The request took too long to arrive."),
    _fault(
        409,
        "seq_mismatch",
        "The topic's head is not `expected_seq`. Nothing was written.",
        "topic",
        "expected_seq",
        "head_seq",
    ),
    _fault(
        409,
        "epoch_mismatch",
        "The topic was deleted and created again since `epoch`.",
        "topic",
        "expected_epoch",
        "epoch",
    ),
    ErrorCode(
        409,
        "topic_exists_incompatible",
        "A topic cannot change its type or have a second router as its source, and a router "
        "cannot change its topics; for the last two `detail.reason` is `router_dest_fan_in` or "
        "`router_repoint_forbidden`.",
        ("topic", "existing_type", "requested_type", "reason"),
        has_detail=True,
        has_all_members=False,
    ),
    _fault(
        409,
        "router_cycle",
        "Records would return to the topic they came from; `allow_cycle` permits it.",
        "cycle",
    ),
    _fault(
        409, "topic_not_empty", "`if_empty` is set, and the topic has records.", "topic", "count"
    ),
    _fault(
        409,
        "already_delivered",
        "The time of the delayed batch has come, or it was cancelled before.",
        "topic",
        "delayed_id",
    ),
    _fault(409, "not_a_queue", "The topic is a log: it has no jobs.", "topic"),
    ErrorCode(
        409,
        "force_required",
        "The definition takes something away that is in use, and `force` is not set.",
        ("changes",),
    ),
    _fault(409, "table_failed", "The table has stopped; its `progress.reason` says why."),
    _fault(409, "table_exists", "A table of this name has another topic or key."),
    _fault(
        410,
        "history_gone",
        "A row of an earlier time needs records that the topic no longer has.",
        "topic",
        "earliest_seq",
    ),
    _fault(413, "payload_too_large", "The body is larger than PENSTOCK_MAX_BODY_BYTES."),
    _fault(415, "unsupported_media_type", "Unknown content type or content encoding."),
    _fault(417, "invalid_request", "`Expect` has a value other than `100-continue`."),
    _fault(421, "misdirected_request", "The server does not answer to that Host."),
    _fault(
        422,
        "topic_full",
        'The topic is full and refuses appends (`discard: "reject"`). Nothing was written.',
        "topic",
        "cap_records",
        "cap_bytes",
        "head_seq",
        "earliest_seq",
    ),
    _fault(426, "upgrade_required", "QWP needs version 13 of the WebSocket protocol."),
    ErrorCode(
        429,
        "throttled",
        "A limit is reached; retry after the seconds in `Retry-After`.",
        ("limit", "max"),
    ),
    _fault(431, "headers_too_large", "More than 128 headers, or more than 64 KiB of them."),
    _fault(500, "internal", "An error of the server, or damaged stored data."),
    _fault(501, "not_implemented", "Unknown transfer coding."),
    _fault(
        503,
        "not_ready",
        "The log is being recovered; retry after the seconds in `Retry-After`.",
        "replay_progress",
    ),
    _fault(
        503,
        "cold_unavailable",
        "The cold tier, which holds the older records, does not answer; retry after the seconds in "
        "`Retry-After`. Newer records can be read.",
    ),
    _fault(
        503,
        "table_not_ready",
        "The table still reads its topic; retry after the seconds in `Retry-After`.",
    ),
    _fault(503, "shutting_down", "The server is shutting down and accepts no requests."),
    _fault(507, "storage_failed", "The disk failed; the log is closed for writing."),
)

# Codes of WebSocket messages only.
SOCKET_FAULTS: Final = (
    _fault(400, "invalid_json", "The message is not a JSON object with a known `op`."),
    _fault(400, "unsupported_message", "The message is binary; commands are JSON texts."),
    _fault(503, "server_shutting_down", "The server shuts down and closes the connection."),
)

# Codes that end an event stream, besides `server_shutting_down` and `internal`.
STREAM_FAULTS: Final = (
    _fault(409, "replaced", "A newer connection streams the session."),
    _fault(
        409,
        "table_reset",
        "The table or its topic was deleted, or the topic was created again: read the rows again.",
    ),
)

# Codes that every route can answer: the server decides them before it calls a handler.
ANYWHERE: Final = (
    "bad_request",
    "invalid_request",
    "unauthorized",
    "forbidden",
    "request_timeout",
    "payload_too_large",
    "unsupported_media_type",
    "misdirected_request",
    "throttled",
    "headers_too_large",
    "internal",
    "not_implemented",
    "not_ready",
    "cold_unavailable",
    "shutting_down",
)


def schemas() -> dict[str, Schema]:
    """`Error`, and one schema for each code."""
    members = schema_of(ErrorDetail)["properties"]
    codes = list(dict.fromkeys(fault.code for fault in FAULTS))
    made = {"Error": _body({"enum": codes}, {"type": "object"}, has_detail=False)}
    for fault in FAULTS:
        detail: Schema = {"type": "object"}
        if fault.detail:
            detail["properties"] = {name: members[name] for name in fault.detail}
            detail["required"] = list(fault.detail) if fault.has_all_members else []
        made[_name(fault)] = _body({"const": fault.code}, detail, has_detail=fault.has_detail)
    return made


def _name(fault: ErrorCode) -> str:
    return f"Error.{fault.code}"


def _body(code: Schema, detail: Schema, *, has_detail: bool) -> Schema:
    message = {"type": "string", "minLength": 1}
    error = {
        "type": "object",
        "required": ["code", "message", *(["detail"] if has_detail else [])],
        "properties": {"code": code, "message": message, "detail": detail},
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "required": ["error"],
        "properties": {"error": error},
        "additionalProperties": False,
    }


def answers(codes: tuple[str, ...]) -> dict[int, list[ErrorCode]]:
    """By status, the errors of a route: these codes and those of every route."""
    wanted = {*ANYWHERE, *codes}
    by_status: dict[int, list[ErrorCode]] = {}
    for fault in FAULTS:
        if fault.code in wanted:
            by_status.setdefault(fault.status, []).append(fault)
    return by_status


def answer_name(faults: list[ErrorCode]) -> str:
    """The name of such an answer among the components."""
    return ".".join([str(faults[0].status), *(fault.code for fault in faults)])


def answer(faults: list[ErrorCode]) -> Schema:
    """The answer of one status with any of these codes."""
    shapes = [{"$ref": f"#/components/schemas/{_name(fault)}"} for fault in faults]
    content = shapes[0] if len(shapes) == 1 else {"anyOf": shapes}
    made: Schema = {
        "description": " ".join(f"`{fault.code}`: {fault.meaning}" for fault in faults),
        "content": {"application/json": {"schema": content}},
    }
    if faults[0].status in (429, 503):
        seconds = {"type": "integer", "minimum": 1}
        made["headers"] = {"Retry-After": {"required": True, "schema": seconds}}
    return made
