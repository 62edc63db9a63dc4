"""S4: who can reach a server without keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import InvalidArgument
from penstock.server.auth import Keyring
from penstock.server.settings import server_settings
from tests.server.conftest import Start
from tests.server.support import api_of
from tests.support.serving import Failed, Server, eventually

EVERYWHERE = [
    "0.0.0.0",
    "::",
    "[::]:0",
    "0.0.0.0:0",
    "192.0.2.1",
    "0",
    "localhost.example",
    "*",
    "",  # to a socket that is every address
    ":0",
    " 0.0.0.0",
    "::ffff:0.0.0.0",
    "127.0.0.1.example",
    "127.0.0.1,0.0.0.0",
]
NO_KEYS = ["", " ", ",", " , ,", "\t", "\n", "\r\n", "\n,\n"]


@pytest.mark.parametrize(
    "env",
    [
        {"PENSTOCK_HOST": "0.0.0.0"},
        {"PENSTOCK_HOST": "::", "PENSTOCK_API_KEYS": "\n"},
        {"PENSTOCK_HOST": "192.0.2.1", "PENSTOCK_ALLOW_INSECURE_NO_AUTH": "0"},
    ],
    ids=["everywhere", "blank keys", "no consent"],
)
def test_a_server_that_others_can_reach_does_not_start_without_keys(
    tmp_path: Path, env: dict[str, str]
) -> None:
    """S4: nothing is bound, the exit code says failure, the message says what to set."""
    server = Server(tmp_path, env)
    try:
        with pytest.raises(Failed) as caught:
            server.start(until="bound")
    finally:
        server.close()

    said = str(caught.value)
    assert not server.port_file.exists()
    assert "ended with 0" not in said
    assert "PENSTOCK_API_KEYS" in said
    assert "PENSTOCK_ALLOW_INSECURE_NO_AUTH" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("host", EVERYWHERE)
@pytest.mark.parametrize("keys", NO_KEYS, ids=repr)
def test_blanks_are_no_keys_at_any_address(host: str, keys: str) -> None:
    """S4: an empty secret file must not open the server to the world."""
    with pytest.raises(InvalidArgument, match="PENSTOCK_API_KEYS"):
        server_settings({"PENSTOCK_HOST": host, "PENSTOCK_API_KEYS": keys})


def test_what_the_guard_takes_for_keys_the_keyring_takes_too() -> None:
    """S4: two readings of one text would be a hole."""
    for keys in [*NO_KEYS, "a", " a ", "a,", ",a", "a:read", "\na\n"]:
        try:
            server_settings({"PENSTOCK_HOST": "0.0.0.0", "PENSTOCK_API_KEYS": keys})
        except InvalidArgument:
            assert Keyring(keys).is_open
        else:
            assert not Keyring(keys).is_open


@pytest.mark.parametrize("consent", ["0", "no", "false", "", "yes please"])
def test_only_a_clear_word_opens_it(consent: str) -> None:
    """S4: anything but 1 or true is no consent."""
    env = {"PENSTOCK_HOST": "0.0.0.0", "PENSTOCK_ALLOW_INSECURE_NO_AUTH": consent}

    with pytest.raises(InvalidArgument, match="refusing to listen"):
        server_settings(env)


def test_consent_is_said_aloud(start: Start) -> None:
    """S4: whoever reads the log sees that the server is open."""
    server = start(PENSTOCK_HOST="0.0.0.0", PENSTOCK_ALLOW_INSECURE_NO_AUTH="1")

    eventually(lambda: "WITHOUT API KEYS" in server.said(), "a line in the log")
    assert api_of(server).get("/v0/topics").status == 200


def test_with_keys_it_is_open_to_who_has_one(start: Start) -> None:
    """S4: and metrics need a key there too (S27)."""
    server = start(PENSTOCK_HOST="0.0.0.0", PENSTOCK_API_KEYS="sesame")

    for target in ("/v0/topics", "/v0/metrics"):
        assert api_of(server).get(target).status == 401
        assert api_of(server, "sesame").get(target).status == 200


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "[::1]", "127.1.2.3"])
def test_on_loopback_no_keys_are_needed(host: str) -> None:
    """S4: this machine is trusted until keys are set."""
    assert server_settings({"PENSTOCK_HOST": host}).is_loopback
