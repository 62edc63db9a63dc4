"""Which of beava's ports a server has."""

from __future__ import annotations

import pytest

from penstock.compat.beava.settings import BeavaSettings, beava_settings, check_access
from penstock.errors import InvalidArgument

HERE = {"http": ("127.0.0.1", 8080), "tcp": ("::1", 8081)}


def test_ports_are_off_until_they_are_named() -> None:
    assert beava_settings({"PENSTOCK_PORT": "4000"}).addresses == {}


def test_an_address_is_a_host_and_a_port_or_a_port_of_this_machine() -> None:
    given = {"HTTP": "0.0.0.0:8080", "TCP": "8081", "ADMIN": "[::1]:8090", "TEST_MODE": "1"}

    found = beava_settings({f"PENSTOCK_BEAVA_{name}": text for name, text in given.items()})

    assert found.addresses == {
        "http": ("0.0.0.0", 8080),
        "tcp": ("127.0.0.1", 8081),
        "admin": ("::1", 8090),
    }
    assert found.test_mode


@pytest.mark.parametrize(
    "environ",
    [
        {"PENSTOCK_BEAVA_HTTP": "here"},
        {"PENSTOCK_BEAVA_TCP": "127.0.0.1:70000"},
        {"PENSTOCK_BEAVA_TEST_MODE": "perhaps"},
    ],
)
def test_another_setting_is_refused(environ: dict[str, str]) -> None:
    with pytest.raises(InvalidArgument):
        _ = beava_settings(environ).addresses


def test_clients_without_keys_reach_a_port_of_this_machine_alone() -> None:
    everywhere = BeavaSettings(http="0.0.0.0:8080").addresses

    check_access(HERE, has_keys=False, is_insecure_allowed=False)
    check_access(everywhere, has_keys=True, is_insecure_allowed=True)
    check_access({}, has_keys=True, is_insecure_allowed=False)
    with pytest.raises(InvalidArgument, match="other machines"):
        check_access(everywhere, has_keys=False, is_insecure_allowed=False)
    with pytest.raises(InvalidArgument, match="has API keys"):
        check_access(HERE, has_keys=True, is_insecure_allowed=False)
