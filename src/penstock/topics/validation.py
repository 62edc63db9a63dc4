"""Checks of names, seqs, texts and configurations that a caller passes in.

Each check returns the value in its internal form or raises InvalidArgument.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from penstock import limits
from penstock.errors import InvalidArgument
from penstock.topics import idempotency
from penstock.types import QueueRules, TagMatch, TopicConfig

_TOPIC = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,254}", re.ASCII)
_ROUTER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:>-]{0,254}", re.ASCII)
_U64_MAX = (1 << 64) - 1
_I32 = 1 << 31
_JITTER_MS = (0, 5_000)


def is_internal(name: str) -> bool:
    """True for the name of one of the log's own topics, which no caller may name."""
    return name.startswith("_")


def topic_name(name: object, what: str = "topic") -> str:
    """Check the name of a topic and return it."""
    return _named(name, what, _TOPIC, "[A-Za-z0-9][A-Za-z0-9._:-]*")


def router_name(name: object) -> str:
    """Check the name of a router and return it. It may contain `>`."""
    return _named(name, "router", _ROUTER, "[A-Za-z0-9][A-Za-z0-9._:>-]*")


def _named(name: object, what: str, pattern: re.Pattern[str], spelled: str) -> str:
    if not isinstance(name, str) or not pattern.fullmatch(name):
        if isinstance(name, str) and len(name) > limits.TOPIC_NAME_CHARS_MAX:
            name = name[: limits.TOPIC_NAME_CHARS_MAX] + "…"
        raise InvalidArgument(
            f"invalid {what} name {name!r}: expected {spelled} "
            f"with at most {limits.TOPIC_NAME_CHARS_MAX} characters"
        )
    return name


def seq(value: object) -> int:
    """Check a seq and return it."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _U64_MAX:
        raise InvalidArgument(f"invalid seq {value!r}: expected a number from 0 to 2^64-1")
    return value


def check_seqs(values: Sequence[int]) -> None:
    """Check several seqs."""
    if set(map(type, values)) != {int} or not 0 <= min(values) <= max(values) <= _U64_MAX:
        for value in values:
            seq(value)


def time_ms(value: object) -> int:
    """Check a time in milliseconds and return it."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _U64_MAX:
        raise InvalidArgument(
            f"invalid time {value!r}: expected milliseconds since 1970, from 0 to 2^64-1"
        )
    return value


def short_text(what: str, value: object, bytes_max: int) -> bytes:
    """Check a tag, node or key and return it as UTF-8."""
    if not isinstance(value, str):
        raise InvalidArgument(f"invalid {what}: expected text, not {type(value).__name__}")
    try:
        encoded = value.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"invalid {what}: not valid Unicode: {error.reason}") from None
    if not encoded:
        raise InvalidArgument(f"{what} must not be empty")
    if len(encoded) > bytes_max:
        raise InvalidArgument(f"{what} has {len(encoded)} bytes: expected at most {bytes_max}")
    return encoded


def key_text(value: object) -> bytes:
    """Check an idempotency key. Keys that begin with a zero byte are reserved for senders."""
    key = short_text("idempotency key", value, limits.KEY_BYTES_MAX)
    if key.startswith(idempotency.MARK):
        raise InvalidArgument(
            "an idempotency key must not begin with a zero byte: such keys are reserved"
        )
    return key


def tag_match(pattern: object) -> TagMatch:
    """`"a"` matches the tag, `"a*"` the prefix; or a tuple ("tag", "Eq"|"Glob", value)."""
    if isinstance(pattern, str):
        value = pattern
        is_prefix = value.endswith("*")
    else:
        value, is_prefix = _tuple_match(pattern)
    if is_prefix and value == "*":
        return TagMatch(b"", True)
    text = value[:-1] if is_prefix else value
    return TagMatch(short_text("tag", text, limits.TAG_BYTES_MAX), is_prefix)


def _tuple_match(pattern: object) -> tuple[str, bool]:
    if not (
        isinstance(pattern, (tuple, list))
        and len(pattern) == 3
        and all(isinstance(part, str) for part in pattern)
        and pattern[0] == "tag"
        and pattern[1] in ("Eq", "Glob")
    ):
        raise InvalidArgument('invalid tag match: expected text or ("tag", "Eq" | "Glob", value)')
    value = str(pattern[2])
    if pattern[1] == "Glob":
        if not value.endswith("*"):
            raise InvalidArgument(f"invalid Glob {value!r}: expected a text that ends in '*'")
        return value, True
    return value, False


def topic_config(given: dict[str, Any], *, topic: str, default_durability: str) -> TopicConfig:
    """Check the given settings and fill in defaults."""
    unknown = sorted(set(given) - set(TopicConfig.__struct_fields__))
    if unknown:
        known = ", ".join(TopicConfig.__struct_fields__)
        raise InvalidArgument(f"unknown topic setting {unknown[0]!r}: expected one of {known}")
    fields = dict(given)
    if fields.get("durability") is None:
        durable = fields.get("durable")
        fields["durability"] = default_durability
        if durable is not None:
            fields["durability"] = "fsync" if durable else "disk"
    try:
        config = msgspec.convert(fields, TopicConfig)
    except msgspec.ValidationError as error:
        raise InvalidArgument(f"topic {topic!r}: {error}") from None
    for name in ("ttl_ms", "cap_records", "cap_bytes", "idempotency_window_ms", "max_deliveries"):
        if not 0 <= getattr(config, name) <= _U64_MAX:
            raise InvalidArgument(
                f"topic {topic!r}: {name} is {getattr(config, name)}: expected 0 to 2^64-1"
            )
    if config.priority is not None and not -_I32 <= config.priority < _I32:
        raise InvalidArgument(
            f"topic {topic!r}: priority is {config.priority}: expected {-_I32} to {_I32 - 1}"
        )
    if config.dead_letter is not None:
        topic_name(config.dead_letter)
        if config.type == "queue" and config.dead_letter == topic:
            raise InvalidArgument(
                f"queue {topic!r}: dead_letter names the queue itself: expected another topic"
            )
    if isinstance(config.queue, QueueRules):
        _check_rules(config, topic)
    return msgspec.structs.replace(
        config,
        durable=config.durability == "fsync",
        lease_ms=_clamp(config.lease_ms, limits.LEASE_MS),
        claim_jitter_ms=_clamp(config.claim_jitter_ms, _JITTER_MS),
    )


def _check_rules(config: TopicConfig, topic: str) -> None:
    rules = config.rules
    if config.type != "queue":
        raise InvalidArgument(f"topic {topic!r} has type log: `queue` needs type queue")
    for name in ("retry_base_ms", "retry_cap_ms"):
        most = limits.NACK_DELAY_MS[1]
        if not 0 <= getattr(rules, name) <= most:
            raise InvalidArgument(
                f"queue {topic!r}: {name} is {getattr(rules, name)}: expected 0 to {most}"
            )
    if not 0 <= rules.retry_jitter <= 1:
        raise InvalidArgument(
            f"queue {topic!r}: retry_jitter is {rules.retry_jitter}: expected 0 to 1"
        )


def _clamp(value: int, bounds: tuple[int, int]) -> int:
    return max(bounds[0], min(bounds[1], value))
