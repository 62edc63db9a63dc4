"""The catalogue of errors: each code once under a status, with a shape that real errors have."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest

from penstock import errors
from penstock.server.errors import ApiError, api_error, body_of, forbidden, throttled
from penstock.server.openapi_errors import (
    ANYWHERE,
    FAULTS,
    SOCKET_FAULTS,
    STREAM_FAULTS,
    answer,
    answer_name,
    answers,
    schemas,
)

SCHEMAS = schemas()


def complaints(error: ApiError) -> list[str]:
    body = json.loads(body_of(error))
    return [str(one) for one in _validator(f"Error.{error.code}").iter_errors(body)] + [
        str(one) for one in _validator("Error").iter_errors(body)
    ]


def _validator(name: str) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(SCHEMAS[name])


def test_a_code_stands_once_under_a_status() -> None:
    found = [(fault.status, fault.code) for fault in FAULTS]

    assert len(set(found)) == len(found)
    assert found == sorted(found, key=lambda pair: pair[0])


@pytest.mark.parametrize("fault", [*FAULTS, *SOCKET_FAULTS, *STREAM_FAULTS], ids=lambda f: f.code)
def test_a_meaning_is_a_sentence(fault: Any) -> None:
    assert fault.meaning[0].isupper() or fault.meaning[0] == "`"
    assert fault.meaning.endswith(".")


@pytest.mark.parametrize(
    "error",
    [
        errors.TopicNotFound("t"),
        errors.TopicFull("t", cap_records=1, cap_bytes=0, head_seq=1, earliest_seq=1),
        errors.SeqMismatch("t", expected_seq=1, head_seq=2),
        errors.InvalidArgument("no"),
        errors.BatchTooLarge("no"),
        errors.RecordTooLarge("no"),
        errors.Overloaded("no", retry_after_ms=5),
        errors.Closed("no"),
        forbidden("no"),
        forbidden("no", "t"),
        throttled("max_topics", 1),
        OSError("something else"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_of_the_server_has_the_shape_of_its_code(error: Exception) -> None:
    found = api_error(error)

    assert (found.status, found.code) in {(fault.status, fault.code) for fault in FAULTS}
    assert not complaints(found)


def test_a_detail_that_is_promised_is_required() -> None:
    assert complaints(ApiError(404, "topic_not_found", "no"))
    assert complaints(ApiError(404, "topic_not_found", "no", {"name": "t"}))


def test_an_error_has_nothing_but_code_message_and_detail() -> None:
    body = {"error": {"code": "internal", "message": "no", "status": 500}}

    assert not _validator("Error").is_valid(body)
    assert not _validator("Error").is_valid({"error": {"code": "internal", "message": ""}})


def test_a_route_can_fail_in_its_own_ways_and_in_those_of_all() -> None:
    found = answers(("topic_not_found", "not_found"))

    assert [fault.code for fault in found[404]] == ["not_found", "topic_not_found"]
    assert set(ANYWHERE) < {fault.code for faults in found.values() for fault in faults}
    assert answer_name(found[404]) == "404.not_found.topic_not_found"


@pytest.mark.parametrize(("status", "has_header"), [(404, False), (429, True), (503, True)])
def test_an_answer_says_when_to_try_again_if_trying_again_helps(
    status: int, has_header: bool
) -> None:
    made = answer(answers(("not_found",))[status])

    assert ("Retry-After" in made.get("headers", {})) == has_header
    assert all(
        f"`{fault.code}`" in made["description"] for fault in answers(("not_found",))[status]
    )
