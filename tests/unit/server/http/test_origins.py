"""Which hosts we answer to, and which pages may call."""

from __future__ import annotations

import pytest

from penstock.server.errors import ApiError
from penstock.server.http.origins import Origins, host_name
from penstock.server.settings import ServerSettings

HERE = Origins(ServerSettings())
ELSEWHERE = Origins(
    ServerSettings(
        host="10.1.2.3",
        api_keys="k",
        allowed_hosts="log.example, Other.example",
        allowed_origins="https://app.example",
    )
)


def refusal(origins: Origins, **headers: str) -> int:
    """The status of the refusal; 0 when there is none."""
    given = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    try:
        origins.check(given)
    except ApiError as error:
        return error.status
    return 0


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:4000", "127.0.0.1:1", "[::1]", "[::1]:4000"]
)
def test_loopback_names_are_ours(host: str) -> None:
    assert refusal(HERE, host=host) == 0
    assert refusal(HERE, host=host) == 0  # also the second time


@pytest.mark.parametrize(
    "host",
    [
        "evil.test",
        "localhost.evil.test",
        "127.0.0.1.evil",
        "evil/../",
        "localhost:x",
        "a@localhost",
        "localhost/",
        "[::1",
        ":80",
        "log.example",
    ],
)
def test_any_other_host_is_misdirected(host: str) -> None:
    assert refusal(HERE, host=host) == 421


def test_no_host_or_two_is_a_bad_request() -> None:
    assert refusal(HERE) == 400
    assert refusal(HERE, host="") == 400
    assert refusal(HERE, host="localhost,localhost") == 400


def test_names_can_be_added() -> None:
    assert [refusal(ELSEWHERE, host=h) for h in ("10.1.2.3", "log.example:1", "other.example")] == [
        0,
        0,
        0,
    ]
    assert refusal(Origins(ServerSettings(allowed_hosts="*")), host="any.test") == 0


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ("http://localhost:4000", 0),
        ("http://evil.test", 403),
        ("null", 403),
        ("", 403),
        ("http://localhost:5000", 403),
    ],
)
def test_only_pages_of_our_own_may_call(origin: str, expected: int) -> None:
    assert refusal(HERE, host="localhost:4000", origin=origin) == expected


def test_pages_can_be_added() -> None:
    assert refusal(ELSEWHERE, host="log.example", origin="https://app.example") == 0
    assert refusal(ELSEWHERE, host="log.example", origin="http://app.example") == 403


def test_a_cross_site_request_is_refused_even_without_an_origin() -> None:
    assert refusal(HERE, host="localhost", sec_fetch_site="cross-site") == 403
    assert refusal(HERE, host="localhost", sec_fetch_site="same-origin") == 0


@pytest.mark.parametrize(
    ("host", "name"),
    [(b"A:1", "a"), (b"[::1]:2", "[::1]"), (b"[::1]x", None), (b"a:b", None), (b"", None)],
)
def test_the_name_in_a_host(host: bytes, name: str | None) -> None:
    assert host_name(host) == name
