"""Errors as answers: every class has a row, and nobody's secrets are in one."""

from __future__ import annotations

import inspect
import json

import pytest

from penstock import errors
from penstock.server.errors import (
    _BY_CLASS,
    ApiError,
    api_error,
    body_of,
    response_of,
    throttled,
)

SAMPLES: list[tuple[Exception, int, str]] = [
    (errors.InvalidArgument("x"), 400, "invalid_request"),
    (errors.TopicNotFound("t"), 404, "topic_not_found"),
    (errors.TopicExists("x"), 409, "topic_exists_incompatible"),
    (errors.RecordTooLarge("x"), 400, "record_too_large"),
    (errors.BatchTooLarge("x"), 400, "batch_too_large"),
    (errors.SeqMismatch("t", expected_seq=1, head_seq=2), 409, "seq_mismatch"),
    (errors.Overloaded("x", retry_after_ms=2500), 429, "throttled"),
    (errors.LogFailed("/data/wal", reason="EIO"), 507, "storage_failed"),
    (errors.CorruptFrame("/data/wal", reason="checksum", offset=9), 500, "internal"),
    (errors.Closed("x"), 503, "shutting_down"),
    (KeyError("secret"), 500, "internal"),
    (OSError(28, "No space left on device", "/data"), 507, "storage_failed"),
]


@pytest.mark.parametrize(("error", "status", "code"), SAMPLES, ids=lambda value: str(value)[:20])
def test_an_error_has_its_status_and_code(error: Exception, status: int, code: str) -> None:
    found = api_error(error)

    assert (found.status, found.code) == (status, code)


@pytest.mark.parametrize(
    "error", [error for error, _, _ in SAMPLES], ids=lambda e: type(e).__name__
)
def test_a_body_has_only_the_three_members_and_no_path(error: Exception) -> None:
    body = json.loads(response_of(error).body)

    assert set(body) == {"error"}
    assert set(body["error"]) <= {"code", "message", "detail"}
    assert body["error"]["message"]
    assert "/data" not in json.dumps(body)
    assert "secret" not in json.dumps(body)


def test_whoever_should_come_back_is_told_when() -> None:
    overloaded = response_of(errors.Overloaded("x", retry_after_ms=2500))

    assert (b"retry-after", b"2") in overloaded.headers
    assert (b"retry-after", b"1") in response_of(throttled("max_topics", 3)).headers
    assert response_of(errors.InvalidArgument("x")).headers == ()


def test_details_are_kept() -> None:
    full = errors.TopicFull("t", cap_records=1, cap_bytes=2, head_seq=3, earliest_seq=4)

    assert json.loads(body_of(api_error(full)))["error"]["detail"] == {
        "topic": "t",
        "cap_records": 1,
        "cap_bytes": 2,
        "head_seq": 3,
        "earliest_seq": 4,
    }
    assert api_error(ApiError(418, "teapot", "x", {"a": 1})).detail == {"a": 1}


EVERY = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, errors.PenstockError)
    # Nobody's branch, and what a sender says to its own caller.
    and kind not in (errors.PenstockError, errors.SenderHalted)
]


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
def test_every_class_of_errors_has_a_row_that_fits_it_best(kind: type[Exception]) -> None:
    """The first row that fits decides, so no row may hide a narrower one behind it."""
    fitting = [row for row in _BY_CLASS if issubclass(kind, row[0])]

    assert fitting, "it would be `internal`, as if it were a mistake of ours"
    assert all(issubclass(fitting[0][0], other[0]) for other in fitting)


@pytest.mark.parametrize("retry_after_ms", [0, 1, 999, 1000, 2999, 60_000])
def test_nobody_is_told_to_come_back_at_once(retry_after_ms: int) -> None:
    headers = response_of(errors.Overloaded("x", retry_after_ms=retry_after_ms)).headers

    assert dict(headers) == {b"retry-after": b"%d" % max(1, retry_after_ms // 1000)}
