"""House rules that a reader of one file cannot check: each a test, each with its way out."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "penstock"
UNIT = ROOT / "tests" / "unit"
LINES_MAX = 600

# Path below src/penstock (a pattern) -> why it has no unit test of its own name.
EXEMPT = {
    "__init__.py": "a list of names",
    "*/__init__.py": "a list of names",
    "errors.py": "declarations; each is raised in the tests of whoever raises it",
    "types.py": "declarations; each is tried in the tests of whoever makes or reads it",
    "codec/options.py": "names of bits; what each shows is tried in test_kernel_project.py",
    "cli/*": "driven end to end, as a user would, in tests/integration",
    "server/app.py": "driven as a process, from start to stop, in tests/server",
    "server/commands.py": "driven over a WebSocket in tests/server/test_websocket.py",
    "server/sse.py": "driven over event streams in tests/server/test_stream.py and test_resume.py",
    "engine/deletion.py": "the verb is driven in tests/unit/engine/test_engine.py and by the model",
    "engine/audit.py": "driven with the server that writes it, in tests/server/test_audit.py",
    "engine/redrive.py": "driven whole in tests/server/test_queue_redrive.py",
    "engine/terms.py": "what the verbs of queues are given: tests/unit/engine/test_queues.py",
    "compat/qwp/adapter.py": "the handshake, driven over HTTP in tests/server/test_qwp.py",
    "server/adapters.py": "declarations of a seam; tests/server/test_qwp.py goes through it",
    "server/http/audits.py": "one handler: parse, call, render; tests/server/test_audit.py",
    "engine/queue_verbs.py": "verbs, each a line; driven in tests/unit/engine/test_queues.py",
    "engine/consumer_verbs.py": "verbs, each a line; driven in tests/unit/engine/test_consumers.py",
    "engine/keeping_verbs.py": "verbs, each a line: test_checkpoint.py and test_cold.py beside it",
    "engine/forward.py": "the path of a copy, driven whole in tests/unit/engine/test_routers.py",
    "engine/route.py": "state of the same path: tests/unit/engine/test_routers.py",
    "engine/router_verbs.py": "verbs, each a line; driven in tests/unit/engine/test_routers.py",
    "server/claims.py": "driven over HTTP in tests/server/test_queue_cohort.py and _claim.py",
    "server/work.py": "driven over event streams in tests/server/test_queue_work.py",
    "server/http/routers.py": "handlers: parse, call, render; driven in tests/server/test_router*",
    "server/http/paging.py": "pages of lists: tests/server/test_topics.py and test_router_list.py",
    "server/http/queues.py": "handlers: parse, call, render; driven in tests/server/test_queue_*",
    "server/http/exchange.py": "one half of a connection, driven whole in test_h1.py",
    "server/http/batches.py": "handlers: parse, call, render; driven in tests/server",
    "server/http/positions.py": "handlers: parse, call, render; driven in tests/server",
    "server/http/sockets.py": "handlers: parse, call, render; driven in tests/server",
    "server/http/topics.py": "handlers: parse, call, render; driven in tests/server",
    "server/http/admin.py": "handlers, too: tests/server/test_probes.py",
    "server/http/table.py": "a table; tests/server drives each route and each scope of it",
    "lake/bronze.py": "reads a log through Spark; driven in tests/spark/test_lake.py",
    "lake/decoding.py": "expressions of Spark; driven in tests/spark/test_lake_silver.py",
    "lake/frames.py": "reads and writes through Spark; driven in tests/spark/test_lake.py",
    "lake/gold.py": "runs SQL and Python on Spark; driven in tests/spark/test_lake_tables.py",
    "lake/reader.py": "options of one reader; driven in tests/spark/test_lake.py",
    "lake/runner.py": "driven whole in tests/spark/test_lake.py and test_lake_crash.py",
    "lake/sessions.py": "what the verbs run on; driven in tests/spark/test_lake_cli.py",
    "lake/silver.py": "follows bronze through Spark; driven in tests/spark/test_lake_silver.py",
    "lake/verify.py": "compares through Spark; driven in tests/spark/test_lake_verify.py",
    "testing/*": "used by the other tests, which fail when it is wrong",
}

# Files that may be long -> the reason.
LONG = {
    "src/penstock/codec/_kernel.py": "one translation unit, so that C inlines across it",
}

# A call by its full name -> the files that may make it.
CALLS = {
    "time.time": {"clock.py"},
    "time.sleep": {"clock.py"},
    "os.fsync": {"storage/fs.py"},
    "os.fdatasync": {"storage/fs.py"},
    "os.sync": set[str](),
}
UNSAFE_MODULES = {"pickle", "marshal", "shelve"}  # they run what they read
UNSAFE_CALLS = {"eval", "exec"}
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX)\b")
PRIVATE_PATH = re.compile(r"(?<![\w.-])/(?:work|root)/")
NOT_OURS = {".git", ".venv", ".venvs", "build", "dist", "__pycache__"}


@cache
def repository() -> tuple[Path, ...]:
    """Every file that is, or is about to be, tracked; a source archive has no git to ask."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listing = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        found = [p for p in ROOT.rglob("*") if not NOT_OURS & set(p.relative_to(ROOT).parts)]
    else:
        found = [ROOT / name for name in listing.decode().split("\0") if name]
    return tuple(sorted(path for path in found if path.is_file()))


