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
LINES_MAX = 500  # of a source file without a reason
TEST_LINES_MAX = 600

# Path below src/penstock (a pattern) -> why it has no unit test of its own name.
EXEMPT = {
    "__init__.py": "a list of names",
    "*/__init__.py": "a list of names",
    "verb_keywords.py": "declarations; tests/unit/client/test_client.py compares the verbs",
    "engine/open_log.py": "the first line of most tests of the engine",
    "errors.py": "declarations; each is raised in the tests of whoever raises it",
    "types.py": "declarations; each is tried in the tests of whoever makes or reads it",
    "codec/kernel_source/*": "both forms are tried in tests/unit/codec/test_kernel*.py",
    "features/kernel_source/*": "both forms are tried with each operator",
    "schema_types.py": "declarations; tried in tests/unit/server/test_openapi_schemas.py",
    "entries.py": "declarations; tried in tests/unit/codec/test_entry.py and the registry's",
    "codec/projection_options.py": "names of bits; tried in test_kernel_project.py",
    "cli/*": "driven end to end, as a user would, in tests/integration",
    "server/app.py": "driven as a process, from start to stop, in tests/server",
    "server/websocket_commands.py": "driven over a WebSocket in tests/server/test_websocket.py",
    "server/sse.py": "driven over event streams in tests/server/test_stream.py and test_resume.py",
    "engine/deletion.py": "the verb is driven in tests/unit/engine/test_engine.py and by the model",
    "engine/audit.py": "driven with the server that writes it, in tests/server/test_audit.py",
    "engine/redrive.py": "driven whole in tests/server/test_queue_redrive.py",
    "sender/backpressure.py": "one error; its kinds are met in tests/faults/test_sender_outage.py",
    "topics/gaps.py": "the first half of each plan: tests/unit/topics/test_read_plan.py",
    "directory/power_cut_losses.py": "the end of each recovery: tests/unit/engine/test_append.py",
    "engine/lease_options.py": "driven in: tests/unit/engine/test_queues.py",
    "engine/lease_answer.py": "both ways to answer: tests/unit/engine/test_queues_submit.py",
    "engine/job_offers.py": "a half of every claim: tests/unit/engine/test_queues*.py",
    "client/async_delayed.py": "both forms are tried in test_delayed_calls.py",
    "client/delayed.py": "generated from async_delayed.py",
    "client/async_early_refusal.py": "both forms are tried in test_early_refusal.py",
    "client/async_features.py": "driven against a server in tests/server/test_feature_clients.py",
    "client/features.py": "generated from async_features.py",
    "client/async_table.py": "driven against a server in tests/server/test_tables.py",
    "client/table.py": "generated from async_table.py",
    "server/http/tables.py": "handlers: parse, call, render; driven in tests/server/test_tables.py",
    "server/table_stream.py": "driven over event streams in tests/server/test_tables.py",
    "server/openapi_delayed.py": "declarations; tests/server/test_openapi.py holds answers to them",
    "server/openapi_tables.py": "declarations; tests/server/test_openapi.py holds answers to them",
    "wire/tables.py": "declarations; tests/server/test_tables.py decodes and reads each",
    "client/async_response_stream.py": "both forms are tried in test_response_stream.py",
    "compat/beava/admin_routes.py": "one port: tests/server/test_beava.py reads each of its paths",
    "compat/beava/frame_verbs.py": "answers to frames: tests/server/test_beava.py",
    "compat/beava/http_listener.py": "a port; driven over HTTP in tests/server/test_beava.py",
    "compat/beava/http_routes.py": "handlers: parse, call, render; tests/server/test_beava.py",
    "compat/beava/listeners.py": "a list of the ports; tests/server/test_beava.py uses each",
    "compat/beava/pusher.py": "driven by the official client: test_beava_official.py",
    "compat/beava/reader.py": "driven by the official client: test_beava_official.py",
    "compat/beava/registrar.py": "driven by the official client: test_beava_official.py",
    "compat/beava/verbs.py": "three members; every test of tests/server/test_beava.py uses them",
    "compat/qwp/adapter.py": "the handshake, driven over HTTP in tests/server/test_qwp.py",
    "server/adapters.py": "declarations of a seam; tests/server/test_qwp.py goes through it",
    "server/http/audit.py": "one handler: parse, call, render; tests/server/test_audit.py",
    "engine/router_step.py": "driven whole in tests/unit/engine/test_routers.py",
    "engine/copy_references.py": "a half of each step: tests/unit/engine/test_routers.py",
    "engine/router_state.py": "state of the same path: tests/unit/engine/test_routers.py",
    "server/worker_stream.py": "driven over event streams in tests/server/test_queue_work.py",
    "server/http/routers.py": "handlers: parse, call, render; driven in tests/server/test_router*",
    "server/http/paging.py": "pages of lists: tests/server/test_topics.py and test_router_list.py",
    "server/http/queues.py": "handlers: parse, call, render; driven in tests/server/test_queue_*",
    "server/http/delayed.py": "handlers: parse, call, render; driven in tests/server",
    "server/http/exchange.py": "one half of a connection, driven whole in test_h1.py",
    "server/http/batches.py": "handlers: parse, call, render; driven in tests/server",
    "server/http/positions.py": "handlers: parse, call, render; driven in tests/server",
    "server/http/sockets.py": "handlers: parse, call, render; driven in tests/server",
    "server/http/topics.py": "handlers: parse, call, render; driven in tests/server",
    "server/http/admin.py": "handlers, too: tests/server/test_probes.py",
    "server/http/route_table.py": "a table; tests/server drives each route and each scope of it",
    "engine/feature_log.py": "the log of a store: tests/unit/features/test_store.py",
    "feature_types.py": "declarations; tried in the tests of whoever makes or reads them",
    "features/feature_log.py": "the seam; tests/unit/features/test_event_push.py has another",
    "features/feature_view.py": "every read of the store: tests/unit/features/test_store.py",
    "features/feature_reads.py": "tests/unit/features/test_store.py has reads of several rows",
    "features/feature_status.py": "what the store shows: tests/unit/features/test_store.py",
    "server/features.py": "the store on the loop; driven in tests/server/test_features.py",
    "server/feature_feed.py": "driven over event streams in tests/server/test_feature_watch.py",
    "server/feature_stream.py": "driven over an event stream in tests/server/test_features.py",
    "spark/feature_*.py": "jobs of Spark, driven whole in tests/spark",
    "server/http/features.py": "handlers: parse, call, render; tests/server/test_features.py",
    "server/openapi_features.py": "a table; tests/server/test_openapi.py holds answers against it",
    "wire/features.py": "declarations; each is met in tests/server/test_features.py",
    "features/operators/operator.py": "the seam; each operator has a test of its own",
    "features/operators/operator_kind.py": "declarations; tried with each operator",
    "features/operators/operator_names.py": "a list of names; tried in test_catalogue.py",
    "spark/feature_tables.py": "joins the stages on Spark; driven in tests/spark/test_features.py",
    "lake/bronze.py": "reads a log through Spark; driven in tests/spark/test_lake.py",
    "lake/bronze_records.py": "reads through Spark; driven in tests/spark/test_feature_cli.py",
    "lake/decoding.py": "expressions of Spark; driven in tests/spark/test_lake_silver.py",
    "lake/dataframes.py": "reads and writes through Spark; driven in tests/spark/test_lake.py",
    "lake/gold.py": "runs SQL and Python on Spark; driven in tests/spark/test_lake_tables.py",
    "lake/reader.py": "options of one reader; driven in tests/spark/test_lake.py",
    "lake/runner.py": "driven whole in tests/spark/test_lake.py and test_lake_crash.py",
    "lake/sessions.py": "what the verbs run on; driven in tests/spark/test_lake_cli.py",
    "lake/silver.py": "follows bronze through Spark; driven in tests/spark/test_lake_silver.py",
    "lake/verify.py": "compares through Spark; driven in tests/spark/test_lake_verify.py",
    "testing/*": "used by the other tests, which fail when it is wrong",
}

