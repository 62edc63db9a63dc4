"""`penstock fsck`: is every byte what was written?"""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from penstock.cli import output, session
from penstock.cli.exits import ExitCode
from penstock.cli.options import DEFAULT_DIR, DIRECTORY, AsJson, DataDir, PlacedDir, chosen
from penstock.engine import layout
from penstock.engine.block import place
from penstock.engine.check import CheckReport, Problem, check
from penstock.engine.opening import take_lock
from penstock.engine.replay import recover
from penstock.engine.segments import SegmentShelf
from penstock.storage.fs import Filesystem, OsFilesystem
from penstock.storage.wal import files
from penstock.topics.registry import Registry


def register(app: typer.Typer) -> None:
    app.command(rich_help_panel=DIRECTORY)(fsck)


def fsck(
    directory: PlacedDir = None,
    skip_data: Annotated[
        bool, typer.Option("--skip-data", help="Leave out the records of sealed segments.")
    ] = False,
    as_json: AsJson = False,
    data_dir: DataDir = DEFAULT_DIR,
) -> None:
    """Check every file of a data directory. Changes nothing.

    Exits with 0 when all is well and with 3 when something is damaged.
    """
    root = session.root_of(chosen(directory, data_dir))
    with output.progress("Checking") as step:
        fs = OsFilesystem()
        report = _check_logs(fs, root) if skip_data else check(fs, root, progress=step)
    if as_json:
        output.json_line(msgspec.to_builtins(report))
    else:
        print_report(root, report)
    if not report.is_clean:
        raise typer.Exit(ExitCode.DAMAGE)


def _check_logs(fs: Filesystem, root: str) -> CheckReport:
    """What opening would find: the WAL and the snapshots, without reading the segments."""
    lock = take_lock(fs, root)
    try:
        held = layout.read(fs, root) or layout.Layout(root, bytes(16))
        shelf = SegmentShelf(fs, held.topics, held.log_id)
        found = recover(fs, held, Registry(place), shelf)
        wal = files.discover(fs, held.wal)
        byte_count = sum(fs.size(file.path) for file in wal)
    finally:
        lock.release()
    problems = [
        Problem(flaw.path, flaw.offset, "damage", flaw.reason, "run `penstock repair`")
        for flaw in found.verdict.damage
    ]
    for text in found.bad_snapshots:
        path, _, reason = text.partition(": ")
        problems.append(Problem(path, None, "derived", reason, "an older one is used"))
    replayed = found.records_replayed
    torn = len(found.verdict.torn)
    return CheckReport(not problems, problems, len(wal), replayed, replayed, byte_count, torn)


def print_report(root: str, report: CheckReport) -> None:
    """The verdict first, then each problem with its place and what to do."""
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
        output.line(f"{tails} at the end of the log: normal after a crash, cut when it is opened")
    for problem in report.problems:
        output.line(_problem(problem))


def _problem(problem: Problem) -> str:
    where = problem.path if problem.offset is None else f"{problem.path} at byte {problem.offset}"
    kind = output.paint(problem.kind, "yellow" if problem.kind == "derived" else "red")
    hint = output.paint(f"\n    {problem.hint}", "dim") if problem.hint else ""
    return f"  {kind}  {where}: {problem.reason}{hint}"
