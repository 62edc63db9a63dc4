"""PUT /v0/topics/:topic and the config object."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.support import CONFIG, Api, at_once, refused, seqs_of


def test_a_new_topic_has_the_defaults(api: Api, topic: str) -> None:
    reply = api.put(f"/v0/topics/{topic}", {})

    assert reply.status == 201
    answer = reply.json
    assert set(answer) >= {"topic", "created", "config", "epoch", "performance"}
    assert answer["topic"] == topic
    assert answer["created"] is True
    assert answer["config"] == CONFIG
    assert isinstance(answer["epoch"], int)


def test_a_topic_that_a_write_makes_has_the_defaults_too(api: Api, topic: str) -> None:
    api.write(topic, 1)

    assert api.state(topic)["config"] == CONFIG


def test_the_same_again_is_no_creation(api: Api, topic: str) -> None:
    first = api.create(topic, cap_records=5)
    api.write(topic, 1)

    reply = api.put(f"/v0/topics/{topic}", {"cap_records": 5})

    assert reply.status == 200
    assert reply.json["created"] is False
    assert reply.json["config"] == first["config"]
    assert reply.json["epoch"] == first["epoch"]
    assert api.state(topic)["count"] == 1


GIVEN: dict[str, Any] = {
    "type": "queue",
    "ttl_ms": 60_000,
    "cap_records": 10,
    "cap_bytes": 1000,
    "discard": "reject",
    "durable": True,
    "durability": "fsync",
    "priority": -3,
    "auto_priority": False,
    "auto_create": False,
    "idempotency_window_ms": 5,
    "dedupe_node": False,
    "lease_ms": 500,
    "claim_jitter_ms": 20,
    "max_deliveries": 4,
    "dead_letter": "graveyard",
    "leases_durable": True,
}


def test_every_field_is_kept_as_given(api: Api, topic: str) -> None:
    assert api.create(topic, **GIVEN)["config"] == GIVEN
    assert api.state(topic)["config"] == GIVEN


def test_a_changed_config_is_an_update(api: Api, topic: str) -> None:
    api.create(topic, cap_records=5)

    reply = api.put(f"/v0/topics/{topic}", {"cap_records": 6, "priority": 1})

    assert reply.status == 200
    assert reply.json["created"] is False
    assert reply.json["config"] == CONFIG | {"cap_records": 6, "priority": 1}


def test_a_put_replaces_the_whole_config(api: Api, topic: str) -> None:
    api.create(topic, ttl_ms=60_000, cap_records=5, durable=True)

    api.create(topic, cap_records=5)

    assert api.state(topic)["config"] == CONFIG | {"cap_records": 5}


@pytest.mark.parametrize(
    ("given", "durability"),
    [
        ({}, "disk"),
        ({"durable": True}, "fsync"),
        ({"durable": False}, "disk"),
        ({"durability": "ephemeral"}, "ephemeral"),
        ({"durability": "memory"}, "memory"),
        ({"durability": "fsync"}, "fsync"),
        ({"durability": "memory", "durable": True}, "memory"),
        ({"durability": "fsync", "durable": False}, "fsync"),
    ],
)
def test_the_class_is_explicit_or_follows_from_durable(
    api: Api, topic: str, given: dict[str, Any], durability: str
) -> None:
    config = api.create(topic, **given)["config"]

    assert config["durability"] == durability
    assert config["durable"] is (durability == "fsync")


@pytest.mark.parametrize(
    ("field", "given", "kept"),
    [
        ("lease_ms", 1, 100),
        ("lease_ms", 90_000_000, 86_400_000),
        ("lease_ms", 250, 250),
        ("claim_jitter_ms", 6000, 5000),
        ("priority", 5000, 5000),
        ("priority", None, None),
        ("ttl_ms", 2**63, 2**63),
    ],
)
def test_some_values_are_clamped(
    api: Api, topic: str, field: str, given: int | None, kept: int | None
) -> None:
    assert api.create(topic, **{field: given})["config"][field] == kept


@pytest.mark.parametrize(
    "config",
    [
        {"type": "stream"},
        {"ttl_ms": -1},
        {"ttl_ms": "60s"},
        {"ttl_ms": 1.5},
        {"cap_records": -1},
        {"cap_records": [1]},
        {"cap_bytes": True},
        {"discard": "new"},
        {"durability": "tape"},
        {"durable": "yes"},
        {"priority": "high"},
        {"priority": 2**31},
        {"auto_priority": 1},
        {"idempotency_window_ms": -5},
        {"dedupe_node": "no"},
        {"dead_letter": ""},
        {"dead_letter": "not a name"},
        {"dead_letter": 5},
        [],
        "log",
        7,
    ],
    ids=repr,
)
def test_a_wrong_config_is_invalid_and_creates_nothing(api: Api, topic: str, config: Any) -> None:
    refused(api.put(f"/v0/topics/{topic}", config), 400, "invalid_request")

    refused(api.get(f"/v0/topics/{topic}"), 404, "topic_not_found")


def test_a_queue_is_not_its_own_dead_letter(api: Api, topic: str) -> None:
    body = {"type": "queue", "dead_letter": topic}

    refused(api.put(f"/v0/topics/{topic}", body), 400, "invalid_request")
    assert api.put(f"/v0/topics/{topic}", {"dead_letter": topic}).status == 201


@pytest.mark.parametrize(("first", "then"), [("log", "queue"), ("queue", "log")])
def test_the_type_does_not_change(api: Api, topic: str, first: str, then: str) -> None:
    api.create(topic, type=first)

    reply = api.put(f"/v0/topics/{topic}", {"type": then, "cap_records": 5})

    refused(
        reply,
        409,
        "topic_exists_incompatible",
        {"topic": topic, "existing_type": first, "requested_type": then},
    )
    assert api.state(topic)["config"] == CONFIG | {"type": first}


def test_a_wrong_dead_letter_is_found_before_a_wrong_type(api: Api, topic: str) -> None:
    api.create(topic)

    reply = api.put(f"/v0/topics/{topic}", {"type": "queue", "dead_letter": "not a name"})

    refused(reply, 400, "invalid_request")


def test_a_tighter_cap_evicts_at_once(api: Api, topic: str) -> None:
    api.write(topic, *range(5))

    api.create(topic, cap_records=2)

    state = api.state(topic)
    assert (state["count"], state["earliest_seq"], state["head_seq"]) == (2, 4, 5)
    answer = api.diff(topic)
    assert seqs_of(answer) == [4, 5]
    assert answer["tombstone"]["reason"] == "cap"


def test_a_tighter_cap_in_bytes_evicts_at_once(api: Api, topic: str) -> None:
    api.write(topic, *["x" * 98] * 5)

    api.create(topic, cap_bytes=250)

    assert (api.state(topic)["count"], api.state(topic)["bytes"]) == (2, 200)


def test_a_looser_cap_brings_nothing_back(api: Api, topic: str) -> None:
    api.create(topic, cap_records=2)
    api.write(topic, *range(5))

    api.create(topic)

    answer = api.diff(topic)
    assert seqs_of(answer) == [4, 5]
    assert (answer["tombstone"]["gap_from"], answer["tombstone"]["gap_to"]) == (1, 3)


def test_a_race_of_puts_creates_once(api: Api, topic: str) -> None:
    replies = at_once(10, lambda n: api.put(f"/v0/topics/{topic}", {"cap_records": n + 1}))

    assert sorted(reply.status for reply in replies) == [200] * 9 + [201]
    assert len({reply.json["epoch"] for reply in replies}) == 1
    assert 1 <= api.state(topic)["config"]["cap_records"] <= 10
