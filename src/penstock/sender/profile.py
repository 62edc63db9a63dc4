"""The connect string: `ws::addr=host:port;key=value;…`, taken apart once and strictly. Pure."""

from __future__ import annotations

import difflib
import ipaddress
import os
import re
from typing import Any, Final, Literal

import msgspec

from penstock.errors import InvalidArgument
from penstock.limits import BATCH_RECORDS_MAX, MIB
from penstock.sender.foreign import ALIASES, REFUSED, why_refused
from penstock.sender.settings import SEGMENT_BYTES, SpoolSettings

Policy = Literal["auto", "drop", "halt", "retry"]
Durability = Literal["memory", "periodic", "append"]
Retry = Literal["off", "sync", "async"]

_PORT: Final = 4000
_NUMBER_MAX: Final = (1 << 31) - 1
_SCHEMA = re.compile(r"(ws|wss)::", re.ASCII)
_SECRETS = ("token", "username", "password")
_KEY = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)
_SIZE = re.compile(r"([0-9]{1,15})([kmgt]?)b?", re.ASCII | re.IGNORECASE)
_ID = re.compile(r"[A-Za-z0-9_-]{1,128}", re.ASCII)
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:\s/]+)(?::([0-9]{1,5}))?", re.ASCII)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_HOST_NAME = re.compile(r"[A-Za-z0-9_.-]{1,254}", re.ASCII)
_FRAME_SLACK: Final = 1024  # header of a segment, of a frame and of its parcel
_FLUSH_BYTES_MAX: Final = MIB  # no frame is much longer


class Host(msgspec.Struct, frozen=True):
    name: str
    port: int

    def __str__(self) -> str:
        return f"{self.name}:{self.port}" if ":" not in self.name else f"[{self.name}]:{self.port}"


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """What a connect string says, with everything it leaves out filled in. Times are seconds."""

    hosts: tuple[Host, ...]
    is_tls: bool = False
    sender_id: str = "default"
    sf_dir: str | None = None
    sf_max_segment_bytes: int = 4 * MIB
    sf_max_total_bytes: int = 0  # 0 until it is known which mode this is
    sf_durability: Durability = "memory"
    sf_sync_interval_millis: int = 5000
    sf_append_deadline_millis: int = 30_000
    drain_orphans: bool = False
    max_background_drainers: int = 4
    reconnect_initial_backoff_millis: int = 100
    reconnect_max_backoff_millis: int = 5000
    reconnect_max_duration_millis: int = 300_000
    initial_connect_retry: Retry = "async"
    connect_timeout: int = 15_000
    auth_timeout_ms: int = 15_000
    close_flush_timeout_millis: int = 5000
    request_durable_ack: bool = False
    durable_ack_keepalive_interval_millis: int = 200
    error_inbox_capacity: int = 256
    max_frame_rejections: int = 4
    poison_min_escalation_window_millis: int = 5000
    on_server_error: Policy = "auto"
    on_schema_error: Policy = "auto"
    on_parse_error: Policy = "auto"
    on_internal_error: Policy = "auto"
    on_security_error: Policy = "auto"
    on_write_error: Policy = "auto"
    username: str | None = None
    password: str | None = None
    token: str | None = None
    tls_verify: bool = True
    tls_ca: str | None = None
    auto_flush: bool = True
    auto_flush_rows: int = 1000
    auto_flush_bytes: int = 512 * 1024
    auto_flush_interval: int = 1000
    qwp_ws_progress: Literal["background"] = "background"

    @property
    def is_disk(self) -> bool:
        return self.sf_dir is not None

    def __repr__(self) -> str:
        """Without its secrets."""
        return f"Profile({', '.join(map(str, self.hosts))}; sender_id={self.sender_id!r})"


def _positive(key: str, text: str) -> int:
    number = _whole(key, text)
    if number <= 0:
        raise InvalidArgument(f"{key} must be more than 0, not {text!r}")
    return number


