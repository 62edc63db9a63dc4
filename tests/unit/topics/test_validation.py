from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from penstock.errors import InvalidArgument
from penstock.topics.validation import seq, short_text, tag_match, time_ms, topic_config, topic_name
from penstock.types import TagMatch, TopicConfig

# The whole object as the HTTP API promises it.
DEFAULTS = {
    "type": "log",
    "ttl_ms": 0,
    "cap_records": 0,
    "cap_bytes": 0,
    "discard": "old",
    "durable": False,
    "durability": "disk",
    "priority": None,
    "auto_priority": True,
    "auto_create": True,
    "idempotency_window_ms": 120_000,
    "dedupe_node": True,
    "lease_ms": 30_000,
    "claim_jitter_ms": 0,
    "max_deliveries": 0,
    "dead_letter": None,
    "leases_durable": False,
}


def config(**given: Any) -> TopicConfig:
    return topic_config(given, topic="t", default_durability="disk")


# Names.


@pytest.mark.parametrize("name", ["a", "9", "A.b_c:d-e", "x" * 255])
def test_a_good_name_is_itself(name: str) -> None:
    assert topic_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        *("", "x" * 256, ".a", "-a", "_a", ":a", "a b", "a/b", "a>b", "a\n", "a\0", "é", "a\u0660"),
        *(None, 7, b"a", ["a"]),
    ],
)
def test_a_bad_name_is_refused(name: object) -> None:
    with pytest.raises(InvalidArgument, match="topic name"):
        topic_name(name)


def test_a_bad_name_says_what_it_was_to_be_the_name_of() -> None:
    with pytest.raises(InvalidArgument, match="position name"):
        topic_name("a b", "position")


# Numbers.


@pytest.mark.parametrize("check", [seq, time_ms])
def test_a_number_of_64_bits_is_itself_and_nothing_else_is(check: Callable[[object], int]) -> None:
    assert [check(0), check((1 << 64) - 1)] == [0, (1 << 64) - 1]
    for value in (-1, 1 << 64, True, 1.0, "1", None):
        with pytest.raises(InvalidArgument, match="2\\^64-1"):
            check(value)


# Tags, nodes and keys.


@pytest.mark.parametrize("value", ["a", "é", "x" * 8, "é" * 4])
def test_short_text_is_counted_in_bytes(value: str) -> None:
    assert short_text("tag", value, 8) == value.encode()


@pytest.mark.parametrize("value", ["", "x" * 9, "é" * 5, "\ud800", None, 5, b"a"])
def test_bad_text_is_refused_and_says_what_it_was_for(value: object) -> None:
    with pytest.raises(InvalidArgument, match="tag"):
        short_text("tag", value, 8)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("a", TagMatch(b"a", False)),
        ("a*", TagMatch(b"a", True)),
        ("a*b", TagMatch(b"a*b", False)),
        ("a**", TagMatch(b"a*", True)),
        ("*", TagMatch(b"", True)),
        (("tag", "Eq", "a*"), TagMatch(b"a*", False)),
        (("tag", "Eq", "*"), TagMatch(b"*", False)),
        (("tag", "Glob", "a*"), TagMatch(b"a", True)),
        (["tag", "Glob", "*"], TagMatch(b"", True)),
    ],
)
def test_a_trailing_star_is_a_prefix_unless_told_otherwise(
    pattern: object, found: TagMatch
) -> None:
    assert tag_match(pattern) == found


@pytest.mark.parametrize(
    "pattern",
    [
        *("", "x" * 257, None, 5, (), {"tag": "a"}),
        *(("tag", "Eq"), ("node", "Eq", "a"), ("tag", "Regex", "a"), ("tag", "Eq", 5)),
        *(("tag", "Eq", ""), ("tag", "Glob", "a")),
    ],
)
def test_a_bad_match_is_refused(pattern: object) -> None:
    with pytest.raises(InvalidArgument):
        tag_match(pattern)


# Configuration.


def test_the_default_configuration_is_the_whole_documented_object() -> None:
    assert msgspec.to_builtins(config()) == DEFAULTS


@pytest.mark.parametrize(
    ("given", "durability", "durable"),
    [
        ({}, "memory", False),
        ({"durable": True}, "fsync", True),
        ({"durable": False}, "disk", False),
        ({"durability": "fsync"}, "fsync", True),
        ({"durability": "ephemeral"}, "ephemeral", False),
        ({"durability": "memory", "durable": True}, "memory", False),
        ({"durability": None, "durable": True}, "fsync", True),
    ],
)
def test_durable_is_an_alias_that_an_explicit_class_overrides(
    given: dict[str, Any], durability: str, durable: bool
) -> None:
    found = topic_config(given, topic="t", default_durability="memory")

    assert (found.durability, found.durable) == (durability, durable)


@pytest.mark.parametrize(
    ("given", "field", "kept"),
    [
        ({"lease_ms": 1}, "lease_ms", 100),
        ({"lease_ms": 1 << 62}, "lease_ms", 86_400_000),
        ({"lease_ms": 5000}, "lease_ms", 5000),
        ({"claim_jitter_ms": -1}, "claim_jitter_ms", 0),
        ({"claim_jitter_ms": 99_999}, "claim_jitter_ms", 5000),
    ],
)
def test_leases_and_jitter_are_clamped(given: dict[str, Any], field: str, kept: int) -> None:
    assert getattr(config(**given), field) == kept


@pytest.mark.parametrize(
    "given",
    [
        {"colour": "blue"},
        {"type": "stack"},
        {"discard": "new"},
        {"durability": "paper"},
        {"ttl_ms": -1},
        {"ttl_ms": "5"},
        {"ttl_ms": 1.5},
        {"ttl_ms": True},
        {"cap_records": -1},
        {"cap_bytes": 1 << 64},
        {"idempotency_window_ms": -1},
        {"max_deliveries": -1},
        {"priority": "high"},
        {"dedupe_node": 1},
        {"dead_letter": "not a name"},
        {"dead_letter": ""},
        {"type": "queue", "dead_letter": "t"},
    ],
)
def test_a_bad_configuration_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        config(**given)


def test_an_unknown_setting_is_answered_with_the_known_ones() -> None:
    with pytest.raises(InvalidArgument, match=r"'ttl': expected one of .*ttl_ms"):
        config(ttl=5)


def test_a_log_may_name_itself_as_a_dead_letter_since_it_has_none() -> None:
    assert config(dead_letter="t").dead_letter == "t"
