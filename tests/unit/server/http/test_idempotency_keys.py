"""Idempotency keys: where they come from, and that callers with different API keys never meet."""

from __future__ import annotations

import pytest

from penstock import limits
from penstock.server.auth import ApiKey
from penstock.server.http import idempotency_keys
from tests.unit.server.support import Site, on_loop, request_of


def key_of(given: str | None, header: bytes | None = None, secret: bytes | None = None) -> bytes:
    headers = {} if header is None else {b"idempotency-key": header}
    request = request_of("POST", "/", headers=headers)
    if secret is not None:
        request.key = ApiKey(secret)
    return idempotency_keys.key_of(given, request)


def test_the_key_in_the_body_wins() -> None:
    assert key_of("body", b"header") == b"body"
    assert key_of(None, b"header") == b"header"
    assert key_of(None) == b""


def test_callers_with_different_keys_never_meet() -> None:
    assert key_of("k", secret=b"one") != key_of("k", secret=b"two")
    assert key_of("k", secret=b"one") == key_of("k", secret=b"one")
    assert key_of("k", secret=b"one") != b"k"


@pytest.mark.parametrize("header", [b"\xff\xfe", b"x" * (limits.KEY_BYTES_MAX + 1), b""])
@on_loop
async def test_a_key_that_is_none_is_refused(header: bytes) -> None:
    site = Site()

    answer = await site.call(
        "POST",
        "/v0/topics/t",
        {"records": [{"data": 1}]},
        headers={b"idempotency-key": header},
    )

    assert (answer.status, answer.code) == (400, "invalid_request")


def test_each_topic_of_a_batch_has_a_key_of_its_own() -> None:
    assert idempotency_keys.key_of_part(b"", "t") == b""
    assert len({idempotency_keys.key_of_part(b"k", topic) for topic in ("t", "u", "t")}) == 2