def text_of(path: Path) -> str:
    """The text, or nothing for a binary file."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def inside(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(text_of(path), str(path))


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    return list(ast.walk(tree_of(path)))


def names_used(path: Path) -> Iterator[tuple[int, str]]:
    """Dotted names as written (`os.fsync`), and imported ones by their full name."""
    for node in nodes_of(path):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield node.lineno, f"{node.value.id}.{node.attr}"
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.lineno, node.module
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def calls_by_name(path: Path) -> Iterator[tuple[int, str]]:
    for node in nodes_of(path):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.lineno, node.func.id


SOURCES = sorted(PACKAGE.rglob("*.py"))


def test_a_module_says_what_it_is_for() -> None:
    silent = [inside(path) for path in SOURCES if not ast.get_docstring(tree_of(path))]

    assert not silent, "begin the file with a docstring"


def test_only_the_command_line_prints() -> None:
    found = [
        f"{inside(path)}:{line}"
        for path in SOURCES
        if not inside(path).startswith("cli/")
        for line, name in calls_by_name(path)
        if name == "print"
    ]

    assert not found, "return the value or use logging"


def test_nothing_read_is_ever_run() -> None:
    modules = [
        f"{inside(path)}:{line}: {name}"
        for path in SOURCES
        for line, name in names_used(path)
        if name.split(".")[0] in UNSAFE_MODULES
    ]
    calls = [
        f"{inside(path)}:{line}: {name}"
        for path in SOURCES
        for line, name in calls_by_name(path)
        if name in UNSAFE_CALLS
    ]

    assert not modules + calls, "bytes from a disk or a socket are data, never code"


def test_time_and_syncs_go_through_their_one_door() -> None:
    uses = [
        f"{inside(path)}:{line}: {name}"
        for path in SOURCES
        for line, name in names_used(path)
        if name in CALLS and inside(path) not in CALLS[name]
    ]

    assert not uses, "take a Clock, or go through storage.fs"


def test_checks_are_raises_and_not_assert_statements() -> None:
    """`python -O` removes assert statements, and a log must not check less when it runs faster."""
    found = [
        f"{inside(path)}:{node.lineno}"
        for path in SOURCES
        if not inside(path).startswith("testing/contracts/")  # only ever run under pytest
        for node in nodes_of(path)
        if isinstance(node, ast.Assert)
    ]

    assert not found, "raise AssertionError with what went wrong"


def test_a_source_file_has_its_unit_test_or_a_reason() -> None:
    missing = []
    for path in SOURCES:
        name = inside(path)
        twin = UNIT / Path(name).parent / f"test_{path.stem.lstrip('_')}.py"
        if not twin.exists() and not any(fnmatch(name, pattern) for pattern in EXEMPT):
            missing.append(twin.relative_to(ROOT))

    assert not missing, "write them, or give a reason in EXEMPT"


@pytest.mark.parametrize("pattern", EXEMPT)
def test_an_exemption_names_a_file_that_exists(pattern: str) -> None:
    assert any(fnmatch(inside(path), pattern) for path in SOURCES), "drop it from EXEMPT"


def test_no_file_has_grown_a_second_noun() -> None:
    long = {
        str(path.relative_to(ROOT)): count
        for path in repository()
        if path.suffix == ".py" and (count := len(text_of(path).splitlines())) > LINES_MAX
    }
    for name in LONG:
        long.pop(name)  # and fails when it is no longer long

    assert not long, f"over {LINES_MAX} lines: {long}: find the second noun and give it a file"


def test_nothing_is_left_for_later_in_a_comment() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in repository()
        if path.suffix in {".py", ".pyi", ".pxd", ".toml"} and path != Path(__file__)
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if UNFINISHED.search(line)
    ]

    assert not found, f"finish it, or open an issue: {found}"


def test_no_file_names_a_path_of_somebodys_machine() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in repository()
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if PRIVATE_PATH.search(line)
    ]

    assert not found, f"such a path exists on one machine only: {found}"