def _whole(key: str, text: str) -> int:
    if not re.fullmatch(r"-?[0-9]{1,15}", text, re.ASCII):
        raise InvalidArgument(f"{key} must be a whole number, not {text!r}")
    number = int(text)
    if abs(number) > _NUMBER_MAX:  # of milliseconds: more than waits can be told
        raise InvalidArgument(f"{key} must be at most {_NUMBER_MAX}, not {text!r}")
    return number


def _counted(key: str, text: str) -> int:
    number = _whole(key, text)
    if number < 0:
        raise InvalidArgument(f"{key} must not be below 0, not {text!r}")
    return number


def _size(key: str, text: str) -> int:
    found = _SIZE.fullmatch(text)
    if found is None or int(found[1]) == 0:
        raise InvalidArgument(f"{key} must be a size such as 4m or 65536, not {text!r}")
    return int(found[1]) * _UNITS[found[2].lower()]


def _switch(key: str, text: str) -> bool:
    if text in ("on", "true"):
        return True
    if text in ("off", "false"):
        return False
    raise InvalidArgument(f"{key} must be on or off, not {text!r}")


def _strict_switch(key: str, text: str) -> bool:
    if text not in ("on", "off"):
        raise InvalidArgument(f"{key} must be on or off, not {text!r}")
    return text == "on"


def _verify(key: str, text: str) -> bool:
    if text not in ("on", "unsafe_off"):
        raise InvalidArgument(f"{key} must be on or unsafe_off, not {text!r}")
    return text == "on"


def _choice(*words: str) -> Any:
    def chosen(key: str, text: str) -> str:
        if text not in words:
            raise InvalidArgument(f"{key} must be {' or '.join(words)}, not {text!r}")
        return text

    return chosen


def _retry(key: str, text: str) -> str:
    known = {"off": "off", "false": "off", "on": "sync", "true": "sync", "sync": "sync"}
    known["async"] = "async"
    if text not in known:
        raise InvalidArgument(f"{key} must be off, sync or async, not {text!r}")
    return known[text]


def _at_least(least: int) -> Any:
    def bounded(key: str, text: str) -> int:
        number = _whole(key, text)
        if number < least:
            raise InvalidArgument(f"{key} must be at least {least}, not {text!r}")
        return number

    return bounded


def _text(key: str, text: str) -> str:
    if not text:
        raise InvalidArgument(f"{key} must not be empty")
    return text


def _sender_id(key: str, text: str) -> str:
    if not _ID.fullmatch(text):
        raise InvalidArgument(f"{key} must be letters, digits, _ and - (at most 128), not {text!r}")
    return text


def _auto(key: str, text: str) -> int:
    """0 for `off`."""
    return 0 if text == "off" else _positive(key, text)


def _auto_rows(key: str, text: str) -> int:
    number = _auto(key, text)
    if number > BATCH_RECORDS_MAX:
        raise InvalidArgument(
            f"{key} must be at most {BATCH_RECORDS_MAX}, which is all that a frame holds, "
            f"not {text!r}"
        )
    return number


def _auto_size(key: str, text: str) -> int:
    number = 0 if text == "off" else _size(key, text)
    if number > _FLUSH_BYTES_MAX:
        raise InvalidArgument(f"{key} must be at most 1m, where a frame is cut, not {text!r}")
    return number


def _segment(key: str, text: str) -> int:
    number = _size(key, text)
    low, high = SEGMENT_BYTES
    if not low <= number <= high:
        raise InvalidArgument(f"{key} must be from 4k to 1g, not {text!r}")
    return number


def _total(key: str, text: str) -> int:
    number = _size(key, text)
    if number < 2 * SEGMENT_BYTES[0]:
        raise InvalidArgument(f"{key} must be at least 8k, two segments of 4k, not {text!r}")
    return number


def _progress(key: str, text: str) -> str:
    if text != "background":
        raise InvalidArgument(
            f"{key} must be background, not {text!r}: a thread of the sender carries frames"
        )
    return text


