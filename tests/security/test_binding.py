"""S4: who can reach a server without keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.server.conftest import Start
from tests.server.support import api_of
from tests.support.serving import Failed, Server

EVERYWHERE = ["0.0.0.0", "::", "[::]:0", "0.0.0.0:0", "192.0.2.1", "0", "localhost.example", "*"]
NO_KEYS = ["", " ", ",", " , ,", "\t", "\n", "\r\n", "\n,\n"]


def refusal(home: Path, **env: str) -> str:
    """What a server says that does not start."""
    server = Server(home, env)
    try:
        with pytest.raises(Failed) as caught:
            server.start(until="bound")
    finally:
        server.close()
    assert not server.port_file.exists()
    return str(caught.value)


@pytest.mark.parametrize("host", EVERYWHERE)
def test_a_server_that_others_can_reach_does_not_start_without_keys(
    tmp_path: Path, host: str
) -> None:
    """S4: nothing is bound, the exit code says failure, the message says what to set."""
    said = refusal(tmp_path, PENSTOCK_HOST=host)

    assert "ended with 0" not in said
    assert "PENSTOCK_API_KEYS" in said
    assert "PENSTOCK_ALLOW_INSECURE_NO_AUTH" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("keys", NO_KEYS, ids=repr)
def test_blanks_are_no_keys(tmp_path: Path, keys: str) -> None:
    """S4: an empty secret file must not open the server to the world."""
    said = refusal(tmp_path, PENSTOCK_HOST="0.0.0.0", PENSTOCK_API_KEYS=keys)

    assert "PENSTOCK_API_KEYS" in said


@pytest.mark.parametrize("consent", ["0", "no", "false", "", "yes please"])
def test_only_a_clear_word_opens_it(tmp_path: Path, consent: str) -> None:
    """S4: anything but 1 or true is no consent."""
    said = refusal(tmp_path, PENSTOCK_HOST="0.0.0.0", PENSTOCK_ALLOW_INSECURE_NO_AUTH=consent)

    assert "refusing to listen" in said


def test_consent_is_said_aloud(start: Start) -> None:
    """S4: whoever reads the log sees that the server is open."""
    server = start(PENSTOCK_HOST="0.0.0.0", PENSTOCK_ALLOW_INSECURE_NO_AUTH="1")

    assert "WITHOUT API KEYS" in server.said()
    assert api_of(server).get("/v0/topics").status == 200


def test_with_keys_it_is_open_to_who_has_one(start: Start) -> None:
    """S4: and metrics need a key there too (S27)."""
    server = start(PENSTOCK_HOST="0.0.0.0", PENSTOCK_API_KEYS="sesame")

    for target in ("/v0/topics", "/v0/metrics"):
        assert api_of(server).get(target).status == 401
        assert api_of(server, "sesame").get(target).status == 200


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "[::1]", "127.1.2.3"])
def test_on_loopback_no_keys_are_needed(start: Start, host: str) -> None:
    """S4: this machine is trusted until keys are set."""
    server = start(PENSTOCK_HOST=host)

    assert api_of(server).get("/v0/health").status in (200, 421)
