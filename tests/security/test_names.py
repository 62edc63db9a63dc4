"""S9: names that want to be paths."""

from __future__ import annotations

import itertools
import os
import random
import re
import string
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, quote_from_bytes

import pytest

import penstock
from penstock.errors import InvalidArgument
from penstock.topics import validation
from tests.server.support import Api, api_of
from tests.server.wire import Connection, head
from tests.support.serving import Server

ALLOWED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,254}", re.ASCII)
HOSTILE = [
    "",
    ".",
    "..",
    "../x",
    "..\\x",
    "a/../../x",
    "/etc/passwd",
    "//x",
    "a//b",
    "a/b",
    "a\\b",
    "a\0b",
    "a\nb",
    "a\r\nb",
    "a\tb",
    "a b",
    " a",
    "a ",
    ".hidden",
    "-rf",
    "_x",
    ":x",
    "~",
    "~root",
    "$HOME",
    "%2e%2e%2f",
    "a%00b",
    "*",
    "?",
    "a*",
    "<x>",
    '"x"',
    "a|b",
    "a;b",
    "a'b",
    "\uff41",
    "a\u0301",
    "\u00e1",
    "\u2024\u2024/",
    "\uff0e\uff0e\uff0f",
    "a\u202eb",
    "\ufeffa",
    "a\u00ad",
    "x" * 256,
    "x" * 300,
    "x" * 100_000,
]
# Names that are fine for us and trouble for file systems: they must not become file names.
AWKWARD = [
    "CON",
    "NUL",
    "com1",
    "aux.txt",
    "a.",
    "a..b",
    "a:b",
    "penstock.json",
    "meta",
    "wal",
    "x" * 255,
]
AUDIT = """
import os, sys

_out = os.open(os.environ["AUDIT_FILE"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_CHANGES = {"os." + verb for verb in "mkdir rename remove rmdir link symlink truncate".split()}


def _hook(event, args):
    if event == "open":
        if isinstance(args[0], (str, bytes)) and args[2] & _WRITING:
            os.write(_out, os.fsencode(os.path.abspath(args[0])) + b"\\n")
    elif event in _CHANGES:
        for path in args[:2]:
            if isinstance(path, (str, bytes)):
                os.write(_out, os.fsencode(os.path.abspath(path)) + b"\\n")


sys.addaudithook(_hook)
"""


def hostile(count: int) -> Iterator[str]:
    """The list above, and mixtures of what is in it and of everything else."""
    yield from HOSTILE
    yield from AWKWARD
    rng = random.Random(9)
    pieces = [
        *HOSTILE[:-3],
        *AWKWARD[:-1],
        *"./\\:%~-_*\0\n\r\t ",
        "\u00e9",
        "\ufb00",
        "\u212b",
        "\uff05",
        "2e",
        "2f",
    ]
    letters = string.ascii_letters + string.digits + "._:-"
    for _ in range(count):
        text = "".join(rng.choices(pieces, k=rng.randint(1, 5)))
        if rng.random() < 0.5:
            text = rng.choice(letters) + text
        if rng.random() < 0.3:
            at = rng.randrange(len(text) + 1)
            text = (
                text[:at] + chr(rng.choice([rng.randrange(128), rng.randrange(0xD800)])) + text[at:]
            )
        yield text


def test_a_hundred_thousand_names_are_judged_by_the_alphabet_alone() -> None:
    """S9: allowed exactly when ASCII letters, digits and four signs, the first no sign."""
    good = bad = 0
    for name in hostile(100_000):
        try:
            assert validation.topic_name(name) is name
        except InvalidArgument:
            bad += 1
            assert not ALLOWED.fullmatch(name), name
        else:
            good += 1
            assert ALLOWED.fullmatch(name), name
            assert "/" not in name
            assert unicodedata.normalize("NFKC", name) == name
    assert good > 1_000
    assert bad > 50_000


