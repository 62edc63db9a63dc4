"""Exceptions to error answers, status and body: one table for HTTP and WebSocket."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from typing import Any

import msgspec

from penstock.errors import (
    AlreadyDelivered,
    BatchTooLarge,
    Closed,
    ColdUnavailable,
    DelayedNotFound,
    ForceRequired,
    HistoryGone,
    InvalidArgument,
    InvalidDefinition,
    LogFailed,
    NotAQueue,
    NotReady,
    Overloaded,
    PenstockError,
    ProjectionFailed,
    RecordTooLarge,
    RouterCycle,
    RouterNotFound,
    SchemaMismatch,
    SeqMismatch,
    StorageError,
    TableExists,
    TableNotFound,
    TopicExists,
    TopicFull,
    TopicNotFound,
    UsageError,
)
from penstock.server.http.message import Response

_encode = msgspec.json.Encoder().encode


class ApiError(PenstockError):
    """An error answer that the server itself decides on."""

    def __init__(
        self, status: int, code: str, message: str, detail: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.detail = detail
        self.retry_after_s = 1 if status in (429, 503) else 0
        self.headers: tuple[tuple[bytes, bytes], ...] = ()


def invalid(message: str) -> ApiError:
    return ApiError(400, "invalid_request", message)


def forbidden(message: str, topic: str | None = None) -> ApiError:
    detail = None if topic is None else {"topic": TopicNotFound(topic).topic}  # shortened
    return ApiError(403, "forbidden", message, detail)


def name_forbidden(name: str) -> ApiError:
    return forbidden("the key may not use this name: none of its prefixes matches", name)


def admin_needed(topic: str) -> ApiError:
    return forbidden("creating a topic with a configuration needs the scope admin", topic)


def unauthorized(message: str) -> ApiError:
    error = ApiError(401, "unauthorized", message)
    error.headers = ((b"www-authenticate", b"Bearer"),)
    return error


def not_allowed(method: str, possible: Iterable[str]) -> ApiError:
    allowed = ", ".join(sorted(possible))
    error = ApiError(
        405, "method_not_allowed", f"method {method} is not allowed here: expected {allowed}"
    )
    error.headers = ((b"allow", allowed.encode()),)
    return error


def not_acceptable(accept: bytes) -> ApiError:
    given = accept[:80].decode("latin-1")
    return ApiError(
        406,
        "not_acceptable",
        f"the answer is an event stream, and Accept is {given!r}: expected text/event-stream",
    )


def throttled(limit: str, most: int) -> ApiError:
    return ApiError(
        429,
        "throttled",
        f"limit {limit} reached: at most {most}; retry later",
        {"limit": limit, "max": most},
    )


_COLD_RETRY_S = 5

# Class, status, code, and the attributes that become the detail. The first class that fits decides,
# so subclasses come before their bases.
_BY_CLASS: tuple[tuple[type[PenstockError], int, str, tuple[str, ...]], ...] = (
    (TopicNotFound, 404, "topic_not_found", ("topic",)),
    (ForceRequired, 409, "force_required", ("changes",)),
    (DelayedNotFound, 404, "delayed_not_found", ("topic", "delayed_id")),
    (AlreadyDelivered, 409, "already_delivered", ("topic", "delayed_id")),
    (HistoryGone, 410, "history_gone", ("topic", "earliest_seq")),
    (RouterNotFound, 404, "router_not_found", ("router",)),
    (RouterCycle, 409, "router_cycle", ("cycle",)),
    (TableNotFound, 404, "table_not_found", ("table",)),
    (TableExists, 409, "table_exists", ()),
    (NotAQueue, 409, "not_a_queue", ("topic",)),
    (TopicExists, 409, "topic_exists_incompatible", ("reason",)),
    (RecordTooLarge, 400, "record_too_large", ()),
    (BatchTooLarge, 400, "batch_too_large", ()),
    (
        TopicFull,
        422,
        "topic_full",
        ("topic", "cap_records", "cap_bytes", "head_seq", "earliest_seq"),
    ),
    (SeqMismatch, 409, "seq_mismatch", ("topic", "expected_seq", "head_seq")),
    (InvalidDefinition, 400, "invalid_request", ("path", "reason")),
    (InvalidArgument, 400, "invalid_request", ()),
    (UsageError, 400, "invalid_request", ()),
    (NotReady, 503, "table_not_ready", ()),
    (Overloaded, 429, "throttled", ()),
    (LogFailed, 507, "storage_failed", ()),
    (ColdUnavailable, 503, "cold_unavailable", ()),
    (ProjectionFailed, 409, "table_failed", ()),
    (StorageError, 500, "internal", ()),
    (Closed, 503, "shutting_down", ()),
)

# Messages for callers in place of the error's own, which names files of the server.
_CONCEALED: dict[str, str] = {
    "cold_unavailable": "the cold tier, which holds the older records, does not answer",
    "storage_failed": "the log is closed for writing after a disk error",
    "internal": "stored data is damaged",
    "table_failed": "the table has stopped: GET it for the reason, and rebuild it",
}
_SEE_LOG = "the server's log has the details"


def api_error(error: BaseException) -> ApiError:
    """The answer to an exception of a handler. An exception of another library is `internal`."""
    if isinstance(error, ApiError):
        return error
    for kind, status, code, members in _BY_CLASS:
        if isinstance(error, kind):
            return _known(error, status, code, members)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ApiError(507, "storage_failed", "the disk is full: free space and restart")
    return ApiError(500, "internal", f"internal error: {_SEE_LOG}")


def _known(error: PenstockError, status: int, code: str, members: tuple[str, ...]) -> ApiError:
    if isinstance(error, StorageError):
        found = ApiError(status, code, f"{_CONCEALED[code]}; {_SEE_LOG}")
        if code == "cold_unavailable":
            found.retry_after_s = _COLD_RETRY_S
        return found
    if isinstance(error, Overloaded):
        if error.limit is not None:
            return throttled(*error.limit)
        found = ApiError(status, code, str(error))
        found.retry_after_s = max(1, error.retry_after_ms // 1000)
        return found
    if isinstance(error, SchemaMismatch):
        return ApiError(status, code, str(error), error.detail)
    detail = {name: getattr(error, name) for name in members}
    if detail.get("reason") == "":  # not every error of its class has one
        del detail["reason"]
    return ApiError(status, code, str(error), detail or None)


def body_of(error: ApiError) -> bytes:
    fields: dict[str, Any] = {"code": error.code, "message": error.message or error.code}
    if error.detail is not None:
        fields["detail"] = error.detail
    return _encode({"error": fields})


def response_of(error: BaseException) -> Response:
    found = api_error(error)
    headers = found.headers
    if found.retry_after_s:
        headers += ((b"retry-after", b"%d" % found.retry_after_s),)
    return Response(found.status, body_of(found), headers=headers)
