"""`penstock fsck`: check the files of a data directory."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from penstock.cli import output, target
from penstock.cli.exit_codes import ExitCode
from penstock.cli.options import DEFAULT_DIR, DIRECTORY, AsJson, DataDir, PlacedDir, chosen
from penstock.engine.fsck import CheckReport, Problem, check
from penstock.storage.fs import OsFilesystem


def register(app: typer.Typer) -> None:
    app.command(rich_help_panel=DIRECTORY)(fsck)


def fsck(
    directory: PlacedDir = None,
    skip_data: Annotated[
        bool, typer.Option("--skip-data", help="Skip the records of sealed segments.")
    ] = False,
    as_json: AsJson = False,
    data_dir: DataDir = DEFAULT_DIR,
) -> None:
    """Check every file of a data directory. Changes nothing.

    Exits with 0 if no file is damaged, and with 3 otherwise.
    """
    root = target.root_of(chosen(directory, data_dir))
    with output.progress("Checking") as step:
        report = check(OsFilesystem(), root, progress=step, skip_data=skip_data)
    if as_json:
        output.json_line(msgspec.to_builtins(report))
    else:
        print_report(root, report)
    if not report.is_clean:
        raise typer.Exit(ExitCode.DAMAGE)


def print_report(root: str, report: CheckReport) -> None:
    """The result first, then each problem with its position and a hint."""
    if report.is_clean:
        verdict = output.paint("clean", "green bold")
    else:
        verdict = output.paint(output.many(len(report.problems), "problem"), "red bold")
    output.line(
        f"{root}: {verdict} "
        f"({output.many(report.files, 'file')}, {output.many(report.frames, 'frame')}, "
        f"{output.many(report.records, 'record')}, {output.size(report.bytes)})"
    )
    if report.torn:
        tails = output.many(report.torn, "unfinished write")
        output.line(
            f"{tails} at the end of the log: normal after a crash, removed at the next open"
        )
    for problem in report.problems:
        output.line(_problem(problem))


def _problem(problem: Problem) -> str:
    where = problem.path if problem.offset is None else f"{problem.path} at byte {problem.offset}"
    kind = output.paint(problem.kind, "yellow" if problem.kind == "derived" else "red")
    hint = output.paint(f"\n    {problem.hint}", "dim") if problem.hint else ""
    return f"  {kind}  {where}: {problem.reason}{hint}"
