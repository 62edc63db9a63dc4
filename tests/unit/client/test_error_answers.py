"""The server's error answers as exceptions of this package."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock import errors
from penstock.client import error_answers
from penstock.client.attempt_failed import Failure
from penstock.client.http import HttpResponse


def response(status: int, code: str = "", detail: Any = None, **headers: str) -> HttpResponse:
    fault = {"code": code, "message": f"it is {code}"}
    if detail is not None:
        fault["detail"] = detail
    return HttpResponse(status, headers, json.dumps({"error": fault}).encode())


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "invalid_request", errors.InvalidArgument),
        (400, "bad_request", errors.InvalidArgument),
        (400, "batch_too_large", errors.BatchTooLarge),
        (400, "record_too_large", errors.RecordTooLarge),
        (401, "unauthorized", errors.Unauthorized),
        (403, "forbidden", errors.Forbidden),
        (404, "not_found", errors.UsageError),
        (405, "method_not_allowed", errors.UsageError),
        (406, "not_acceptable", errors.UsageError),
        (408, "request_timeout", errors.Overloaded),
        (409, "topic_exists_incompatible", errors.TopicExists),
        (409, "topic_not_empty", errors.UsageError),
        (413, "payload_too_large", errors.BatchTooLarge),
        (415, "unsupported_media_type", errors.UsageError),
        (421, "misdirected_request", errors.Forbidden),
        (429, "throttled", errors.Overloaded),
        (431, "headers_too_large", errors.InvalidArgument),
        (500, "internal", errors.ServerError),
        (501, "not_implemented", errors.ServerError),
        (503, "not_ready", errors.Overloaded),
        (503, "cold_unavailable", errors.Overloaded),
        (503, "shutting_down", errors.Overloaded),
        (507, "storage_failed", errors.LogFailed),
        (418, "unheard_of", errors.UsageError),
        (599, "unheard_of", errors.ServerError),
    ],
)
def test_every_code_has_its_class_and_keeps_its_message(
    status: int, code: str, kind: type[Exception]
) -> None:
    found = error_answers.error_of(response(status, code), "http://a")

    assert type(found) is kind
    assert f"it is {code}" in str(found)


def test_errors_carry_their_details() -> None:
    missing = error_answers.error_of(response(404, "topic_not_found", {"topic": "t"}), "s")
    nowhere = error_answers.error_of(
        response(404, "position_not_found", {"topic": "t", "name": "n"}), "s"
    )
    ahead = error_answers.error_of(
        response(409, "seq_mismatch", {"topic": "t", "expected_seq": 3, "head_seq": 5}), "s"
    )
    full = error_answers.error_of(
        response(
            422,
            "topic_full",
            {"topic": "t", "cap_records": 1, "cap_bytes": 2, "head_seq": 3, "earliest_seq": 4},
        ),
        "s",
    )

    assert isinstance(missing, errors.TopicNotFound)
    assert missing.topic == "t"
    assert isinstance(nowhere, errors.PositionNotFound)
    assert (nowhere.topic, nowhere.name) == ("t", "n")
    unknown = error_answers.error_of(
        response(404, "delayed_not_found", {"topic": "t", "delayed_id": 7}), "s"
    )
    late = error_answers.error_of(
        response(409, "already_delivered", {"topic": "t", "delayed_id": 7}), "s"
    )
    assert isinstance(unknown, errors.DelayedNotFound)
    assert (unknown.topic, unknown.delayed_id) == ("t", 7)
    assert isinstance(late, errors.AlreadyDelivered)
    assert (late.topic, late.delayed_id) == ("t", 7)
    assert isinstance(ahead, errors.SeqMismatch)
    assert (ahead.topic, ahead.expected_seq, ahead.head_seq) == ("t", 3, 5)
    assert isinstance(full, errors.TopicFull)
    assert (full.cap_records, full.cap_bytes, full.head_seq, full.earliest_seq) == (1, 2, 3, 4)


def test_the_wait_that_the_server_asks_for_is_told() -> None:
    found = error_answers.error_of(response(429, "throttled", **{"retry-after": "7"}), "s")

    assert isinstance(found, errors.Overloaded)
    assert found.retry_after_ms == 7000


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1", 1.0), ("", 0.0), ("soon", 0.0), ("-1", 0.0), ("9" * 400, 3600.0), ("1.5", 0.0)],
)
def test_a_wait_is_whole_seconds_and_bounded(text: str, seconds: float) -> None:
    assert error_answers.retry_after_s(response(429, **{"retry-after": text})) == seconds


@pytest.mark.parametrize("body", [b"", b"<html>", b"{}", b"[]", b'{"error":7}', b'{"\xff":1}'])
@pytest.mark.parametrize("status", [302, 400, 404, 429, 500, 502])
def test_a_body_that_is_none_of_ours_is_judged_by_its_status(status: int, body: bytes) -> None:
    found = error_answers.error_of(HttpResponse(status, {}, body), "http://a")

    by_status = {400: errors.InvalidArgument, 404: errors.UsageError, 429: errors.Overloaded}
    assert isinstance(found, by_status.get(status, errors.ServerError))


@pytest.mark.parametrize(
    ("status", "code", "failure"),
    [
        (503, "not_ready", Failure.REFUSED),
        (503, "shutting_down", Failure.REFUSED),
        (408, "request_timeout", Failure.REFUSED),
        (429, "throttled", Failure.LOST),
        (503, "", Failure.LOST),
        (502, "", Failure.LOST),
        (504, "", Failure.LOST),
        (500, "internal", None),
        (507, "storage_failed", None),
        (400, "invalid_request", None),
        (301, "", None),
    ],
)
def test_only_some_answers_may_be_better_later(
    status: int, code: str, failure: Failure | None
) -> None:
    assert error_answers.failure_of(response(status, code)) is failure
