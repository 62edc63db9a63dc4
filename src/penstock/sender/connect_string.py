"""The strict parser of connect strings: `ws::addr=host:port;key=value;…`. Pure."""

from __future__ import annotations

import difflib
import ipaddress
import os
import re
from typing import Any, Final, Literal

import msgspec

from penstock.errors import InvalidArgument
from penstock.limits import BATCH_RECORDS_MAX, MIB
from penstock.sender.foreign_keys import ALIASES, REFUSED, why_refused
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
_FRAME_SLACK: Final = 1024  # headers of a segment, of a frame and of its payload
_FLUSH_BYTES_MAX: Final = MIB  # no frame is much longer


class Endpoint(msgspec.Struct, frozen=True):
    name: str
    port: int

    def __str__(self) -> str:
        return f"{self.name}:{self.port}" if ":" not in self.name else f"[{self.name}]:{self.port}"


class ConnectOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of a connect string, with their defaults."""

    hosts: tuple[Endpoint, ...]
    is_tls: bool = False
    sender_id: str = "default"
    sf_dir: str | None = None
    sf_max_segment_bytes: int = 4 * MIB
    sf_max_total_bytes: int = 0  # 0: not given; the default depends on sf_dir
    sf_durability: Durability = "memory"
    sf_sync_interval_millis: int = 5000
    sf_append_deadline_millis: int = 30_000
    sf_allow_network_fs: bool = False
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
        return f"ConnectOptions({', '.join(map(str, self.hosts))}; sender_id={self.sender_id!r})"


def _positive(key: str, text: str) -> int:
    number = _whole(key, text)
    if number <= 0:
        raise InvalidArgument(f"{key} must be more than 0, not {text!r}")
    return number


def _whole(key: str, text: str) -> int:
    if not re.fullmatch(r"-?[0-9]{1,15}", text, re.ASCII):
        raise InvalidArgument(f"{key} must be a whole number, not {text!r}")
    number = int(text)
    if abs(number) > _NUMBER_MAX:  # milliseconds: waits cannot be longer
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
            f"{key} must be at most {BATCH_RECORDS_MAX}, the maximum of a frame, not {text!r}"
        )
    return number


def _auto_size(key: str, text: str) -> int:
    number = 0 if text == "off" else _size(key, text)
    if number > _FLUSH_BYTES_MAX:
        raise InvalidArgument(f"{key} must be at most 1m, the maximum of a frame, not {text!r}")
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
            f"{key} must be background, not {text!r}: a thread of the sender sends the frames"
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
    "sf_allow_network_fs": _strict_switch,
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


def parse(text: str) -> ConnectOptions:
    """Parse a connect string. Raises InvalidArgument; no message contains a secret."""
    if not isinstance(text, str):
        raise InvalidArgument(f"a connect string must be text, not {type(text).__name__}")
    schema = _SCHEMA.match(text)
    if schema is None:
        url = " (a URL is for penstock.connect)" if re.match(r"[a-z]+://", text) else ""
        raise InvalidArgument(
            f"a connect string begins with ws:: or wss::, as in ws::addr=host:4000;{url}"
        )
    fields: dict[str, Any] = {"is_tls": schema[1] == "wss"}
    hosts: list[Endpoint] = []
    before = ""
    for key, value in _pairs(text[schema.end() :]):
        if key == "addr":
            hosts += [_host(one) for one in value.split(",")]
            continue
        name = ALIASES.get(key, key)
        reader = _READERS.get(name)
        if reader is None and before in _SECRETS and key not in REFUSED:
            # The unknown key may be a part of the secret.
            raise InvalidArgument(f"unknown key after {before}: write a semicolon in a value twice")
        if reader is None:
            why = why_refused(key)
            if why is not None:
                raise InvalidArgument(f"unsupported key {key}: {why}")
            raise InvalidArgument(f"unknown key {key!r} in the connect string{_hint(key)}")
        before = name
        if name in fields:
            also = "" if name == key else f", which is {name},"
            raise InvalidArgument(f"{key}{also} is given twice in the connect string")
        fields[name] = reader(key, value)
    if not hosts:
        raise InvalidArgument(
            "the connect string has no addr: specify the server, as in addr=host:4000"
        )
    return _completed(ConnectOptions(hosts=tuple(dict.fromkeys(hosts)), **fields), fields)


def _pairs(text: str) -> list[tuple[str, str]]:
    """The pairs of `key=value;`. `;;` in a value is one semicolon."""
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
            raise InvalidArgument(f"{key} contains a control character")
        pairs.append((key, value))
    return pairs


def _host(text: str) -> Endpoint:
    found = _ADDRESS.fullmatch(text.strip())
    if "@" in text:
        raise InvalidArgument(
            "addr must be host:port; use token, or username and password, for credentials"
        )
    if found is None:
        hint = "; write an IPv6 address in brackets" if text.count(":") > 1 else ""
        raise InvalidArgument(f"addr {text!r} is not host:port{hint}")
    port = int(found[2]) if found[2] else _PORT
    if not 0 < port < 1 << 16:
        raise InvalidArgument(f"addr {text!r}: the port must be from 1 to 65535")
    name = found[1].strip("[]")
    if not (_is_ipv6(name) if found[1][0] == "[" else _is_host_name(name)):
        raise InvalidArgument(
            f"addr {text!r}: invalid host {name!r}: a label has 1 to 63 characters, a name at "
            "most 253"
        )
    return Endpoint(name, port)


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _is_host_name(text: str) -> bool:
    """False for a name that no resolver accepts: the sender would retry it for ever."""
    try:
        name = text.encode("idna").decode()
    except UnicodeError:
        return False
    return _HOST_NAME.fullmatch(name) is not None and len(name.removesuffix(".")) <= 253


def _hint(key: str) -> str:
    near = difflib.get_close_matches(key, ["addr", *_READERS, *ALIASES], 1, 0.5)
    return f": did you mean {near[0]}?" if near else ""


def _completed(options: ConnectOptions, given: dict[str, Any]) -> ConnectOptions:
    """Keys that depend on each other."""
    if options.token and (options.username or options.password):
        raise InvalidArgument("specify token, or username and password, not both")
    if bool(options.username) != bool(options.password):
        raise InvalidArgument("specify both username and password")
    if not options.is_tls and ("tls_verify" in given or "tls_ca" in given):
        raise InvalidArgument("tls_verify, tls_ca and tls_roots need wss::")
    if options.sf_durability != "memory" and not options.is_disk:
        raise InvalidArgument(f"sf_durability={options.sf_durability} needs sf_dir")
    if "sf_sync_interval_millis" in given and options.sf_durability != "periodic":
        raise InvalidArgument("sf_sync_interval_millis needs sf_durability=periodic")
    if options.reconnect_max_backoff_millis < options.reconnect_initial_backoff_millis:
        raise InvalidArgument(
            "reconnect_max_backoff_millis must not be below reconnect_initial_backoff_millis"
        )
    segment, total = _sizes(options, given)
    flush_bytes_max = segment - _FRAME_SLACK
    if "auto_flush_bytes" in given and options.auto_flush_bytes > flush_bytes_max:
        raise InvalidArgument(
            f"auto_flush_bytes must be at most {flush_bytes_max} with segments of {segment} bytes"
        )
    return msgspec.structs.replace(
        options,
        sf_max_segment_bytes=segment,
        sf_max_total_bytes=total,
        auto_flush_bytes=min(options.auto_flush_bytes, flush_bytes_max),
    )


def _sizes(options: ConnectOptions, given: dict[str, Any]) -> tuple[int, int]:
    """(bytes of a segment, bytes of the spool). A spool has at least two segments: the size that
    was not given is adapted."""
    segment, total = options.sf_max_segment_bytes, options.sf_max_total_bytes
    if not total:
        return segment, max(2 * segment, (10 << 30) if options.is_disk else 128 * MIB)
    if "sf_max_segment_bytes" not in given:
        return min(segment, total // 2), total
    if total < 2 * segment:
        raise InvalidArgument(
            f"sf_max_total_bytes must hold two segments: at least {2 * segment} with "
            f"sf_max_segment_bytes of {segment}, not {total}"
        )
    return segment, total


def settings_of(options: ConnectOptions) -> SpoolSettings:
    """The settings of the sender's spool."""
    return SpoolSettings(
        sf_dir=None if options.sf_dir is None else os.path.abspath(options.sf_dir),
        sender_id=options.sender_id,
        segment_bytes=options.sf_max_segment_bytes,
        total_bytes_max=options.sf_max_total_bytes,
        durability=options.sf_durability,
        sync_interval_s=options.sf_sync_interval_millis / 1000,
        allow_network_fs=options.sf_allow_network_fs,
    )
