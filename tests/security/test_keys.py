"""S1 and S2: where keys are kept, and what their checking tells."""

from __future__ import annotations

import ast
import base64
import hashlib
import itertools
import secrets
import sys
import time
from pathlib import Path
from types import FrameType

import pytest

import penstock.server
from penstock.server.auth import Keyring
from tests.server.conftest import Start
from tests.server.support import api_of, new_name
from tests.server.wire import Connection
from tests.support.serving import Server

SERVER = Path(penstock.server.__file__).parent
SECRETS = ("digest", "secret", "token", "password", "authorization")


def test_a_key_is_nowhere_on_disk_and_in_no_log(start: Start) -> None:
    """S1: after every kind of use, good and bad, neither the key nor its digest is written."""
    key, other = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
    server = start(PENSTOCK_API_KEYS=f"{key},{other}:read:x-")
    api = api_of(server, key)
    topic = new_name()
    api.create(topic, durability="fsync")
    api.write(topic, 1, idempotency_key="k")
    api.put(f"/v0/topics/{topic}/positions/p", {"seq": 1})
    api.post("/v0/tickets", {})
    with api.follow([topic]) as stream, api.socket() as socket:
        stream.records(1)
        socket.ask("publish", topic=topic, records=[{"data": 1}])
    api.as_key(other).get(f"/v0/topics/{topic}")
    api.as_key(key + "x").get("/v0/topics")
    api.as_key(None).get(f"/v0/watch/wid_AAAAAAAAAAAAAAAAAAAAAA?token={key}")
    api.as_key(None).get(f"/v0/topics?token={key}")

    assert server.stop() == 0

    kept = {path: path.read_bytes() for path in server.home.rglob("*") if path.is_file()}
    assert any(kept.values())
    said = server.said().encode()
    for one in (key, other):
        digest = hashlib.sha256(one.encode())
        for trace in (one.encode(), digest.hexdigest().encode(), digest.digest()):
            assert trace not in said
            assert [path for path, data in kept.items() if trace in data] == []


def test_a_digest_is_no_key(start: Start) -> None:
    """S1: whoever steals what the server keeps in memory cannot call it with that."""
    key = secrets.token_urlsafe(32)
    server = start(PENSTOCK_API_KEYS=key)
    digest = hashlib.sha256(key.encode())

    for stolen in (digest.hexdigest(), base64.b64encode(digest.digest()).decode(), key[:-1]):
        assert api_of(server, stolen).get("/v0/topics").status == 401
    assert api_of(server, key).get("/v0/topics").status == 200


def test_the_keyring_keeps_digests_only() -> None:
    """S1: what is printed by accident is no key."""
    key = "a-very-secret-key"

    found = Keyring(f"{key}:read:x-")._keys

    assert [one.digest for one in found] == [hashlib.sha256(key.encode()).digest()]
    assert key not in repr(found)


@pytest.mark.parametrize("entry", ["key:root", "key:read+root", "key:all", ":read", "key:read:a,:"])
def test_a_key_that_cannot_be_understood_stops_the_start(entry: str) -> None:
    """S1: half a keyring is worse than none."""
    with pytest.raises(penstock.InvalidArgument):
        Keyring(entry)


def test_the_time_of_a_look_up_does_not_tell_how_much_was_right() -> None:
    """S2: wrong in the first byte, in the last, or altogether: the same work."""
    keys = [secrets.token_urlsafe(32) for _ in range(20)]
    ring = Keyring(",".join(keys))
    right = keys[7]
    wrong = {
        "first": ("A" if right[0] != "A" else "B") + right[1:],
        "last": right[:-1] + ("A" if right[-1] != "A" else "B"),
        "all": secrets.token_urlsafe(32),
        "first key's": keys[0][:-1] + "~",
        "last key's": keys[-1][:-1] + "~",
    }

    def steps(token: str) -> int:
        """What the interpreter does for it: the same on every machine, however busy."""
        count = 0

        def trace(frame: FrameType, event: str, _: object) -> object:
            nonlocal count
            frame.f_trace_opcodes = True
            count += event == "opcode"
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            assert ring.find_token(token.encode()) is None
        finally:
            sys.settrace(before)
        return count

    found = {name: steps(token) for name, token in wrong.items()}
    assert min(found.values()) > len(keys)
    assert len(set(found.values())) == 1, found


def test_the_time_of_a_refusal_does_not_tell_either(secured: Server) -> None:
    """S2: as far as a caller on the same machine can measure."""
    wrong = {"first": "xnn", "last": "anx", "length": "a" * 512, "none": None}
    least = dict.fromkeys(wrong, 1 << 62)

    def tells_nothing() -> bool:
        """The quickest of each are what a patient caller compares; other work only adds to it."""
        for _, (name, token) in itertools.product(range(500), wrong.items()):
            headers = {} if token is None else {"Authorization": f"Bearer {token}"}
            begun = time.perf_counter_ns()
            assert wire.request("GET", "/v0/topics", headers=headers).status == 401
            least[name] = min(least[name], time.perf_counter_ns() - begun)
        return max(least.values()) < 3 * min(least.values())

    with Connection(secured.address) as wire:
        assert any(tells_nothing() for _ in range(20)), least


def compared(path: Path) -> list[str]:
    """Comparisons by value in which a secret's name stands."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Compare):
            continue
        by_value = any(isinstance(op, (ast.Eq, ast.NotEq, ast.In, ast.NotIn)) for op in node.ops)
        text = ast.unparse(node).lower()
        if by_value and any(word in text for word in SECRETS):
            found.append(f"{path.name}:{node.lineno}: {text}")
    return found


def test_no_secret_is_compared_byte_by_byte() -> None:
    """S2: `==` ends at the first difference. Digests go through `hmac.compare_digest`."""
    no_secrets = (
        "authorization[:7].lower() != b'bearer '",
        "b'upgrade' not in tokens",
        "len(digest) != hashlib.sha256().digest_size",
    )
    found = [line for path in SERVER.rglob("*.py") for line in compared(path)]

    assert [line for line in found if not line.endswith(no_secrets)] == []
    assert "compare_digest(" in (SERVER / "auth.py").read_text()


def test_the_check_above_sees_a_comparison(tmp_path: Path) -> None:
    """S2: it can fail."""
    file = tmp_path / "bad.py"
    file.write_text("def f(key, digest):\n    return key.digest == digest\n")

    assert compared(file)
