"""Idempotency keys of requests, as the log stores them."""

from __future__ import annotations

import hashlib

from penstock.server.auth import ANYONE
from penstock.server.errors import invalid
from penstock.server.http.message import Request
from penstock.topics import validation


def key_of(given: str | None, request: Request) -> bytes:
    """The key in the body or in the header, or nothing. It includes the API key: a caller that
    guesses the idempotency key of another learns nothing."""
    if given is None:
        header = request.headers.get(b"idempotency-key")
        if header is None:
            return b""
        try:
            given = header.decode()
        except UnicodeDecodeError:
            raise invalid("the Idempotency-Key header is not valid UTF-8") from None
    key = validation.key_text(given)
    if request.key is ANYONE:
        return key
    return hashlib.sha256(request.key.digest + key).hexdigest().encode()


def key_of_part(key: bytes, topic: str) -> bytes:
    """For one topic of a batch: each stores a key of its own, so that a retry finds every part."""
    if not key:
        return b""
    return hashlib.sha256(b"%b\0%b" % (key, topic.encode())).hexdigest().encode()
