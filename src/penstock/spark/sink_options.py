"""What a writer was told by `.option(...)`. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Final

import msgspec

from penstock.client import address
from penstock.errors import InvalidArgument
from penstock.topics import names

_SPELLED: Final = ("url", "token", "topic", "writeId", "timeoutMs", "tlsCa", "rowOrder", "verify")
# Given by Spark itself, or meant for it.
_OF_SPARK: Final = {"checkpointlocation", "queryname", "outputmode", "path"}
_ID: Final = re.compile(r"[A-Za-z0-9_.:/-]{1,200}", re.ASCII)
_TIMEOUT_MS: Final = 60_000
_TIMEOUT_MS_MAX: Final = 86_400_000


class SinkOptions(msgspec.Struct, frozen=True):
    """Where rows go."""

    url: str
    token: str = ""
    topic: str = ""  # empty: a column says it
    write_id: str = ""  # empty: a new one for each write
    timeout_ms: int = _TIMEOUT_MS  # that a task waits for a server that does not answer
    tls_ca: str = ""
    keeps_order: bool = True  # else each partition's rows are sorted, and so the same each time
    is_proved: bool = True  # else an epoch that comes again is known by its number alone

    def __repr__(self) -> str:
        """Without its secret."""
        return f"SinkOptions({self.url!r}, topic={self.topic!r})"


def sink_options(given: Mapping[str, str]) -> SinkOptions:
    """The options of a writer, or InvalidArgument that says which is wrong."""
    told: dict[str, str] = {}
    lowered = {name.lower(): name for name in _SPELLED}
    for key, text in given.items():
        name = lowered.get(key.lower())
        if name is not None:
            told[name] = text
        elif key.lower() not in _OF_SPARK:
            near = difflib.get_close_matches(key.lower(), list(lowered), 1, 0.6)
            hint = f": did you mean {lowered[near[0]]}?" if near else ""
            raise InvalidArgument(f"unknown option {key!r} for writing format penstock{hint}")
    if not told.get("url"):
        raise InvalidArgument("option url is needed: the server to write to, http://host:port")
    address.parse(told["url"])
    topic = told.get("topic", "")
    if topic:
        names.topic_name(topic)
    write_id = told.get("writeId", "")
    if write_id and not _ID.fullmatch(write_id):
        raise InvalidArgument("option writeId is 1 to 200 letters, digits and _.:/-")
    return SinkOptions(
        told["url"],
        told.get("token", ""),
        topic,
        write_id,
        _timeout(told.get("timeoutMs", str(_TIMEOUT_MS))),
        told.get("tlsCa", ""),
        _choice("rowOrder", told.get("rowOrder", "given"), "given", "any"),
        _choice("verify", told.get("verify", "true"), "true", "false"),
    )


def _choice(name: str, text: str, yes: str, no: str) -> bool:
    if text.lower() not in (yes, no):
        raise InvalidArgument(f"option {name} must be {yes} or {no}, not {text!r}")
    return text.lower() == yes


def _timeout(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= _TIMEOUT_MS_MAX:
        raise InvalidArgument(
            f"option timeoutMs is a number from 1 to {_TIMEOUT_MS_MAX}, not {text!r}"
        )
    return int(text)
