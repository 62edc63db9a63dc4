"""What went wrong, as a status and a body: one table for HTTP and WebSocket."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from typing import Any

import msgspec

from penstock.errors import (
    BatchTooLarge,
    Closed,
    ColdUnavailable,
    InvalidArgument,
    LogFailed,
    NotAQueue,
    Overloaded,
    PenstockError,
    RecordTooLarge,
    RouterCycle,
    RouterNotFound,
    SeqMismatch,
    StorageError,
    TopicExists,
    TopicFull,
    TopicNotFound,
    UsageError,
)
from penstock.server.http.message import Response

_encode = msgspec.json.Encoder().encode


class ApiError(PenstockError):
    """An answer other than 2xx, decided by the server itself."""

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
    detail = None if topic is None else {"topic": TopicNotFound(topic).topic}  # not all of it
    return ApiError(403, "forbidden", message, detail)


def unauthorized(message: str) -> ApiError:
    error = ApiError(401, "unauthorized", message)
    error.headers = ((b"www-authenticate", b"Bearer"),)
    return error


def not_allowed(method: str, possible: Iterable[str]) -> ApiError:
    error = ApiError(405, "method_not_allowed", f"{method} is not possible here")
    error.headers = ((b"allow", ", ".join(sorted(possible)).encode()),)
    return error


def throttled(limit: str, most: int) -> ApiError:
    return ApiError(
        429, "throttled", f"the limit {limit} of {most} is reached", {"limit": limit, "max": most}
    )


_COLD_RETRY_S = 5

# The first class that fits decides, so the narrow ones come first.
_BY_CLASS: tuple[tuple[type[PenstockError], int, str], ...] = (
    (TopicNotFound, 404, "topic_not_found"),
    (RouterNotFound, 404, "router_not_found"),
    (RouterCycle, 409, "router_cycle"),
    (NotAQueue, 409, "not_a_queue"),
    (TopicExists, 409, "topic_exists_incompatible"),
    (RecordTooLarge, 400, "record_too_large"),
    (BatchTooLarge, 400, "batch_too_large"),
    (TopicFull, 422, "topic_full"),
    (SeqMismatch, 409, "seq_mismatch"),
    (InvalidArgument, 400, "invalid_request"),
    (UsageError, 400, "invalid_request"),
    (Overloaded, 429, "throttled"),
    (LogFailed, 507, "storage_failed"),
    (ColdUnavailable, 503, "cold_unavailable"),
    (StorageError, 500, "internal"),
    (Closed, 503, "shutting_down"),
)


def api_error(error: BaseException) -> ApiError:
    """The answer for anything a handler raised. What is no error of ours is `internal`."""
    if isinstance(error, ApiError):
        return error
    for kind, status, code in _BY_CLASS:
        if isinstance(error, kind):
            return _known(error, status, code)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ApiError(507, "storage_failed", "the disk is full")
    return ApiError(500, "internal", "something went wrong; the server's log says what")


def _known(error: PenstockError, status: int, code: str) -> ApiError:
    match error:
        case TopicNotFound() | NotAQueue():
            return ApiError(status, code, str(error), {"topic": error.topic})
        case RouterNotFound():
            return ApiError(status, code, str(error), {"router": error.router})
        case RouterCycle():
            return ApiError(status, code, str(error), {"cycle": error.cycle})
        case TopicExists() if error.reason:
            return ApiError(status, code, str(error), {"reason": error.reason})
        case SeqMismatch():
            detail = {
                "topic": error.topic,
                "expected_seq": error.expected_seq,
                "head_seq": error.head_seq,
            }
            return ApiError(status, code, str(error), detail)
        case TopicFull():
            detail = {
                "topic": error.topic,
                "cap_records": error.cap_records,
                "cap_bytes": error.cap_bytes,
                "head_seq": error.head_seq,
                "earliest_seq": error.earliest_seq,
            }
            return ApiError(status, code, str(error), detail)
        case ColdUnavailable():
            why = "old records are in the cold tier, which does not answer"
            found = ApiError(status, code, f"{why}; the server's log says more")
            found.retry_after_s = _COLD_RETRY_S
            return found
        case StorageError():
            # Paths of the server are nobody's business; the operator has its log.
            message = "the log cannot be written to" if status == 507 else "stored data is damaged"
            return ApiError(status, code, f"{message}; the server's log says where and why")
        case Overloaded():
            if error.limit is not None:
                return throttled(*error.limit)
            found = ApiError(status, code, str(error))
            found.retry_after_s = max(1, error.retry_after_ms // 1000)
            return found
        case _:
            return ApiError(status, code, str(error))


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
