"""Request bodies to declared models: media type, JSON, encoding, and their errors."""

from __future__ import annotations

import contextlib
from typing import Any, ClassVar, TypeVar

import msgspec

from penstock import limits
from penstock.errors import BatchTooLarge
from penstock.server.auth import ApiKey
from penstock.server.errors import ApiError, invalid, name_forbidden
from penstock.server.http.message import BATCH, JSON, Request
from penstock.types import TopicConfig
from penstock.wire import binary_batch as binary
from penstock.wire.models import BatchBody, WriteBody

T = TypeVar("T")
_CONFIG_FIELDS = msgspec.structs.fields(TopicConfig)


def is_json(request: Request) -> bool:
    """True for a JSON body, false for a binary batch; ApiError 415 for another media type."""
    kind = _media_type(request)
    if kind == JSON:
        return True
    if kind == BATCH:
        return False
    raise unsupported()


def _media_type(request: Request) -> bytes:
    kind = request.headers.get(b"content-type", b"")
    if kind in (JSON, BATCH):
        return kind
    return kind.partition(b";")[0].strip().lower()


def unsupported() -> ApiError:
    return ApiError(
        415, "unsupported_media_type", "unknown Content-Type: expected application/json"
    )


def decoded(request: Request, decoder: msgspec.json.Decoder[T], *, empty: bytes | None = None) -> T:
    """The decoded body. `empty` replaces an absent body where one may be absent."""
    body = request.body
    if not body and empty is not None:
        body = empty
    elif _media_type(request) != JSON:
        raise unsupported()
    return parsed(body, decoder)


def parsed(body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """The decoded JSON, or ApiError 400. Payloads stay texts and are never parsed again, so
    encoding and depth are checked here."""
    depth = 0  # the usual case: nothing in the body is deep
    if len(body) > binary.SHALLOW_BYTES_MAX:
        depth = binary.depth_beyond(body, limits.JSON_DEPTH_MAX)
    if (
        depth > limits.BODY_DEPTH_MAX
    ):  # before parsing: the parser's own limit depends on the interpreter
        raise invalid(
            f"the body nests {depth} levels deep, at most {limits.BODY_DEPTH_MAX} are allowed, "
            f"and {limits.JSON_DEPTH_MAX} in the data and meta of a record"
        )
    try:
        if not body.isascii():
            body.decode()
        found = decoder.decode(body)
    except UnicodeDecodeError:
        raise invalid("the body is not valid UTF-8") from None
    except msgspec.DecodeError as error:
        raise invalid(f"invalid body: {error}") from None
    if depth:
        _check_depths(found)
    return found


def _check_depths(found: object) -> None:
    """Check records alone: the levels of the body around them do not count."""
    if isinstance(found, WriteBody):
        binary.check_depth(binary.texts_of([record.data for record in found.records]))
        binary.check_depth(binary.texts_of([record.meta for record in found.records]), "meta")
    elif isinstance(found, BatchBody):
        for write in found.writes:
            _check_depths(write)


def config_of(given: dict[str, Any]) -> dict[str, Any]:
    """The known fields of a configuration. Null means the default, except where null is a value."""
    return {
        field.name: given[field.name]
        for field in _CONFIG_FIELDS
        if field.name in given and (given[field.name] is not None or field.default is None)
    }


def check_names(key: ApiKey, config: dict[str, Any] | None) -> None:
    """Check that the key may use the topic that the configuration names."""
    name = (config or {}).get("dead_letter")
    if isinstance(name, str) and not key.may_name(name):
        raise name_forbidden(name)


def check_seqs(seqs: list[int]) -> None:
    """Check the number of seqs in one call."""
    most = limits.QUEUE_JOBS_MAX
    if len(seqs) > most:
        detail = {"seqs": len(seqs), "max": most}
        message = f"{len(seqs)} seqs in one call: at most {most} are allowed"
        raise ApiError(400, "batch_too_large", message, detail)


class _Tallied(msgspec.Struct, gc=False):
    """A record, decoded to count it."""

    left: ClassVar[int] = 0

    def __post_init__(self) -> None:
        _Tallied.left -= 1
        if _Tallied.left < 0:
            raise BatchTooLarge(
                f"too many records in one append: at most {limits.BATCH_RECORDS_MAX} are allowed"
            )


class _Tally(msgspec.Struct):
    """A body with records, decoded to count them."""

    records: list[_Tallied] = []
    writes: list[_Tally] = []


_TALLY = msgspec.json.Decoder(_Tally)
_RECORD_BYTES_MIN = len(b'{"data":1},')


def check_count(body: bytes, most: int) -> None:
    """Refuse too many records before they are decoded: a body can hold millions of small records,
    each many times as large in memory. Only large bodies are counted. Event loop only."""
    if len(body) <= most * _RECORD_BYTES_MIN or body.count(b"{") <= most:
        return
    _Tallied.left = most
    with contextlib.suppress(msgspec.DecodeError, RecursionError):  # `parsed` reports it
        _TALLY.decode(body)
