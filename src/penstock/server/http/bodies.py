"""From a request's bytes to declared values: media type, JSON, encoding, the error for each."""

from __future__ import annotations

import contextlib
from typing import Any, ClassVar, TypeVar

import msgspec

from penstock import limits
from penstock.errors import BatchTooLarge
from penstock.server.auth import ApiKey
from penstock.server.errors import ApiError, forbidden, invalid
from penstock.server.http.message import BATCH, JSON, Request
from penstock.types import TopicConfig

T = TypeVar("T")
_CONFIG_FIELDS = msgspec.structs.fields(TopicConfig)


def is_json(request: Request) -> bool:
    """Is this a JSON body? Raises 415 for anything else that is not a batch of ours."""
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
        415, "unsupported_media_type", "send the body as `Content-Type: application/json`"
    )


def decoded(request: Request, decoder: msgspec.json.Decoder[T], *, empty: bytes | None = None) -> T:
    """The body as `decoder` wants it. An absent body is `empty` where one may be absent."""
    body = request.body
    if not body and empty is not None:
        body = empty
    elif _media_type(request) != JSON:
        raise unsupported()
    return parsed(body, decoder)


def parsed(body: bytes | str, decoder: msgspec.json.Decoder[T]) -> T:
    """JSON in UTF-8 of the right shape, or 400. Payloads are kept as texts and never looked
    into again, so they are checked here."""
    try:
        if isinstance(body, bytes) and not body.isascii():
            body.decode()
        return decoder.decode(body)
    except UnicodeDecodeError:
        raise invalid("the body is not valid UTF-8") from None
    except msgspec.DecodeError as error:
        raise invalid(f"the body is not as expected: {error}") from None
    except RecursionError:
        raise invalid("the body is nested too deeply") from None


def config_of(given: dict[str, Any]) -> dict[str, Any]:
    """The known fields of a configuration; null means the default, except where null is one."""
    return {
        field.name: given[field.name]
        for field in _CONFIG_FIELDS
        if field.name in given and (given[field.name] is not None or field.default is None)
    }


def check_names(key: ApiKey, config: dict[str, Any] | None) -> None:
    """A configuration may name another topic: the key must be allowed that name too."""
    name = (config or {}).get("dead_letter")
    if isinstance(name, str) and not key.may_name(name):
        raise forbidden("this key may not use that name", name)


def check_seqs(seqs: list[int]) -> None:
    """Not more of them than one call may name."""
    most = limits.QUEUE_JOBS_MAX
    if len(seqs) > most:
        detail = {"seqs": len(seqs), "max": most}
        message = f"{len(seqs)} seqs in one call, at most {most} are allowed"
        raise ApiError(400, "batch_too_large", message, detail)


class _Tallied(msgspec.Struct, gc=False):
    """A record that is only counted."""

    left: ClassVar[int] = 0

    def __post_init__(self) -> None:
        _Tallied.left -= 1
        if _Tallied.left < 0:
            raise BatchTooLarge(
                f"too many records in one append, at most {limits.BATCH_RECORDS_MAX} are allowed"
            )


class _Tally(msgspec.Struct):
    """Whatever holds records, seen as nothing but their number."""

    records: list[_Tallied] = []
    writes: list[_Tally] = []


_TALLY = msgspec.json.Decoder(_Tally)
_RECORD_BYTES_MIN = len(b'{"data":1},')


def check_count(body: bytes, most: int) -> None:
    """Refuse too many records before they are made: of small ones a body can hold millions, each
    many times as large in memory. Only bodies that may be such are looked at. Event loop only."""
    if len(body) <= most * _RECORD_BYTES_MIN or body.count(b"{") <= most:
        return
    _Tallied.left = most
    with contextlib.suppress(msgspec.DecodeError, RecursionError):  # the real reader will say
        _TALLY.decode(body)
