"""A full topic: the client is not told of an error, and the connection ends after a pause. Over a
connection it is driven in test_ingest.py."""

from __future__ import annotations

import pytest

from penstock import errors
from penstock.compat.qwp.full_topics import may_pass
from penstock.server.errors import ApiError, throttled


@pytest.mark.parametrize(
    "error",
    [
        errors.Overloaded("busy", retry_after_ms=5),
        errors.TopicFull("t", cap_records=1, cap_bytes=0, head_seq=1, earliest_seq=1),
        throttled("max_topics", 1),
        throttled("max_total_bytes", 1),
    ],
    ids=str,
)
def test_what_may_pass_is_no_refusal(error: Exception) -> None:
    assert may_pass(error)


@pytest.mark.parametrize(
    "error",
    [errors.InvalidArgument("name"), ApiError(503, "shutting_down", "no"), ValueError("a bug")],
    ids=str,
)
def test_what_stays_is_one(error: Exception) -> None:
    assert not may_pass(error)
