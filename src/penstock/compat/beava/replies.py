"""Errors and answers of beava, for HTTP and TCP alike. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

_json: Final = msgspec.json.Encoder(order="sorted").encode
_msgpack: Final = msgspec.msgpack.Encoder(order="sorted").encode


class BeavaError(Exception):
    """A request that is refused. `members` stand beside the code; `version` is that of the
    registry, where the answer has it."""

    def __init__(
        self, status: int, code: str, version: int | None = None, **members: object
    ) -> None:
        super().__init__(code)
        self.status = status
        self.code = code
        self.version = version
        self.members = members

    def body(self) -> dict[str, Any]:
        found: dict[str, Any] = {"error": {"code": self.code, **self.members}}
        if self.version is not None:
            found["registry_version"] = self.version
        return found

    def with_version(self, version: int) -> BeavaError:
        self.version = version
        return self


def json_of(answer: Mapping[str, Any]) -> bytes:
    """With sorted keys, as all answers of beava."""
    return _json(answer)


def msgpack_of(answer: Mapping[str, Any]) -> bytes:
    return _msgpack(answer)


def push_answer(ack_lsn: int, version: int, *, is_replay: bool = False) -> bytes:
    """The answer to one push."""
    replay = b"true" if is_replay else b"false"
    return b'{"ack_lsn":%d,"idempotent_replay":%b,"registry_version":%d}' % (
        ack_lsn,
        replay,
        version,
    )
