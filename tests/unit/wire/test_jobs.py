"""A job as the HTTP API spells it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from penstock.types import Job
from penstock.wire.jobs import JobView, event_of, view_of

JOB = Job(7, "lease_a", 1_760_000_030_000, 1_760_000_000_000, 1, {"p": 1}, "t", {"m": 1})


def spelled(view: JobView) -> Any:
    return json.loads(msgspec.json.encode(view))


def test_a_job_is_spelled_with_signs_where_records_are() -> None:
    assert spelled(view_of(JOB)) == {
        "$seq": 7,
        "lease_id": "lease_a",
        "deadline": 1_760_000_030_000,
        "$ts": 1_760_000_000_000,
        "deliveries": 1,
        "data": {"p": 1},
        "$tag": "t",
        "meta": {"m": 1},
    }


def test_what_a_job_has_not_is_not_said_but_for_its_data() -> None:
    assert spelled(view_of(Job(7, "lease_a", 2, 1, 1))) == {
        "$seq": 7,
        "lease_id": "lease_a",
        "deadline": 2,
        "$ts": 1,
        "deliveries": 1,
        "data": None,
    }


def test_an_event_names_the_queue_too() -> None:
    assert spelled(event_of(JOB, "q")) == {**spelled(view_of(JOB)), "topic": "q"}


def test_payloads_stay_the_texts_they_were_sent_as() -> None:
    job = msgspec.structs.replace(JOB, data=msgspec.Raw(b"[1.50 ]"), meta=msgspec.Raw(b'{"k":1e2}'))

    text = msgspec.json.encode(view_of(job))

    assert b'"data":[1.50 ]' in text
    assert b'"meta":{"k":1e2}' in text


@pytest.mark.parametrize("data", [None, 0, "", [], {}, False, 1.5, "é"])
@pytest.mark.parametrize("meta", [None, {"m": 1}, "text"])
def test_a_job_comes_back_from_the_wire(data: Any, meta: Any) -> None:
    view = view_of(msgspec.structs.replace(JOB, data=data, meta=meta))

    assert msgspec.json.decode(msgspec.json.encode(view), type=JobView) == view


@pytest.mark.parametrize("missing", ["$seq", "lease_id", "deadline", "$ts", "deliveries", "data"])
def test_a_job_without_its_facts_is_none(missing: str) -> None:
    body = spelled(view_of(JOB))
    del body[missing]

    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(json.dumps(body), type=JobView)