_POLICY = _choice("auto", "drop", "halt", "retry")
_READERS: Final[dict[str, Any]] = {
    "sf_dir": _text,
    "sender_id": _sender_id,
    "sf_max_segment_bytes": _segment,
    "sf_max_total_bytes": _total,
    "sf_durability": _choice("memory", "periodic", "append"),
    "sf_sync_interval_millis": _positive,
    "sf_append_deadline_millis": _positive,
    "drain_orphans": _switch,
    "max_background_drainers": _counted,
    "reconnect_initial_backoff_millis": _positive,
    "reconnect_max_backoff_millis": _positive,
    "reconnect_max_duration_millis": _positive,
    "initial_connect_retry": _retry,
    "connect_timeout": _positive,
    "auth_timeout_ms": _positive,
    "close_flush_timeout_millis": _whole,
    "request_durable_ack": _strict_switch,
    "durable_ack_keepalive_interval_millis": _whole,
    "error_inbox_capacity": _at_least(16),
    "max_frame_rejections": _at_least(1),
    "poison_min_escalation_window_millis": _counted,
    "on_server_error": _POLICY,
    "on_schema_error": _POLICY,
    "on_parse_error": _POLICY,
    "on_internal_error": _POLICY,
    "on_security_error": _POLICY,
    "on_write_error": _POLICY,
    "username": _text,
    "password": _text,
    "token": _text,
    "tls_verify": _verify,
    "tls_ca": _text,
    "auto_flush": _strict_switch,
    "auto_flush_rows": _auto_rows,
    "auto_flush_bytes": _auto_size,
    "auto_flush_interval": _auto,
    "qwp_ws_progress": _progress,
}


def parse(text: str) -> Profile:
    """What the connect string says, or InvalidArgument. A secret is never part of the message."""
    if not isinstance(text, str):
        raise InvalidArgument(f"a connect string is text, not {type(text).__name__}")
    schema = _SCHEMA.match(text)
    if schema is None:
        url = " (a URL is for penstock.connect)" if re.match(r"[a-z]+://", text) else ""
        raise InvalidArgument(
            f"a connect string begins with ws:: or wss::, as in ws::addr=host:4000;{url}"
        )
    fields: dict[str, Any] = {"is_tls": schema[1] == "wss"}
    hosts: list[Host] = []
    before = ""
    for key, value in _pairs(text[schema.end() :]):
        if key == "addr":
            hosts += [_host(one) for one in value.split(",")]
            continue
        name = ALIASES.get(key, key)
        reader = _READERS.get(name)
        if reader is None and before in _SECRETS and key not in REFUSED:
            # What looks like a key may be a part of it.
            raise InvalidArgument(f"no key follows {before}: a semicolon in it is written twice")
        if reader is None:
            why = why_refused(key)
            if why is not None:
                raise InvalidArgument(f"{key} is not a key of this sender: {why}")
            raise InvalidArgument(f"unknown key {key!r} in the connect string{_hint(key)}")
        before = name
        if name in fields:
            also = "" if name == key else f", which is {name},"
            raise InvalidArgument(f"{key}{also} stands twice in the connect string")
        fields[name] = reader(key, value)
    if not hosts:
        raise InvalidArgument("the connect string names no addr: where is the server?")
    return _completed(Profile(hosts=tuple(dict.fromkeys(hosts)), **fields), fields)


def _pairs(text: str) -> list[tuple[str, str]]:
    """`k=v;` one after the other; `;;` in a value is one semicolon."""
    pairs: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        key, sign, _ = text[at:].partition("=")
        if not sign or not _KEY.fullmatch(key):
            after = f"after {pairs[-1][0]}" if pairs else "at the beginning"
            why = ", and no spaces around it" if key != key.strip() else ""
            raise InvalidArgument(f"expected key=value; {after} of the connect string{why}")
        at += len(key) + 1
        value = ""
        while at < len(text):
            end = text.find(";", at)
            if end < 0:
                end = len(text)
            value += text[at:end]
            at = end + 1
            if text[at : at + 1] != ";":
                break
            value += ";"
            at += 1
        if any(ord(letter) < 32 or letter == "\x7f" for letter in value):
            raise InvalidArgument(f"{key} has a control character in it")
        pairs.append((key, value))
    return pairs


