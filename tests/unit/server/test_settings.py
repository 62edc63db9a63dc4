"""Settings of a server: from the environment, from code, and the ones that are refused."""

from __future__ import annotations

import pytest

from penstock.errors import InvalidArgument
from penstock.server.settings import ServerSettings, server_settings


def test_every_field_can_be_set_by_environment_alone() -> None:
    samples = {"str": "x", "int": "7", "bool": "true"}
    for name, kind in ServerSettings.__annotations__.items():
        if name.startswith("tls_") or name == "host":
            continue  # they come in pairs, or are looked into
        found = server_settings({f"PENSTOCK_{name.upper()}": samples[kind]})
        assert str(getattr(found, name)).lower() == samples[kind], name


def test_what_is_given_in_code_wins_over_the_environment() -> None:
    assert server_settings({"PENSTOCK_PORT": "1"}, port=2).port == 2
    assert server_settings({"PENSTOCK_PORT": "1"}, port=None).port == 1


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1:5000", ("127.0.0.1", 5000)),
        ("localhost:0", ("localhost", 0)),
        ("[::1]:80", ("[::1]", 80)),
        ("::1", ("::1", 4000)),
        ("127.0.0.1", ("127.0.0.1", 4000)),
    ],
)
def test_the_host_may_hold_the_port(host: str, expected: tuple[str, int]) -> None:
    found = server_settings({"PENSTOCK_HOST": host})

    assert (found.host, found.port) == expected


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.7", "log.example", "[::]"])
def test_an_address_that_others_reach_needs_keys_or_a_word(host: str) -> None:
    with pytest.raises(InvalidArgument, match="PENSTOCK_API_KEYS"):
        server_settings({}, host=host)
    assert server_settings({"PENSTOCK_API_KEYS": "k"}, host=host).host == host
    word = {"PENSTOCK_ALLOW_INSECURE_NO_AUTH": "1"}
    assert server_settings(word, host=host).allow_insecure_no_auth


@pytest.mark.parametrize(
    "environ",
    [
        {"PENSTOCK_PORT": "http"},
        {"PENSTOCK_PORT": "65536"},
        {"PENSTOCK_MAX_BODY_BYTES": "-1"},
        {"PENSTOCK_TLS_CERT": "only.pem"},
    ],
)
def test_senseless_settings_are_refused(environ: dict[str, str]) -> None:
    with pytest.raises(InvalidArgument):
        server_settings(environ)
