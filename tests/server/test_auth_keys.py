"""How keys are written down, presented and kept: S1, S8, and the grammar of their setting."""

from __future__ import annotations

import pytest

from tests.server.conftest import Start
from tests.server.support import Api, api_of, refused
from tests.support.serving import Failed, Server, eventually

RECORDS = {"records": [{"data": 1}]}


def powers(api: Api) -> str:
    """Which of the four scopes this key has, found by trying."""
    tries = {
        "r": api.get("/v0/topics/t"),
        "w": api.post("/v0/topics/t", RECORDS),
        "d": api.post("/v0/topics/t/delete", {"before_seq": 1}),
        "a": api.put("/v0/topics/t", {}),
    }
    assert {reply.status for reply in tries.values()} <= {200, 201, 403}
    return "".join(letter for letter, reply in tries.items() if reply.status != 403)


def test_the_grammar_of_keys(start: Start) -> None:
    written = {
        "bare": ("bare", "rwda"),
        "empty": ("empty:", "rwda"),
        "letter": ("letter:r", "r"),
        "word": ("word:write", "w"),
        "both": ("both:rw", "rw"),
        "sum": ("sum:read+del", "rd"),
        "case": ("case:READ+Admin", "ra"),
        "del": ("del:delete+d", "d"),
        "everything": ("everything:r+w+d+a", "rwda"),
        "named": ("named:a:t|x", "a"),
        "prefix-only": ("prefix-only::t", "rwda"),
    }
    keys = ",".join(["", *(text for text, _ in written.values()), "", ""])
    server = start(PENSTOCK_API_KEYS=keys)
    api_of(server, "bare").create("t")

    found = {key: powers(api_of(server, key)) for key in written}

    assert found == {key: letters for key, (_, letters) in written.items()}


@pytest.mark.parametrize("keys", ["k:fly", "good,k:read+fly", "k:r w"])
def test_an_unknown_scope_keeps_the_server_from_starting(start: Start, keys: str) -> None:
    with pytest.raises(Failed) as caught:
        start(PENSTOCK_API_KEYS=keys)

    assert "ended with 0 " not in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_without_keys_everybody_may_do_everything(api: Api, topic: str) -> None:
    assert api.as_key("whatever").put(f"/v0/topics/{topic}").status == 201


@pytest.fixture
def keyed(start: Start) -> Server:
    server = start(PENSTOCK_API_KEYS="one-secret-key,another-secret-key:read")
    api_of(server, "one-secret-key").create("t")
    return server


def test_only_a_bearer_is_a_key(keyed: Server) -> None:
    api = api_of(keyed)
    for presented in (
        "one-secret-key",
        "Basic one-secret-key",
        "Bearer",
        "Bearer ",
        "Bearer one-secret-key extra",
        "Bearer one-secret-key:read",
        "Bearer another-secret-key:read",
    ):
        reply = api.get("/v0/topics/t", {"Authorization": presented})
        refused(reply, 401, "unauthorized")
        assert reply.headers["www-authenticate"] == "Bearer"


def test_a_key_in_the_query_opens_a_stream_and_nothing_else(keyed: Server) -> None:
    api = api_of(keyed, "one-secret-key")
    wid = api.watch(["t"])["wid"]
    nobody = api.as_key(None)

    refused(nobody.get("/v0/topics/t?token=one-secret-key"), 401, "unauthorized")
    refused(nobody.post("/v0/topics/t/diff?token=one-secret-key", {}), 401, "unauthorized")
    refused(nobody.get("/v0/metrics?token=one-secret-key"), 401, "unauthorized")
    refused(nobody.get(f"/v0/watch/{wid}?token=another-secret-key"), 401, "unauthorized")
    with nobody.stream(f"{wid}?token=one-secret-key") as stream:
        assert stream.reply.status == 200


def test_the_key_in_the_query_is_form_decoded_and_the_first_counts(start: Start) -> None:
    api = api_of(start(PENSTOCK_API_KEYS="a key+with%signs"), "a key+with%signs")
    api.create("t")
    wid = api.watch(["t"])["wid"]
    nobody = api.as_key(None)
    text = "a+key%2Bwith%25signs"

    refused(nobody.get(f"/v0/watch/{wid}?token=x&token={text}"), 401, "unauthorized")
    with nobody.stream(f"{wid}?token={text}&token=x") as stream:
        assert stream.reply.status == 200


def test_probes_can_be_closed_too(start: Start) -> None:
    api = api_of(start(PENSTOCK_API_KEYS="k:read", PENSTOCK_PROBE_AUTH="1"))
    eventually(lambda: api.as_key("k").get("/v0/ready").status == 200, "readiness")

    for target in ("/v0/health", "/healthz", "/v0/ready", "/readyz"):
        refused(api.get(target), 401, "unauthorized")
        assert api.as_key("k").get(target).status == 200


def test_a_key_is_nowhere_on_disk_or_in_what_the_server_says(keyed: Server) -> None:
    api = api_of(keyed, "one-secret-key")
    api.write("t", 1, idempotency_key="x")
    wid = api.watch(["t"])["wid"]
    with api.as_key(None).stream(f"{wid}?token=one-secret-key") as stream:
        stream.one("record")
    api.get("/v0/nothing?token=one-secret-key")
    api.as_key("wrong-secret-guess").get("/v0/topics/t")
    keyed.stop()

    for path in keyed.home.rglob("*"):
        if path.is_file():
            kept = path.read_bytes()
            assert b"secret" not in kept, path
    assert "secret" not in keyed.said()


def test_control_characters_do_not_forge_lines_of_the_log(keyed: Server) -> None:
    """S20: what a caller sends cannot look like a line of the server's own."""
    api = api_of(keyed, "one-secret-key")
    api.get("/v0/%0A[ADMIN]%20all%20is%20well%1b[31m")
    api.get("/v0/nothing", {"User-Agent": "\x1b[31mred"})
    keyed.stop()

    assert "\n[ADMIN]" not in keyed.said()
    assert "\x1b[31m" not in keyed.said()