def _host(text: str) -> Host:
    found = _ADDRESS.fullmatch(text.strip())
    if "@" in text:
        raise InvalidArgument("addr is host:port; credentials have keys of their own")
    if found is None:
        hint = ", and an IPv6 address stands in brackets" if text.count(":") > 1 else ""
        raise InvalidArgument(f"addr {text!r} is not host:port{hint}")
    port = int(found[2]) if found[2] else _PORT
    if not 0 < port < 1 << 16:
        raise InvalidArgument(f"addr {text!r}: a port is from 1 to 65535")
    name = found[1].strip("[]")
    if not (_is_ipv6(name) if found[1][0] == "[" else _is_host_name(name)):
        raise InvalidArgument(
            f"addr {text!r}: {name!r} is no host: labels have from 1 to 63 characters, a name "
            "has 253"
        )
    return Host(name, port)


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _is_host_name(text: str) -> bool:
    """Can it be looked up? What cannot would be tried again for ever."""
    try:
        name = text.encode("idna").decode()
    except UnicodeError:
        return False
    return _HOST_NAME.fullmatch(name) is not None and len(name.removesuffix(".")) <= 253


def _hint(key: str) -> str:
    near = difflib.get_close_matches(key, ["addr", *_READERS, *ALIASES], 1, 0.5)
    return f": did you mean {near[0]}?" if near else ""


def _completed(profile: Profile, given: dict[str, Any]) -> Profile:
    """Keys that depend on each other."""
    if profile.token and (profile.username or profile.password):
        raise InvalidArgument("give token, or username and password, not both")
    if bool(profile.username) != bool(profile.password):
        raise InvalidArgument("username and password belong together")
    if not profile.is_tls and ("tls_verify" in given or "tls_ca" in given):
        raise InvalidArgument("tls_verify, tls_ca and tls_roots are for wss:: alone")
    if profile.sf_durability != "memory" and not profile.is_disk:
        raise InvalidArgument(f"sf_durability={profile.sf_durability} needs sf_dir")
    if "sf_sync_interval_millis" in given and profile.sf_durability != "periodic":
        raise InvalidArgument("sf_sync_interval_millis is for sf_durability=periodic alone")
    if profile.reconnect_max_backoff_millis < profile.reconnect_initial_backoff_millis:
        raise InvalidArgument("reconnect_max_backoff_millis is below the initial one")
    segment, total = _sizes(profile, given)
    flush_bytes_max = segment - _FRAME_SLACK
    if "auto_flush_bytes" in given and profile.auto_flush_bytes > flush_bytes_max:
        raise InvalidArgument(
            f"auto_flush_bytes must be at most {flush_bytes_max}, what a segment of {segment} "
            "bytes has room for"
        )
    return msgspec.structs.replace(
        profile,
        sf_max_segment_bytes=segment,
        sf_max_total_bytes=total,
        auto_flush_bytes=min(profile.auto_flush_bytes, flush_bytes_max),
    )


def _sizes(profile: Profile, given: dict[str, Any]) -> tuple[int, int]:
    """(bytes of a segment, bytes of all). A spool has two segments at least; the size that was
    not given yields."""
    segment, total = profile.sf_max_segment_bytes, profile.sf_max_total_bytes
    if not total:
        return segment, max(2 * segment, (10 << 30) if profile.is_disk else 128 * MIB)
    if "sf_max_segment_bytes" not in given:
        return min(segment, total // 2), total
    if total < 2 * segment:
        raise InvalidArgument(
            f"sf_max_total_bytes must hold two segments: at least {2 * segment} with "
            f"sf_max_segment_bytes of {segment}, not {total}"
        )
    return segment, total


def settings_of(profile: Profile) -> SpoolSettings:
    """How the spool of this sender stores."""
    return SpoolSettings(
        sf_dir=None if profile.sf_dir is None else os.path.abspath(profile.sf_dir),
        sender_id=profile.sender_id,
        segment_bytes=profile.sf_max_segment_bytes,
        total_bytes_max=profile.sf_max_total_bytes,
        durability=profile.sf_durability,
        sync_interval_s=profile.sf_sync_interval_millis / 1000,
    )
