"""`penstock repair`: make a damaged data directory usable; the old bytes are kept."""

from __future__ import annotations

import os
from typing import Annotated

import msgspec
import typer

from penstock import config
from penstock.cli import output, target
from penstock.cli.options import DEFAULT_DIR, DIRECTORY, AsJson, DataDir, PlacedDir, Yes, chosen
from penstock.clock import SystemClock
from penstock.engine import repair as repairs
from penstock.engine.repair import RepairReport
from penstock.storage.fs import OsFilesystem


def register(app: typer.Typer) -> None:
    app.command(rich_help_panel=DIRECTORY)(repair)


def repair(
    directory: PlacedDir = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the steps without taking them.")
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
    data_dir: DataDir = DEFAULT_DIR,
) -> None:
    """Make a damaged data directory usable again.

    Bytes that are removed are first copied to a file beside. Records that can no longer be read
    become a gap, which readers get.
    """
    root = target.root_of(chosen(directory, data_dir))
    if not dry_run:
        target.confirm(f"repair {root}", yes=yes)
    with output.progress("Repairing") as step:
        report = repairs.repair(
            OsFilesystem(),
            root,
            SystemClock(),
            progress=step,
            dry_run=dry_run,
            allow_network_fs=config.from_environment(os.environ).allow_network_fs,
        )
    if as_json:
        output.json_line({"dry_run": dry_run, **msgspec.to_builtins(report)})
    else:
        _print(root, report, dry_run=dry_run)


def _print(root: str, report: RepairReport, *, dry_run: bool) -> None:
    if not report.actions:
        output.line(f"{root}: nothing to repair")
        return
    would = "would take " if dry_run else ""
    lost = output.many(report.records_lost, "record")
    steps = output.many(len(report.actions), "step")
    output.line(f"{root}: {would}{steps}, {lost} lost")
    for action in report.actions:
        output.line(f"  {action.path}: {action.what}")
        if action.records_lost:
            output.line(f"    {output.many(action.records_lost, 'record')} lost")
        if action.saved_as:
            output.line(output.paint(f"    the old bytes are in {action.saved_as}", "dim"))
