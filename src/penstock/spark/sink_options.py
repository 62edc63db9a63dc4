"""The options of `df.write` and `df.writeStream`. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Final

import msgspec

from penstock.client import address
from penstock.errors import InvalidArgument
from penstock.topics import validation

_SPELLED: Final = ("url", "token", "topic", "writeId", "timeoutMs", "tlsCa", "rowOrder", "verify")
# Options that Spark adds or uses itself.
_OF_SPARK: Final = {"checkpointlocation", "queryname", "outputmode", "path"}
_ID: Final = re.compile(r"[A-Za-z0-9_.:/-]{1,200}", re.ASCII)
_TIMEOUT_MS: Final = 60_000
_TIMEOUT_MS_MAX: Final = 86_400_000


class SinkOptions(msgspec.Struct, frozen=True):
    """Where rows go."""

    url: str
    token: str = ""
    topic: str = ""  # empty: the column `topic`
    write_id: str = ""  # empty: a new one for each write
    timeout_ms: int = _TIMEOUT_MS  # how long a task waits for an acknowledgement
    tls_ca: str = ""
    keeps_order: bool = (
        True  # false: rows of a partition are sorted, so each run has the same order
    )
    is_proved: bool = True  # false: a repeated epoch is detected by its number alone

    def __repr__(self) -> str:
        """Without the token."""
        return f"SinkOptions({self.url!r}, topic={self.topic!r})"


def sink_options(given: Mapping[str, str]) -> SinkOptions:
    """Parse the options of a writer. InvalidArgument names the wrong one."""
    options: dict[str, str] = {}
    lowered = {name.lower(): name for name in _SPELLED}
    for key, text in given.items():
        name = lowered.get(key.lower())
        if name is not None:
            options[name] = text
        elif key.lower() not in _OF_SPARK:
            near = difflib.get_close_matches(key.lower(), list(lowered), 1, 0.6)
            hint = f": did you mean {lowered[near[0]]}?" if near else ""
            raise InvalidArgument(f"unknown option {key!r} for writing format penstock{hint}")
    if not options.get("url"):
        raise InvalidArgument("option url is missing: the server to write to, http://host:port")
    address.parse(options["url"])
    topic = options.get("topic", "")
    if topic:
        validation.topic_name(topic)
    write_id = options.get("writeId", "")
    if write_id and not _ID.fullmatch(write_id):
        raise InvalidArgument("option writeId must be 1 to 200 letters, digits and _.:/-")
    return SinkOptions(
        options["url"],
        options.get("token", ""),
        topic,
        write_id,
        _timeout(options.get("timeoutMs", str(_TIMEOUT_MS))),
        options.get("tlsCa", ""),
        _choice("rowOrder", options.get("rowOrder", "given"), "given", "any"),
        _choice("verify", options.get("verify", "true"), "true", "false"),
    )


def _choice(name: str, text: str, yes: str, no: str) -> bool:
    if text.lower() not in (yes, no):
        raise InvalidArgument(f"option {name} must be {yes} or {no}, not {text!r}")
    return text.lower() == yes


def _timeout(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= _TIMEOUT_MS_MAX:
        raise InvalidArgument(
            f"option timeoutMs must be a number from 1 to {_TIMEOUT_MS_MAX}, not {text!r}"
        )
    return int(text)
