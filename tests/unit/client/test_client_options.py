"""What a client is told: checked once, and secrets kept."""

from __future__ import annotations

import ssl
from typing import Any

import pytest

from penstock.client import calls, client_options
from penstock.client.client_options import ClientOptions
from penstock.errors import InvalidArgument


def made(url: str = "http://a:1/x", token: str | None = None, **changed: Any) -> ClientOptions:
    given: dict[str, Any] = {"timeout_s": 1.0, "attempts_max": 2, "idempotency": True}
    given |= {"tls": None, "clock": None, "roll": None, **changed}
    return client_options.make(url, token, **given)


def test_a_request_has_the_token_the_prefix_and_the_call_s_own_headers() -> None:
    request = made(token="secret").request(calls.stats())

    assert request.target == "/x/v0/metrics"
    assert request.headers["Authorization"] == "Bearer secret"
    assert request.headers["Accept"] == "application/json"


def test_without_a_token_none_is_sent() -> None:
    assert "Authorization" not in made().request(calls.health()).headers


def test_no_repr_shows_the_token() -> None:
    told = made(token="secret")

    assert "secret" not in repr(told)
    assert "secret" not in repr(told.request(calls.health()))


@pytest.mark.parametrize("token", ["", " a", "a ", "a\r\nX: y", "ä", "a\0", 7])
def test_a_token_that_is_none_is_refused_and_not_repeated(token: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        made(token=token)

    assert "X: y" not in str(caught.value)


@pytest.mark.parametrize("changed", [{"timeout_s": 0}, {"timeout_s": -1.0}, {"attempts_max": 0}])
def test_patience_that_is_none_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        made(**changed)


def test_https_verifies_unless_the_caller_brings_a_context() -> None:
    own = ssl.create_default_context()

    told = made("https://a").tls

    assert told is not None
    assert told.verify_mode is ssl.CERT_REQUIRED
    assert told.check_hostname
    assert made("https://a", tls=own).tls is own
    assert made().tls is None


def test_a_tls_context_for_plain_http_is_refused() -> None:
    with pytest.raises(InvalidArgument):
        made(tls=ssl.create_default_context())


def test_an_append_gets_a_key_unless_it_has_one_or_wants_none() -> None:
    assert made().key("own") == "own"
    assert made().key(None) != made().key(None)
    assert made(idempotency=False).key(None) is None
    assert made(idempotency=False).key("own") == "own"


def test_a_stream_goes_on_by_the_id_of_its_last_event() -> None:
    first, again = (made().stream_request("/v0/watch/w", last) for last in ("", "abc"))

    assert first.target == "/x/v0/watch/w"
    assert first.headers["Accept"] == "text/event-stream"
    assert "Last-Event-ID" not in first.headers
    assert again.headers["Last-Event-ID"] == "abc"
