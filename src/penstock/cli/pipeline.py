"""`penstock pipeline`: topics as Parquet tables, through Spark."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from penstock.cli import output
from penstock.cli.exit_codes import ExitCode
from penstock.cli.options import MORE, AsJson
from penstock.cli.spark_options import (
    PANEL,
    Conf,
    Master,
    Memory,
    PyFiles,
    Remote,
    need_spark,
    spark_target,
)
from penstock.clock import SystemClock
from penstock.errors import InvalidArgument
from penstock.lake.project import FILE, Project, parsed
from penstock.lake.template import FILES
from penstock.storage.fs import OsFilesystem

if TYPE_CHECKING:  # Spark is loaded by the verbs that run it
    from penstock.lake.runner import Runner, RunReport
    from penstock.lake.verify import VerifyReport

_NAME = "penstock pipeline"  # of the Spark session
Where = Annotated[
    Path,
    typer.Argument(metavar="DIR", show_default=False, help="Folder that contains pipeline.toml."),
]
Ui = Annotated[
    bool,
    typer.Option("--ui", help="Serve the Spark UI and print its address.", rich_help_panel=PANEL),
]
SkipCorrupt = Annotated[
    bool, typer.Option("--skip-corrupt", help="Skip damaged records and list them.")
]


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Topics as Parquet tables, through Spark.", no_args_is_help=True)
    group.command()(init)
    group.command()(run)
    group.command()(status)
    group.command()(verify)
    app.add_typer(group, name="pipeline", rich_help_panel=MORE)


def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Write a template project. Existing files are not changed."""
    if (directory / FILE).exists():
        raise InvalidArgument(
            f"{directory / FILE} exists already: choose another folder, or edit this file"
        )
    directory.mkdir(parents=True, exist_ok=True)
    made = []
    for name, text in FILES.items():
        path = directory / name
        if not path.exists():
            path.write_text(text, encoding="utf-8")
            made.append(str(path))
    if as_json:
        output.json_line({"files": made})
        return
    output.line(f"wrote {' and '.join(made)}")
    output.line(f"edit {FILE} to name the log, then run: penstock pipeline run {directory}")


def run(
    directory: Where = Path(),
    continuous: Annotated[
        bool,
        typer.Option(
            "--continuous/--available-now",
            help="Run until stopped, or process the present records and end.",
        ),
    ] = False,
    interval: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.0, help="Pause between two rounds.")
    ] = 10.0,
    master: Master = "local[*]",
    remote: Remote = "",
    memory: Memory = "2g",
    conf: Conf = None,
    py_files: PyFiles = None,
    ui: Ui = False,
    skip_corrupt: SkipCorrupt = False,
    as_json: AsJson = False,
) -> None:
    """Bring the lake up to date with its log. May be stopped at any time."""
    need_spark()
    from penstock.lake import continuous_run, layout, sessions
    from penstock.lake.runner import Runner

    project = load(directory)
    where = spark_target(_NAME, master, remote, memory, conf, py_files, ui=ui)
    with (
        layout.locked(OsFilesystem(), project),
        sessions.opened(project.lake.path, where) as spark,
    ):
        if address := sessions.ui_of(spark):
            output.info(f"Spark UI: {address}")
        runner = Runner(project, spark, skip_corrupt=skip_corrupt)
        if not continuous:
            _round(runner, as_json=as_json)
            return
        with _stopping() as stop:
            continuous_run.run_until_stopped(
                lambda: _round(runner, as_json=as_json),
                stop,
                interval_s=interval,
                path=project.lake.path,
                report=output.info,
            )


def _round(runner: Runner, *, as_json: bool) -> None:
    start = SystemClock().monotonic()
    with output.stages() as step:
        report = runner.run(step)
    _print_run(report, SystemClock().monotonic() - start, as_json=as_json)