@pytest.mark.parametrize("name", [None, b"a", 5, ["a"], {"a": 1}])
def test_what_is_no_text_is_no_name(name: object) -> None:
    """S9: bytes included."""
    with pytest.raises(InvalidArgument):
        validation.topic_name(name)


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that writes down every path it creates, changes or opens for writing."""
    home = tmp_path_factory.mktemp("watched")
    hook = home / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(AUDIT)
    source = str(Path(penstock.__file__).parents[1])
    env = {"PYTHONPATH": f"{hook}{os.pathsep}{source}", "AUDIT_FILE": str(home / "audit")}
    server = Server(home, env).start()
    yield server
    server.close()


def encodings(name: str) -> list[str]:
    """How a name may stand in a path."""
    raw = name.encode("utf-8", "surrogatepass")
    found = [quote_from_bytes(raw, safe=""), quote(quote_from_bytes(raw, safe=""), safe="%")]
    if name and all(32 < ord(letter) < 127 and letter not in "?#" for letter in name):
        found.append(name)  # as it is
    return found


def test_thousands_of_names_over_http_leave_nothing_outside_the_data(watched: Server) -> None:
    """S9: as paths, as patterns, as positions and as dead letters; every write is inside."""
    api = api_of(watched)
    api.create("t")
    chosen = [name for name in itertools.islice(hostile(600), 700) if len(name) < 5_000]
    requests = []
    for name in chosen:
        for text in encodings(name):
            requests.append(
                head("PUT", f"/v0/topics/{text}", {"Host": "localhost", "Content-Length": "0"})
            )
            body = b'{"records":[{"data":1}]}'
            fields = {
                "Host": "localhost",
                "Content-Type": "application/json",
                "Content-Length": str(len(body)),
            }
            requests.append(head("POST", f"/v0/topics/{text}", fields) + body)
            body = b'{"seq":0}'
            fields["Content-Length"] = str(len(body))
            requests.append(head("PUT", f"/v0/topics/t/positions/{text}", fields) + body)
    assert len(requests) > 3_000

    found: list[int] = []
    for request in requests:
        with Connection(watched.address) as wire:
            wire.send_what_it_takes(request)
            found.append(wire.read_reply().status)

    assert set(found) <= {200, 201, 400, 404, 405, 429, 431}, set(found)
    made = {row["topic"] for row in listing(api)}
    assert made
    assert all(ALLOWED.fullmatch(name) for name in made)
    assert watched.stop() == 0
    assert outside(watched) == []
    watched.start()
    assert {row["topic"] for row in listing(api_of(watched))} == made


def listing(api: Api) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    cursor = ""
    while True:
        page = api.get(f"/v0/topics?page_size=1000&cursor={cursor}").json
        rows += page["topics"]
        cursor = page.get("next_cursor", "")
        if not cursor:
            return rows


def outside(server: Server) -> list[str]:
    """Paths the server changed that are not its own."""
    own = {str(server.port_file), "/dev/null"}
    found = []
    for line in (server.home / "audit").read_text(errors="surrogateescape").splitlines():
        path = Path(line)
        is_port = str(path).startswith(f"{server.port_file}.")
        is_code = "__pycache__" in path.parts
        if str(path) in own or is_port or is_code or path.is_relative_to(server.data_dir):
            continue
        found.append(line)
    return found


def test_the_watch_over_paths_sees_a_write(tmp_path: Path) -> None:
    """S9: the test above can fail."""
    (tmp_path / "sitecustomize.py").write_text(AUDIT)
    target = tmp_path / "outside"

    subprocess.run(
        [sys.executable, "-c", f"open({str(target)!r}, 'w').close()"],
        env={"PYTHONPATH": str(tmp_path), "AUDIT_FILE": str(tmp_path / "audit")},
        check=True,
    )

    assert str(target) in (tmp_path / "audit").read_text()


def test_names_that_differ_in_case_are_two_topics_in_two_places(api: Api, shared: Server) -> None:
    """S9: directories are numbered, so a file system that folds case cannot merge them."""
    twins = ["case-Twin", "case-twin", "CASE-TWIN"]
    for name in twins:
        api.create(name, durability="fsync")
        api.write(name, name)

    for name in twins:
        assert [one["data"] for one in api.diff(name)["records"]] == [name]
    found = [path.name for path in shared.data_dir.rglob("*")]
    assert not [name for name in found if "twin" in name.lower()]


def test_no_name_of_a_topic_is_a_name_of_a_file(api: Api, shared: Server) -> None:
    """S9: the trouble that file systems have with names is not ours."""
    for name in AWKWARD:
        api.create(name)
        api.write(name, name)
        assert [one["data"] for one in api.diff(name)["records"]][-1] == name

    pattern = re.compile(
        r"[a-z]+|\.penstock\.lock|penstock\.json|boot\.id|durable\.mark|shard-\d+|\d{2,8}"
        r"|(wal|snapshot|seg)-[0-9a-f]{16}\.(log|bin|data|idx|tags)|.*\.tmp"
    )
    strange = [p.name for p in shared.data_dir.rglob("*") if not pattern.fullmatch(p.name)]
    assert strange == []


def test_a_hostile_name_is_refused_wherever_it_stands(api: Api, topic: str) -> None:
    """S9: in bodies as in paths."""
    api.create(topic)
    for name in HOSTILE:
        if len(name) > 5_000:
            continue
        one = [{"data": 1}]
        assert api.post("/v0/batch", {"writes": [{"topic": name, "records": one}]}).status == 400
        assert api.put(f"/v0/topics/{topic}", {"dead_letter": name}).status == 400
        if not name.endswith("*"):
            assert api.post("/v0/watch", {"topics": {name: {}}}).status in (400, 404)
    with api.socket() as socket:
        for name in HOSTILE[:40]:
            answer = socket.ask("publish", topic=name, records=[{"data": 1}])
            assert answer["code"] == "invalid_request", name
