"""URLs, taken apart strictly."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.client import address
from penstock.client.address import Address
from penstock.errors import InvalidArgument


@pytest.mark.parametrize(
    ("url", "expected", "authority"),
    [
        ("http://a:4000", Address("http", "a", 4000), "a:4000"),
        ("http://a/", Address("http", "a", 80), "a"),
        ("https://a", Address("https", "a", 443), "a"),
        ("https://a:443/log/", Address("https", "a", 443, "/log"), "a"),
        ("http://[::1]:7", Address("http", "::1", 7), "[::1]:7"),
    ],
)
def test_a_url_has_its_parts(url: str, expected: Address, authority: str) -> None:
    found = address.parse(url)

    assert found == expected
    assert found.authority == authority
    assert found.is_tls == url.startswith("https")


def test_an_address_is_shown_as_a_url() -> None:
    assert str(address.parse("http://[::1]:7/x/")) == "http://[::1]:7/x"


@pytest.mark.parametrize(
    "url",
    [
        *("", "a", "a:4000", "ftp://a", "http://", "http:///x", "http://a:x", "http://a:99999"),
        *("http://a:0", "http://a?b", "http://a#b", "http://a b", "http://a\r\nx", "http://ä", 7),
    ],
)
def test_what_is_no_address_of_a_server_is_refused(url: Any) -> None:
    with pytest.raises(InvalidArgument):
        address.parse(url)


def test_a_secret_in_a_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(InvalidArgument) as caught:
        address.parse("http://user:secret@a")

    assert "secret" not in str(caught.value)
