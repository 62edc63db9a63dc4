"""Which refusal a client hears. The rest is driven in tests/server/test_qwp*.py."""

from __future__ import annotations

import pytest

from penstock import errors
from penstock.compat.qwp import ingest
from penstock.compat.qwp.reading import QwpError, Status
from penstock.server.errors import ApiError, throttled


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (QwpError("gap", Status.GAP), Status.GAP),
        (errors.InvalidArgument("name"), Status.SCHEMA),
        (errors.RecordTooLarge("size"), Status.PARSE),
        (errors.BatchTooLarge("size"), Status.PARSE),
        (errors.Overloaded("full", retry_after_ms=5), Status.WRITE),
        (throttled("max_topics", 1), Status.WRITE),
        (ApiError(503, "shutting_down", "no"), Status.INTERNAL),
        (errors.TopicNotFound("t"), Status.INTERNAL),
        (errors.Closed("closed"), Status.INTERNAL),
        (ValueError("a bug"), Status.INTERNAL),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Exception) else one.name,
)
def test_what_can_be_tried_again_looks_like_it(error: Exception, status: Status) -> None:
    assert ingest._status_of(error) is status


def test_a_bug_is_not_told_to_the_client() -> None:
    assert "secret" not in ingest._reason_of(ValueError("secret"))
