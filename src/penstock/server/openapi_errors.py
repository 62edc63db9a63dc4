"""Every error code of the API: its status, what it means, what its detail holds.

The catalogue is for readers, of the OpenAPI document and of the pages; the server raises codes
where they belong, and a test sees to it that none is missing here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from penstock.server.openapi_schemas import U64, Schema, ref, shape

_TEXT: Final[Schema] = {"type": "string"}
_TYPE: Final[Schema] = {"enum": ["log", "queue"]}


@dataclass(frozen=True, slots=True)
class Fault:
    """One code under one status."""

    status: int
    code: str
    meaning: str
    detail: Schema = field(default_factory=dict)
    is_detail_sure: bool = False
    is_any_member: bool = False  # not all members of the detail are there at once


def _fault(status: int, code: str, meaning: str, /, **detail: Schema) -> Fault:
    return Fault(status, code, meaning, detail, is_detail_sure=bool(detail))


FAULTS: Final = (
    _fault(400, "bad_request", "The bytes are not a valid HTTP request."),
    _fault(
        400,
        "invalid_request",
        "The request cannot be understood: broken JSON, a field of the wrong type or out of "
        "range, a name that cannot be one, no Host.",
    ),
    Fault(
        400,
        "batch_too_large",
        "More records or jobs in one call than are allowed.",
        {"seqs": U64, "max": U64},
    ),
    _fault(
        400,
        "record_too_large",
        "A record is larger than 1 MiB, or a batch is larger than the whole topic may be.",
    ),
    _fault(401, "unauthorized", "No key, or none that is known."),
    Fault(
        403,
        "forbidden",
        "The key lacks the scope or may not use that name; or a page of another origin called.",
        {"topic": _TEXT},
    ),
    _fault(404, "not_found", "There is nothing at this path, or no such watch session."),
    _fault(404, "topic_not_found", "There is no such topic.", topic=_TEXT),
    _fault(404, "router_not_found", "There is no such router.", router=_TEXT),
    _fault(404, "position_not_found", "The topic has no such position.", topic=_TEXT, name=_TEXT),
    _fault(405, "method_not_allowed", "The path exists, with other methods."),
    _fault(406, "not_acceptable", "This is an event stream, and `Accept` rules that out."),
    _fault(408, "request_timeout", "The request took too long to arrive."),
    _fault(
        409,
        "seq_mismatch",
        "The topic's head is not `expected_seq`. Nothing was written.",
        topic=_TEXT,
        expected_seq=U64,
        head_seq=U64,
    ),
    _fault(
        409,
        "epoch_mismatch",
        "The topic was deleted and made anew since `epoch`.",
        topic=_TEXT,
        expected_epoch={"type": "integer", "minimum": 0},
        epoch=U64,
    ),
    Fault(
        409,
        "topic_exists_incompatible",
        "A topic cannot change its type, nor have a second source, nor a router lead elsewhere; "
        "for the last two `detail.reason` is `router_dest_fan_in` or `router_repoint_forbidden`.",
        {
            "topic": _TEXT,
            "existing_type": _TYPE,
            "requested_type": _TYPE,
            "reason": {"enum": ["router_dest_fan_in", "router_repoint_forbidden"]},
        },
        is_detail_sure=True,
        is_any_member=True,
    ),
    _fault(
        409,
        "router_cycle",
        "Records would come round to where they started; `allow_cycle` permits it.",
        cycle={"type": "array", "items": _TEXT},
    ),
    _fault(
        409,
        "topic_not_empty",
        "`if_empty` was asked for, and there are records.",
        topic=_TEXT,
        count=U64,
    ),
    _fault(409, "not_a_queue", "The topic is a log: it has no jobs.", topic=_TEXT),
    _fault(413, "payload_too_large", "The body is larger than PENSTOCK_MAX_BODY_BYTES."),
    _fault(
        415, "unsupported_media_type", "The content type or content encoding is not a known one."
    ),
    _fault(417, "invalid_request", "`Expect` asks for something other than `100-continue`."),
    _fault(421, "misdirected_request", "The server does not answer to that Host."),
    _fault(
        422,
        "topic_full",
        'The topic is full and was told to refuse (`discard: "reject"`). Nothing was written.',
        topic=_TEXT,
        cap_records=U64,
        cap_bytes=U64,
        head_seq=U64,
        earliest_seq=U64,
    ),
    _fault(426, "upgrade_required", "QWP needs version 13 of the WebSocket protocol."),
    Fault(
        429,
        "throttled",
        "A limit is reached; `Retry-After` says when to try again.",
        {"limit": _TEXT, "max": U64},
    ),
    _fault(431, "headers_too_large", "More than 128 headers, or more than 64 KiB of them."),
    _fault(500, "internal", "A mistake of the server, or stored data is damaged."),
    _fault(501, "not_implemented", "The transfer coding is not a known one."),
    _fault(
        503,
        "not_ready",
        "The log is being recovered; `Retry-After` says when to try again.",
        replay_progress={"type": "number", "minimum": 0, "maximum": 1},
    ),
    _fault(
        503,
        "cold_unavailable",
        "Old records are in the cold tier, which does not answer; `Retry-After` says when to try "
        "again. Newer ones can be read.",
    ),
    _fault(503, "shutting_down", "The server takes no more requests."),
    _fault(507, "storage_failed", "The disk failed; the log is closed for writing."),
)

# What only a WebSocket message carries.
SOCKET_FAULTS: Final = (
    _fault(400, "invalid_json", "The message is no JSON object with a known `op`."),
    _fault(400, "unsupported_message", "The message is binary; messages are JSON texts."),
    _fault(503, "server_shutting_down", "The server stops; the connection closes after this."),
)

# What ends an event stream, besides `server_shutting_down` and `internal`.
STREAM_FAULTS: Final = (_fault(409, "replaced", "The session is streamed on a newer connection."),)

# What any route can answer: it is decided before a handler is asked.
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
    codes = list(dict.fromkeys(fault.code for fault in FAULTS))
    made = {"Error": _body({"enum": codes}, {"type": "object"}, is_sure=False)}
    for fault in FAULTS:
        optional = tuple(fault.detail) if fault.is_any_member else ()
        detail = shape(fault.detail, optional=optional) if fault.detail else {"type": "object"}
        made[_name(fault)] = _body({"const": fault.code}, detail, fault.is_detail_sure)
    return made


def _name(fault: Fault) -> str:
    return f"Error.{fault.code}"


def _body(code: Schema, detail: Schema, is_sure: bool) -> Schema:
    members: Schema = {"code": code, "message": {"type": "string", "minLength": 1}}
    members["detail"] = detail
    error = shape(members, optional=() if is_sure else ("detail",))
    error["additionalProperties"] = False
    return {**shape({"error": error}), "additionalProperties": False}


def answers(codes: tuple[str, ...]) -> dict[int, list[Fault]]:
    """By status, how a route can fail: in these ways and in those common to all."""
    wanted = {*ANYWHERE, *codes}
    by_status: dict[int, list[Fault]] = {}
    for fault in FAULTS:
        if fault.code in wanted:
            by_status.setdefault(fault.status, []).append(fault)
    return by_status


def answer_name(faults: list[Fault]) -> str:
    """The name of such an answer among the components."""
    return ".".join([str(faults[0].status), *(fault.code for fault in faults)])


def answer(faults: list[Fault]) -> Schema:
    """The answer of one status with any of these codes."""
    shapes = [ref(_name(fault)) for fault in faults]
    content = shapes[0] if len(shapes) == 1 else {"anyOf": shapes}
    made: Schema = {
        "description": " ".join(f"`{fault.code}`: {fault.meaning}" for fault in faults),
        "content": {"application/json": {"schema": content}},
    }
    if faults[0].status in (429, 503):
        seconds = {"type": "integer", "minimum": 1}
        made["headers"] = {"Retry-After": {"required": True, "schema": seconds}}
    return made
