"""The command as such: help, version, errors, pipes, signals. `Cli` is for all test_cli files."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import errors
from penstock.cli.exit_codes import ExitCode, code_of
from tests.support import spawn
from tests.support.serving import DEADLINE_S, MANY_SYNCS_S

DOCS = Path(__file__).parents[2] / "docs" / "operations" / "cli.md"
VERBS = (
    *("append", "read", "tail", "delete", "topics", "create", "drop"),
    *("wal", "fsck", "repair", "compact", "demo"),
)


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def json_lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


class Cli:
    """Runs the real command in a process of its own, on one data directory."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        clean = {k: v for k, v in os.environ.items() if not k.startswith("PENSTOCK_")}
        source = str(Path(penstock.__file__).parents[1])
        self.env = clean | {
            "PENSTOCK_DATA_DIR": str(data_dir),
            "PYTHONPATH": source,
            "PENSTOCK_WAL_SHARDS": "2",
            "COLUMNS": "120",
        }

    def command(self, *words: object) -> list[str]:
        return [sys.executable, "-m", "penstock.cli.main", *map(str, words)]

    def run(self, *words: object, stdin: str = "") -> Outcome:
        """Whatever comes of it."""
        done = spawn.run(list(map(str, words)), env=self.env, stdin=stdin, timeout=MANY_SYNCS_S)
        assert "Traceback" not in done.stderr, done.stderr
        return Outcome(done.returncode, done.stdout, done.stderr)

    def ok(self, *words: object, stdin: str = "") -> Outcome:
        """It must succeed."""
        outcome = self.run(*words, stdin=stdin)
        assert outcome.code == 0, outcome
        return outcome

    def wal_files(self) -> list[Path]:
        return sorted(self.data_dir.glob("wal/**/wal-*.log"), key=lambda path: path.name)

    def flip(self, path: Path, offset: int) -> None:
        data = bytearray(path.read_bytes())
        data[offset] ^= 0xFF
        path.write_bytes(data)

    @contextmanager
    def held(self) -> Iterator[int]:
        """The directory in use by another process, whose pid this is."""
        hold = (
            "import penstock, sys\n"
            "with penstock.open(sys.argv[1]):\n"
            "    print('open', flush=True)\n"
            "    sys.stdin.read()\n"
        )
        command = [sys.executable, "-c", hold, str(self.data_dir)]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, env=self.env, text=True, stdin=pipe, stdout=pipe) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stdout.readline() == "open\n"
            yield process.pid
            process.stdin.close()


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path / "data")


@pytest.fixture(scope="module")
def looked_at(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """A directory with one record, for commands that change nothing."""
    cli = Cli(tmp_path_factory.mktemp("cli") / "data")
    with penstock.open(cli.data_dir) as log:
        log.append("t", [1])
    return cli


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cli, int]]:
    """The same, in use by the process of this pid."""
    cli = Cli(tmp_path_factory.mktemp("held") / "data")
    with cli.held() as pid:
        yield cli, pid


def test_help_names_every_verb(cli: Cli) -> None:
    shown = cli.ok("--help").out

    for verb in VERBS:
        assert re.search(rf"^\W*{verb}\s", shown, re.MULTILINE), verb


def test_without_a_verb_the_help_is_shown(cli: Cli) -> None:
    assert cli.ok().out == cli.ok("--help").out
    assert "stats" in cli.ok("wal").out


def test_version_is_the_package_s(cli: Cli) -> None:
    assert cli.ok("--version").out.startswith(f"penstock {penstock.__version__} ")


@pytest.mark.parametrize(
    "words",
    [
        ("nonsense",),
        ("read",),
        ("read", "t", "--after", "-1"),
        ("read", "t", "--all", "--limit", "3"),
        ("read", "bad name"),
        ("tail", "t", "--after", "1", "--last", "1"),
        ("create", "t", "--durability", "eternal"),
        ("delete", "t"),
        ("drop", "t"),
        ("append", "t", "not json"),
        ("append", "t", "1", "--meta", "{"),
        ("append", "t", "1", "--file", "x"),
        ("append", "t", "--file", "no-such-file"),
        ("append", "t", "1", "--durability", "fsync"),
        ("wal", "read", "--from-offset", "a:b"),
        ("repair",),
    ],
)
def test_a_wrong_command_line_is_one_line_and_exit_2(
    looked_at: Cli, words: tuple[str, ...]
) -> None:
    outcome = looked_at.run(*words)

    assert outcome.code == ExitCode.USAGE
    assert outcome.out == ""
    assert outcome.err.startswith("penstock: ")
    assert outcome.err.count("\n") == 1


