"""Addresses and sockets of beava's ports."""

from __future__ import annotations

import pytest

from penstock.compat.beava.listening import address_of, bound, is_loopback, shown
from penstock.errors import InvalidArgument


def test_an_address_is_read() -> None:
    assert address_of(" 10.0.0.1:80 ", "X") == ("10.0.0.1", 80)
    assert address_of("80", "X") == ("127.0.0.1", 80)
    assert address_of("[::1]:80", "X") == ("::1", 80)
    with pytest.raises(InvalidArgument, match="X=80x"):
        address_of("80x", "X")


@pytest.mark.parametrize(
    ("host", "is_here"),
    [("localhost", True), ("127.0.0.9", True), ("::1", True), ("0.0.0.0", False), ("box", False)],
)
def test_loopback_is_known(host: str, is_here: bool) -> None:
    assert is_loopback(host) is is_here


def test_a_bound_socket_says_its_port() -> None:
    with bound(("127.0.0.1", 0)) as listener:
        assert address_of(shown(listener), "X") == listener.getsockname()
