"""Every benchmark writes to a scratch folder outside the current directory.

The measurements themselves are replaced; `test_runs.py` beside this file takes them.
"""

from __future__ import annotations

import os
import resource
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from benchmarks import command_line, features, queues, routers, senders, server, spark
from benchmarks.command_line import app, run
from penstock.cli import output
from penstock.cli.exit_codes import ExitCode
from penstock.cli.figure import Figure
from penstock.cli.main import app as penstock_app
from penstock.errors import InvalidArgument

Measure = Callable[[str], Iterator[Figure]]
FIGURES = {
    "log": (command_line, "log_figures"),
    "server": (server, "server_figures"),
    "queue": (queues, "queue_figures"),
    "router": (routers, "router_figures"),
    "sender": (senders, "sender_figures"),
    "features": (features, "feature_figures"),
    "spark": (spark, "spark_figures"),
}
each = pytest.mark.parametrize("verb", FIGURES)


@pytest.fixture(autouse=True)
def open_files() -> Iterator[None]:
    """`server` raises the limit of its process."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


class Rig:
    """Replaces the measurements of one verb, and runs it in an empty directory."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.system, self.given, self.current = (home / n for n in ("system", "given", "current"))
        for path in (self.system, self.given, self.current):
            path.mkdir()
        monkeypatch.setenv("TMPDIR", str(self.system))
        monkeypatch.setattr(tempfile, "tempdir", None)  # Python looks once only
        monkeypatch.chdir(self.current)
        self._patch = monkeypatch
        self.root = Path()
        self.existed_at_the_end = False

    def run(self, verb: str, *options: str, error: BaseException | None = None) -> int:
        module, name = FIGURES[verb]

        def figures(root: Any, *_: object) -> Generator[Figure]:
            self.root = Path(getattr(root, "root", root))
            (self.root / "some").write_text("data")
            assert not list(self.current.iterdir())
            try:
                yield Figure("one", 1, "times")
                if error is not None:
                    raise error
            finally:
                self.existed_at_the_end = self.root.is_dir()

        self._patch.setattr(module, name, figures)
        return run([verb, *options])

    def is_empty(self) -> bool:
        return not any(map(os.listdir, (self.system, self.given, self.current)))


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(tmp_path, monkeypatch)


@each
def test_scratch_files_go_to_the_system_s_temporary_folder(verb: str, rig: Rig) -> None:
    assert rig.run(verb) == ExitCode.OK

    assert rig.root.parent == rig.system
    assert rig.is_empty()


@each
@pytest.mark.parametrize("option", ["--dir", "--directory"])
def test_scratch_files_go_to_the_folder_that_is_given(verb: str, option: str, rig: Rig) -> None:
    assert rig.run(verb, option, "../given") == ExitCode.OK

    assert rig.root.parent == rig.given
    assert rig.is_empty()


@each
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KeyboardInterrupt(), ExitCode.INTERRUPTED),
        (InvalidArgument("wrong"), ExitCode.USAGE),
        (OSError("full"), ExitCode.STORAGE),
    ],
    ids=["ctrl-c", "error", "disk"],
)
def test_they_are_removed_after_a_failure(
    verb: str, error: BaseException, code: ExitCode, rig: Rig
) -> None:
    assert rig.run(verb, error=error) == code

    assert rig.root.parent == rig.system
    assert rig.is_empty()


@each
def test_what_a_measurement_started_is_ended_before_its_files_are_removed(
    verb: str, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is not one of the measurement, which is suspended at its `yield` meanwhile."""

    def nobody_reads() -> None:
        raise output.PipeClosed

    monkeypatch.setattr(output, "flush", nobody_reads)

    assert rig.run(verb) == ExitCode.PIPE_CLOSED

    assert rig.existed_at_the_end
    assert rig.is_empty()


@each
def test_a_folder_that_does_not_exist_is_refused(verb: str, rig: Rig) -> None:
    assert rig.run(verb, "--dir", "nowhere") == ExitCode.USAGE

    assert rig.is_empty()


def test_the_option_is_the_same_everywhere() -> None:
    group: Any = typer.main.get_command(app)
    context = typer.Context(group)
    penstock: Any = typer.main.get_command(penstock_app)
    bench = penstock.get_command(context, "bench")
    verbs = [group.get_command(context, name) for name in group.list_commands(context)]
    verbs += [bench.get_command(context, "log"), penstock.get_command(context, "demo")]

    found = {
        (tuple(option.opts), option.help, option.default, option.show_default)
        for verb in verbs
        for option in verb.params
        if "--dir" in option.opts
    }

    assert {verb.name for verb in verbs} == {*FIGURES, "compare", "features", "demo"}
    assert all(any("--dir" in option.opts for option in verb.params) for verb in verbs)
    assert len(found) == 1