# Files that may be long -> the reason.
LONG: dict[str, str] = {
    "src/penstock/client/async_client.py": "every verb of the server, one method each",
    "src/penstock/client/client.py": "generated from async_client.py",
    "src/penstock/engine/queues.py": "the verbs of a queue share offering, leasing and removal",
    "src/penstock/features/table_part.py": "folding, reading, saving, moving keys share its slots",
    "src/penstock/projections/runner.py": "restoring, folding, saving, loading share its locks",
    "src/penstock/sender/delivery_loop.py": "one thread's loop: connect, send, read answers, retry",
    "src/penstock/sender/sender.py": "rows, flush timer and close share one lock",
    "src/penstock/sender/spool.py": "three threads share its locks; one file has their order",
    "src/penstock/server/http/h1.py": "one connection: parser and deadlines share state",
    "src/penstock/server/service.py": "the one bridge between the event loop and the log",
    "src/penstock/storage/wal/shard.py": "one state machine: five queues of commits, two locks",
    "src/penstock/testing/fs.py": "a whole file system with faults, one class each",
    "src/penstock/wire/answers.py": "declarations of every HTTP answer",
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


def test_a_long_file_has_a_reason() -> None:
    """Length is a smell: there may be a second noun in the file. It is no target."""
    long = {}
    for path in repository():
        name = str(path.relative_to(ROOT))
        most = LINES_MAX if name.startswith("src/") else TEST_LINES_MAX
        if path.suffix == ".py" and (count := len(text_of(path).splitlines())) > most:
            long[name] = count

    assert set(long) == set(LONG), "find the second noun, or give (or drop) the reason in LONG"


def test_a_public_class_name_stands_for_one_thing() -> None:
    homes: dict[str, list[str]] = {}
    for path in SOURCES:
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(inside(path))

    assert not {name: found for name, found in homes.items() if len(found) > 1}


# An assignment or call by its last name -> the files that may make it. State changes in one way.
STATE_DOORS = {
    "PendingCommit(": {"engine/journal.py", "storage/wal/pending_commit.py"},
    ".position = ": {
        "engine/journal.py",  # an append that a caller's thread publishes
        "directory/snapshot_parts.py",
        "topics/registry.py",
        "topics/topic.py",
    },
    "registry.apply(": {"engine/journal.py", "directory/replay.py", "directory/directory_view.py"},
    "queue.apply(": {"topics/registry.py"},
}


@pytest.mark.parametrize("door", STATE_DOORS)
def test_state_changes_through_the_journal_and_through_replay(door: str) -> None:
    found = [
        f"{inside(path)}:{number}"
        for path in SOURCES
        if inside(path).startswith(("directory/", "engine/", "topics/", "storage/wal/"))
        and inside(path) not in STATE_DOORS[door]
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if door in line and not line.lstrip().startswith("#")
    ]

    assert not found, "submit an entry to engine/journal.py"


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
