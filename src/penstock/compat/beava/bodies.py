"""Bodies of beava's requests, as JSON and as MessagePack. Pure."""

from __future__ import annotations

import contextlib
from typing import Any, Final

import msgspec

from penstock.compat.beava.replies import BeavaError

CELLS_MAX: Final = 10_000  # of a `get_multi`
_EMPTY: Final = msgspec.Raw(b"{}")


class HttpPush(msgspec.Struct):
    """`POST /push`: the name of the event and its data."""

    event: str
    data: msgspec.Raw = _EMPTY


class FramedPush(msgspec.Struct, gc=False):
    """A push over TCP, whose data has another name."""

    event: str
    body: msgspec.Raw


class RegisterBody(msgspec.Struct):
    """A registration. Its nodes are checked when they are translated."""

    nodes: Any
    force: bool = False
    dry_run: bool = False


class GetBody(msgspec.Struct):
    """A read. `key` is checked against the columns of the table."""

    table: str
    key: Any
    features: list[str] | None = None


class BatchRead(msgspec.Struct):
    """One read of a batch, whose key has a second name."""

    table: str
    key: Any = msgspec.UNSET
    entity_id: Any = msgspec.UNSET
    features: list[str] | None = None

    @property
    def read_key(self) -> Any:
        given = self.entity_id if self.key is msgspec.UNSET else self.key
        if given is msgspec.UNSET:
            raise BeavaError(400, "internal_error", reason="missing field `key`")
        return given


class BatchGetBody(msgspec.Struct):
    """Several reads."""

    requests: list[BatchRead]


class MgetBody(msgspec.Struct):
    """One feature of several keys."""

    feature: str
    keys: list[Any]


class GetMultiBody(msgspec.Struct):
    """Several features of several keys."""

    keys: list[Any]
    features: list[str]


json_push: Final = msgspec.json.Decoder(HttpPush).decode
framed_push: Final = msgspec.json.Decoder(FramedPush).decode
packed_push: Final = msgspec.msgpack.Decoder(FramedPush).decode
registration: Final = msgspec.json.Decoder(RegisterBody).decode
objects: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode
_unpacked: Final = msgspec.msgpack.Decoder().decode


def read_of(kind: type[Any], data: bytes, *, is_packed: bool = False) -> Any:
    """The body of a read, or the error that beava has for a wrong one."""
    try:
        if is_packed:
            return msgspec.msgpack.decode(data, type=kind)
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BeavaError(400, "internal_error", reason=str(error)) from None


def get_of(data: bytes) -> GetBody:
    """The body of `POST /get`. Its older form has a code of its own."""
    try:
        body: GetBody = read_of(GetBody, data)
    except BeavaError:
        with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            msgspec.json.decode(data, type=GetMultiBody)
            why = "expected {table, key, features}, and got {keys, features}"
            raise BeavaError(400, "unsupported_request_shape", message=why) from None
        raise
    return body


def event_of_push(payload: bytes, *, is_packed: bool) -> tuple[str, bytes] | None:
    """The name and the JSON of a framed push; None for another payload."""
    try:
        if not is_packed:
            push = framed_push(payload)
            return push.event, bytes(push.body)
        push = packed_push(payload)
        return push.event, msgspec.json.encode(_unpacked(push.body))
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        return None


def has_control_characters(data: bytes) -> bool:
    """True if a text or name in this JSON has one. In a JSON text they are escaped."""
    if b"\\" not in data:
        return False
    try:
        return _has_control(msgspec.json.decode(data))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False  # which is refused for that


def _has_control(value: Any) -> bool:
    if isinstance(value, str):
        return any(one < " " for one in value)
    if isinstance(value, dict):
        return any(_has_control(one) for pair in value.items() for one in pair)
    return isinstance(value, list) and any(map(_has_control, value))