def test_errors_are_json_when_json_was_asked_for(looked_at: Cli) -> None:
    outcome = looked_at.run("read", "absent", "--json")

    assert outcome.code == ExitCode.TOPIC_NOT_FOUND
    assert json.loads(outcome.err) == {
        "error": {"code": "topic_not_found", "exit": 7, "message": "no topic named 'absent'"}
    }


@pytest.mark.parametrize(
    "words",
    [
        ("read", "t"),
        ("tail", "t"),
        ("topics",),
        ("delete", "t", "--tag", "x"),
        ("drop", "t", "--yes"),
        ("compact",),
        ("fsck",),
        ("repair", "--yes"),
        ("wal", "read"),
        ("wal", "stats"),
    ],
)
def test_only_writing_makes_a_data_directory(cli: Cli, words: tuple[str, ...]) -> None:
    outcome = cli.run(*words)

    assert outcome.code == ExitCode.USAGE
    assert "is not a Penstock data directory" in outcome.err
    assert not cli.data_dir.exists()


@pytest.mark.parametrize(
    "words",
    [
        ("read", "t"),
        ("append", "t", "1"),
        ("topics",),
        ("compact",),
        ("fsck",),
        ("repair", "--yes"),
    ],
)
def test_a_directory_in_use_is_refused_by_the_pid_of_its_holder(
    held: tuple[Cli, int], words: tuple[str, ...]
) -> None:
    cli, pid = held

    outcome = cli.run(*words)

    assert outcome.code == ExitCode.IN_USE
    assert f"in use by process {pid}" in outcome.err
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize(
    "words", [("read", "t", "--all"), ("read", "t", "--all", "--json"), ("wal", "read")]
)
def test_whoever_reads_the_output_may_leave_early(cli: Cli, words: tuple[str, ...]) -> None:
    with penstock.open(cli.data_dir) as log:
        log.append("t", [f"{number:0200}" for number in range(3_000)])

    with subprocess.Popen(
        cli.command(*words), env=cli.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        complaint = process.stderr.read()

    assert complaint == b""
    assert process.returncode == ExitCode.PIPE_CLOSED


def test_ctrl_c_ends_it_quietly(cli: Cli) -> None:
    cli.ok("append", "t", 1)

    with subprocess.Popen(
        cli.command("tail", "t", "--follow"),
        env=cli.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A shell that put the tests into the background has told them not to hear it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=DEADLINE_S)

    assert complaint == b""
    assert process.returncode == ExitCode.INTERRUPTED


def test_a_disk_that_refuses_is_a_storage_error(cli: Cli) -> None:
    cli.data_dir.write_text("a file where the directory should be")

    outcome = cli.run("append", "t", 1)

    assert outcome.code == ExitCode.STORAGE
    assert outcome.err.startswith(f"penstock: {cli.data_dir}: ")


def test_a_full_topic_has_an_exit_code_of_its_own(cli: Cli) -> None:
    cli.ok("create", "t", "--cap-records", 1, "--discard", "reject")
    cli.ok("append", "t", 1)

    assert cli.run("append", "t", 2).code == ExitCode.TOPIC_FULL


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.InvalidArgument("x"), ExitCode.USAGE),
        (errors.TopicExists("x"), ExitCode.USAGE),
        (errors.TopicNotFound("x"), ExitCode.TOPIC_NOT_FOUND),
        (errors.Overloaded("x", retry_after_ms=1), ExitCode.OVERLOADED),
        (errors.CorruptFrame("x", reason="y"), ExitCode.DAMAGE),
        (errors.SpoolHole("x", reason="y"), ExitCode.DAMAGE),
        (errors.SenderHalted("x"), ExitCode.REFUSED),
        (errors.SlotInUse("x", pid=1), ExitCode.IN_USE),
        (errors.DirectoryInUse("x", pid=1), ExitCode.IN_USE),
        (errors.LogFailed("x", reason="y"), ExitCode.STORAGE),
        (errors.FormatTooNew("x", reason="y"), ExitCode.STORAGE),
        (OSError(5, "x"), ExitCode.STORAGE),
        (KeyError("x"), ExitCode.BUG),
    ],
)
def test_every_error_has_its_exit_code(error: Exception, code: ExitCode) -> None:
    assert code_of(error) == code


@pytest.mark.parametrize("code", list(ExitCode))
def test_the_docs_list_every_exit_code(code: ExitCode) -> None:
    assert re.search(rf"^\| {int(code)} \|", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