def status(directory: Where = Path(), as_json: AsJson = False) -> None:
    """Show what is committed and how far it is behind the log. Does not start Spark."""
    from penstock.lake.status import status as status_of

    found = status_of(OsFilesystem(), load(directory))
    if as_json:
        output.json_line(found)
        return
    rows = [
        [
            one.name,
            str(one.version),
            output.moment(one.made_ms) if one.version else "-",
            " ".join(f"{part}={count}" for part, count in one.rows.items()) or "-",
            str(one.files),
            output.size(one.bytes),
        ]
        for one in found.tables
    ]
    output.table(
        ["table", "version", "committed", "rows", "files", "size"], rows, right="version files size"
    )
    output.line()
    topics = [
        [one.name, str(one.epoch), str(one.seq), str(one.head_seq), str(one.lag)]
        for one in found.topics
    ]
    output.table(["topic", "epoch", "read", "head", "lag"], topics, right="epoch read head lag")
    if found.is_running:
        output.info("a run is in progress")


def verify(
    directory: Where = Path(),
    master: Master = "local[*]",
    remote: Remote = "",
    memory: Memory = "2g",
    conf: Conf = None,
    py_files: PyFiles = None,
    skip_corrupt: SkipCorrupt = False,
    as_json: AsJson = False,
) -> None:
    """Read the log again and compare it with the lake. Exits with 3 if they differ."""
    need_spark()
    from penstock.lake import layout, sessions
    from penstock.lake.verify import Verifier

    project = load(directory)
    where = spark_target(_NAME, master, remote, memory, conf, py_files)
    with (
        layout.locked(OsFilesystem(), project),
        sessions.opened(project.lake.path, where) as spark,
    ):
        verdict = Verifier(project, spark, skip_corrupt=skip_corrupt).verify()
    _print_verdict(verdict, as_json=as_json)
    if verdict.differences:
        raise typer.Exit(ExitCode.DAMAGE)


def load(directory: Path) -> Project:
    """The project in a directory, or InvalidArgument."""
    path = directory / FILE
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InvalidArgument(
            f"{path} does not exist: `penstock pipeline init` writes one"
        ) from None
    except UnicodeDecodeError:
        raise InvalidArgument(f"{path} is not a text file: expected TOML in UTF-8") from None
    try:
        return parsed(text, os.path.abspath(directory))
    except InvalidArgument as error:
        raise InvalidArgument(f"{path}: {error}") from None


@contextlib.contextmanager
def _stopping() -> Iterator[threading.Event]:
    """An event that SIGTERM and Ctrl-C set. A round that has begun is finished first."""
    stop = threading.Event()
    before = {
        number: signal.signal(number, lambda *_: stop.set())
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _print_run(report: RunReport, seconds: float, *, as_json: bool) -> None:
    if as_json:
        output.json_line(_plain(report) | {"seconds": round(seconds, 3)})
        output.flush()
        return
    heads = ["records", "bytes", "lag", "gaps", "files", "rows", "quarantined", "deleted"]
    cells = [
        f"{report.records:,}",
        output.size(report.bytes),
        f"{report.lag:,}",
        f"{len(report.gaps):,}",
        f"{report.files:,}",
        f"{report.rows:,}",
        f"{report.quarantined:,}",
        f"{report.deleted:,}",
    ]
    output.table(heads, [cells], right=" ".join(heads))
    for row in report.gaps:
        if row not in report.skipped:
            output.line(f"gap: {row}")
    for row in report.skipped:
        output.line(f"skipped: {row}")
    output.flush()


def _plain(report: RunReport) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(dataclasses.asdict(report))
    return found


def _print_verdict(verdict: VerifyReport, *, as_json: bool) -> None:
    if as_json:
        output.json_line(verdict)
        return
    looked = f"{output.many(verdict.files, 'file')}, {output.many(verdict.records, 'record')}"
    if verdict.differences:
        word = output.paint(output.many(len(verdict.differences), "difference"), "red bold")
    else:
        word = output.paint("equal", "green bold")
    gone = f", {verdict.gone:,} removed from the log since" if verdict.gone else ""
    output.line(f"{word} ({looked}{gone})")
    for one in verdict.differences:
        output.line(f"  {one}")
