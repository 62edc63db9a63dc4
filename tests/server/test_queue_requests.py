"""Refusals of claim, ack, nack and extend, and which check comes first."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.queues import (
    BODIES,
    SETTLING,
    claim,
    counts,
    each_settling,
    each_verb,
    queue,
    settle,
)
from tests.server.support import JSON, Api, refused
from tests.server.wire import Reply


def brief(value: Any) -> str:
    return repr(value)[:60]


def ask(api: Api, topic: str, verb: str, body: Any) -> Reply:
    return api.post(f"/v0/topics/{topic}/{verb}", body)


@each_verb
def test_an_absent_queue_is_not_found_and_not_made(api: Api, topic: str, verb: str) -> None:
    refused(ask(api, topic, verb, BODIES[verb]), 404, "topic_not_found", {"topic": topic})

    refused(api.get(f"/v0/topics/{topic}"), 404, "topic_not_found")
    refused(ask(api, ".bad", verb, BODIES[verb]), 404, "topic_not_found")


@each_verb
def test_a_log_is_not_a_queue(api: Api, topic: str, verb: str) -> None:
    api.write(topic, "record")

    refused(ask(api, topic, verb, BODIES[verb]), 409, "not_a_queue", {"topic": topic})

    assert api.state(topic)["count"] == 1


@each_verb
def test_the_wrong_verb_of_http_is_not_allowed(api: Api, topic: str, verb: str) -> None:
    queue(api, topic)

    for method in ("GET", "PUT", "DELETE"):
        reply = api.call(method, f"/v0/topics/{topic}/{verb}")
        refused(reply, 405, "method_not_allowed")
        assert "POST" in reply.headers["allow"].split(", ")


# Bodies.


@each_verb
def test_a_body_of_another_type_is_refused_before_it_is_read(
    api: Api, topic: str, verb: str
) -> None:
    target = f"/v0/topics/{topic}/{verb}"

    reply = api.post(target, b"not json", {"Content-Type": "text/plain"})

    refused(reply, 415, "unsupported_media_type")
    refused(api.post(target, b"{}"), 415, "unsupported_media_type")


@each_verb
def test_broken_json_is_invalid_before_the_topic_is_looked_for(
    api: Api, topic: str, verb: str
) -> None:
    for body in (b"{", b"[]", b"5", b"null", b'"node"', b"\xff"):
        reply = api.post(f"/v0/topics/{topic}/{verb}", body, JSON)
        refused(reply, 400, "invalid_request")


def test_an_empty_claim_is_invalid_whatever_its_type(api: Api, topic: str) -> None:
    queue(api, topic, 1)

    for headers in ({}, JSON):
        reply = api.post(f"/v0/topics/{topic}/claim", b"", headers)
        refused(reply, 400, "invalid_request")
    refused(api.post(f"/v0/topics/{topic}/claim"), 400, "invalid_request")


@each_settling
def test_an_empty_body_elsewhere_is_judged_by_its_type(api: Api, topic: str, verb: str) -> None:
    queue(api, topic, 1)
    target = f"/v0/topics/{topic}/{verb}"

    refused(api.post(target, b""), 415, "unsupported_media_type")
    refused(api.post(target, b"", JSON), 400, "invalid_request")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"max": 1},
        {"node": None},
        {"node": 5},
        {"node": ["w"]},
        {"node": ""},
        {"node": "x" * 129},
        {"node": "é" * 64 + "x"},
        {"node": "w", "max": -1},
        {"node": "w", "max": "2"},
        {"node": "w", "max": 1.5},
        {"node": "w", "max": [1]},
        {"node": "w", "lease_ms": -1},
        {"node": "w", "lease_ms": "long"},
        {"node": "w", "lease_ms": 1.5},
    ],
    ids=brief,
)
def test_a_claim_of_wrong_types_is_invalid(api: Api, topic: str, body: Any) -> None:
    queue(api, topic, 1)

    refused(ask(api, topic, "claim", body), 400, "invalid_request")

    assert counts(api, topic) == (1, 0)


@each_settling
@pytest.mark.parametrize(
    "change",
    [
        {"node": ...},
        {"node": None},
        {"node": 5},
        {"node": ""},
        {"node": "x" * 129},
        {"seqs": ...},
        {"seqs": None},
        {"seqs": 1},
        {"seqs": {"1": 1}},
        {"seqs": ["1"]},
        {"seqs": [-1]},
        {"seqs": [1.5]},
        {"seqs": [1, None]},
        {"seqs": [1 << 64]},
        {"lease_ids": "lease_1"},
        {"lease_ids": [1]},
        {"lease_ids": [None]},
    ],
    ids=brief,
)
def test_wrong_types_are_invalid_and_leave_the_lease_alone(
    api: Api, topic: str, verb: str, change: dict[str, Any]
) -> None:
    """`...` stands for a field that is left out."""
    queue(api, topic, 1)
    claim(api, topic)
    body = {name: value for name, value in (BODIES[verb] | change).items() if value is not ...}

    refused(ask(api, topic, verb, body), 400, "invalid_request")

    assert counts(api, topic) == (0, 1)


@pytest.mark.parametrize("delay", [-1, "soon", 1.5, [0]], ids=repr)
def test_a_delay_of_the_wrong_type_is_invalid(api: Api, topic: str, delay: Any) -> None:
    queue(api, topic, 1)
    claim(api, topic)

    refused(ask(api, topic, "nack", {**BODIES["nack"], "delay_ms": delay}), 400, "invalid_request")

    assert counts(api, topic) == (0, 1)


@pytest.mark.parametrize("lease", [..., None, -1, "long", 1.5], ids=repr)
def test_an_extension_says_for_how_long(api: Api, topic: str, lease: Any) -> None:
    queue(api, topic, 1)
    [job] = claim(api, topic)["claimed"]
    body = {"node": "w", "seqs": [job["$seq"]]} | ({} if lease is ... else {"lease_ms": lease})

    refused(ask(api, topic, "extend", body), 400, "invalid_request")


# Lease ids.

BAD_TOKENS = [
    "nonsense",
    "1",
    "lease",
    "lease_",
    "lease_g",
    "LEASE_1",
    "lease-1",
    "lease_0x1",
    "lease_1_0",
    "lease_-1",
    "lease_ 1",
    " lease_1",
    "lease_1 ",
    "lease_1\n",
    "lease_é",
    "lease_\u0661",  # a digit one, but no hexadecimal one
]


@each_settling
@pytest.mark.parametrize("token", BAD_TOKENS, ids=repr)
def test_what_is_no_lease_id_is_invalid(api: Api, topic: str, verb: str, token: str) -> None:
    queue(api, topic, 1, 2)
    claim(api, topic, 2)

    body = {**BODIES[verb], "seqs": [1, 2], "lease_ids": ["lease_1", token]}
    refused(ask(api, topic, verb, body), 400, "invalid_request")

    assert counts(api, topic) == (0, 2)


@each_settling
def test_a_lease_id_larger_than_any_is_invalid_or_of_no_lease(
    api: Api, topic: str, verb: str
) -> None:
    queue(api, topic, 1)
    claim(api, topic)

    reply = ask(api, topic, verb, {**BODIES[verb], "lease_ids": ["lease_" + "f" * 40]})

    assert reply.status == 400 or reply.json["skipped"] == [1]
    assert counts(api, topic) == (0, 1)


@each_settling
@pytest.mark.parametrize("tokens", [["lease_1"], ["lease_1"] * 3, [""]], ids=repr)
def test_there_are_as_many_lease_ids_as_seqs(
    api: Api, topic: str, verb: str, tokens: list[str]
) -> None:
    queue(api, topic, 1, 2)
    claim(api, topic, 2)

    body = {**BODIES[verb], "seqs": [1, 2], "lease_ids": tokens}
    refused(ask(api, topic, verb, body), 400, "invalid_request")

    assert counts(api, topic) == (0, 2)


# Limits and order.


@each_settling
def test_a_call_is_about_at_most_a_thousand_jobs(api: Api, topic: str, verb: str) -> None:
    queue(api, topic)
    most = list(range(1, 1001))

    assert settle(api, topic, verb, *most) == 0
    reply = ask(api, topic, verb, {**BODIES[verb], "seqs": [*most, 1001]})

    refused(reply, 400, "batch_too_large", {"seqs": 1001, "max": 1000})


def test_a_claim_is_parsed_then_its_queue_looked_for_then_its_worker(api: Api, topic: str) -> None:
    refused(ask(api, topic, "claim", {"node": 5}), 400, "invalid_request")
    refused(ask(api, topic, "claim", {}), 400, "invalid_request")
    refused(ask(api, topic, "claim", {"node": ""}), 404, "topic_not_found")
    api.create(topic)
    refused(ask(api, topic, "claim", {"node": ""}), 409, "not_a_queue")


@pytest.mark.parametrize("exists", [False, True])
def test_elsewhere_the_whole_body_is_checked_before_the_queue(
    api: Api, topic: str, exists: bool
) -> None:
    if exists:
        api.create(topic)
    for verb in SETTLING:
        for change in ({"node": ""}, {"lease_ids": ["nonsense"]}, {"lease_ids": ["", ""]}):
            refused(ask(api, topic, verb, BODIES[verb] | change), 400, "invalid_request")
        many = BODIES[verb] | {"seqs": [1] * 1001}
        refused(ask(api, topic, verb, many), 400, "batch_too_large")


@each_settling
def test_tokens_then_worker_then_number_then_length_are_checked(
    api: Api, topic: str, verb: str
) -> None:
    queue(api, topic)
    many = BODIES[verb] | {"seqs": [1] * 1001}

    refused(ask(api, topic, verb, {**many, "lease_ids": ["nonsense"]}), 400, "invalid_request")
    refused(ask(api, topic, verb, {**many, "node": ""}), 400, "invalid_request")
    refused(ask(api, topic, verb, {**many, "lease_ids": ["lease_1"]}), 400, "batch_too_large")
