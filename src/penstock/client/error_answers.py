"""Maps the server's error answers to the exceptions of this package."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from penstock import errors
from penstock.client.attempt_failed import Failure
from penstock.client.http import HttpResponse
from penstock.wire.json_records import BAD_JSON

_RETRY_AFTER_S_MAX = 3600.0
# Errors that the server sends before it has changed anything, for every verb. `throttled` is none:
# the server also sends it for an append that waits for the disk and may still be written.
_UNCHANGED = {"not_ready", "shutting_down"}


class _Fault(msgspec.Struct):
    code: str = ""
    message: str = ""
    detail: Any = None


class _Body(msgspec.Struct):
    error: _Fault


_decode = msgspec.json.Decoder(_Body).decode
_Detail = dict[str, Any]


def _number(detail: _Detail, name: str) -> int:
    value = detail.get(name)
    return value if isinstance(value, int) else 0


def _text(detail: _Detail, name: str) -> str | None:
    value = detail.get(name)
    return value if isinstance(value, str) else None


def _topic_full(message: str, detail: _Detail) -> errors.PenstockError:
    names = ("cap_records", "cap_bytes", "head_seq", "earliest_seq")
    return errors.TopicFull(
        str(detail.get("topic", "")), **{name: _number(detail, name) for name in names}
    )


def _topic_not_found(message: str, detail: _Detail) -> errors.PenstockError:
    topic = detail.get("topic")
    return errors.TopicNotFound(topic) if isinstance(topic, str) else errors.UsageError(message)


def _position_not_found(message: str, detail: _Detail) -> errors.PenstockError:
    return errors.PositionNotFound(str(detail.get("topic", "")), str(detail.get("name", "")))


def _delayed_not_found(message: str, detail: _Detail) -> errors.PenstockError:
    return errors.DelayedNotFound(str(detail.get("topic", "")), _number(detail, "delayed_id"))


def _already_delivered(message: str, detail: _Detail) -> errors.PenstockError:
    return errors.AlreadyDelivered(str(detail.get("topic", "")), _number(detail, "delayed_id"))


def _router_not_found(message: str, detail: _Detail) -> errors.PenstockError:
    return errors.RouterNotFound(str(detail.get("router", "")))


def _table_not_found(message: str, detail: _Detail) -> errors.PenstockError:
    return errors.TableNotFound(str(detail.get("table", "")), message.partition("; ")[2])


def _invalid(message: str, detail: _Detail) -> errors.PenstockError:
    path, reason = detail.get("path"), detail.get("reason")
    if isinstance(path, str) and isinstance(reason, str):
        why = message.removeprefix(f"{path}: ")
        return errors.InvalidDefinition(why, path=path, reason=reason)
    if "event" in detail or "table" in detail:
        names = {name: _text(detail, name) for name in ("event", "table", "feature", "field")}
        index = _number(detail, "index") if "index" in detail else None
        return errors.SchemaMismatch(message, value=detail.get("value"), index=index, **names)
    return errors.InvalidArgument(message)


def _force_required(message: str, detail: _Detail) -> errors.PenstockError:
    changes = detail.get("changes")
    return errors.ForceRequired(message, changes=changes if isinstance(changes, list) else [])


def _history_gone(message: str, detail: _Detail) -> errors.PenstockError:
    topic, earliest_seq = str(detail.get("topic", "")), _number(detail, "earliest_seq")
    return errors.HistoryGone(message, topic=topic, earliest_seq=earliest_seq)


def _router_cycle(message: str, detail: _Detail) -> errors.PenstockError:
    cycle = detail.get("cycle")
    return errors.RouterCycle([str(one) for one in cycle] if isinstance(cycle, list) else [])


def _topic_exists(message: str, detail: _Detail) -> errors.PenstockError:
    return errors.TopicExists(message, reason=str(detail.get("reason", "")))


def _not_a_queue(message: str, detail: _Detail) -> errors.PenstockError:
    return errors.NotAQueue(str(detail.get("topic", "")))


def _seq_mismatch(message: str, detail: _Detail) -> errors.PenstockError:
    return errors.SeqMismatch(
        str(detail.get("topic", "")),
        expected_seq=_number(detail, "expected_seq"),
        head_seq=_number(detail, "head_seq"),
    )


def _plain(kind: type[errors.UsageError]) -> Callable[[str, _Detail], errors.PenstockError]:
    return lambda message, detail: kind(message)


_BY_CODE: dict[str, Callable[[str, _Detail], errors.PenstockError]] = {
    "invalid_request": _invalid,
    "bad_request": _plain(errors.InvalidArgument),
    "batch_too_large": _plain(errors.BatchTooLarge),
    "payload_too_large": _plain(errors.BatchTooLarge),
    "headers_too_large": _plain(errors.InvalidArgument),
    "record_too_large": _plain(errors.RecordTooLarge),
    "unauthorized": _plain(errors.Unauthorized),
    "forbidden": _plain(errors.Forbidden),
    "misdirected_request": _plain(errors.Forbidden),
    "topic_not_found": _topic_not_found,
    "position_not_found": _position_not_found,
    "delayed_not_found": _delayed_not_found,
    "already_delivered": _already_delivered,
    "router_not_found": _router_not_found,
    "router_cycle": _router_cycle,
    "force_required": _force_required,
    "history_gone": _history_gone,
    "table_not_found": _table_not_found,
    "table_exists": _plain(errors.TableExists),
    "topic_exists_incompatible": _topic_exists,
    "not_a_queue": _not_a_queue,
    "topic_full": _topic_full,
    "seq_mismatch": _seq_mismatch,
}
_BY_STATUS: dict[int, type[errors.UsageError]] = {
    400: errors.InvalidArgument,
    401: errors.Unauthorized,
    403: errors.Forbidden,
    413: errors.BatchTooLarge,
}


def error_of(response: HttpResponse, source: str) -> errors.PenstockError:
    """The exception for an error answer. `source` is the server's address."""
    fault = _fault(response)
    message = fault.message or f"the server answered {response.status}"
    detail = fault.detail if isinstance(fault.detail, dict) else {}
    make = _BY_CODE.get(fault.code)
    if make is not None:
        return make(message, detail)
    if fault.code == "table_failed":
        return errors.ProjectionFailed(source, reason=message)
    if response.status in (408, 429, 503):
        after_ms = round(retry_after_s(response) * 1000)
        if fault.code == "table_not_ready":
            return errors.NotReady(message, retry_after_ms=after_ms or 1000)
        return errors.Overloaded(message, retry_after_ms=after_ms or 1000)
    if fault.code == "storage_failed":
        return errors.LogFailed(source, reason=message)
    if 400 <= response.status < 500:
        return _BY_STATUS.get(response.status, errors.UsageError)(message)
    if 300 <= response.status < 400:
        message = f"it answered {response.status}: the client does not follow redirects"
    return errors.ServerError(source, reason=message, hint="see the server's own log")


def failure_of(response: HttpResponse) -> Failure | None:
    """The kind of failure for a retry; None when a retry would not help."""
    if response.status in (429, 503):
        return Failure.REFUSED if _fault(response).code in _UNCHANGED else Failure.LOST
    if response.status == 408:  # the server did not receive the whole request
        return Failure.REFUSED
    if response.status in (502, 504):  # a proxy got no answer from the server
        return Failure.LOST
    return None


def retry_after_s(response: HttpResponse) -> float:
    """The `Retry-After` header in seconds. A date is ignored: the server sends seconds."""
    text = response.headers.get("retry-after", "")
    return min(float(text), _RETRY_AFTER_S_MAX) if text.isdecimal() else 0.0


def _fault(response: HttpResponse) -> _Fault:
    try:
        return _decode(response.body).error
    except BAD_JSON:
        return _Fault()
