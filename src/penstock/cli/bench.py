"""`penstock bench log`: what the engine does here, measured side by side with what bounds it."""

from __future__ import annotations

import os
import platform
import tempfile
from typing import Annotated

import msgspec
import typer

from penstock.cli import output
from penstock.cli.benchmarks import Figure, log_figures
from penstock.codec import kernel


class Report(msgspec.Struct, frozen=True):
    machine: str
    python: str
    kernel: str
    figures: list[Figure]


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, help="Measure, as ratios within one run.")
    group.command("log")(log)
    app.add_typer(group, name="bench")


def log(
    directory: Annotated[
        str, typer.Option("--directory", help="Where to write; must be a real disk.")
    ] = ".",
    scale: Annotated[
        float, typer.Option(help="1 is the full run; 0.1 is ten times shorter.")
    ] = 1.0,
    only: Annotated[str, typer.Option(help="Run the parts whose name starts with this.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """The embedded log: append, group commit, read, recovery, delete by tag."""
    figures: list[Figure] = []
    report = Report(
        f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}",
        platform.python_version(),
        "compiled" if kernel.COMPILED else "interpreted",
        figures,
    )
    if not as_json:
        output.line(f"{report.machine}, Python {report.python}, kernel {report.kernel}")
        output.line()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-", dir=directory) as root:
        for figure in log_figures(root, scale, only):
            figures.append(figure)
            if not as_json:
                output.line(_row(figure))
    if as_json:
        output.line(msgspec.json.encode(report).decode())


def _row(figure: Figure) -> str:
    goal = f"goal {figure.goal:>13,.1f}" if figure.goal is not None else ""
    mark = "" if figure.holds is None else ("ok" if figure.holds else "below")
    what = f"{figure.name:<58} {figure.value:>14,.1f} {figure.unit:<10}"
    return f"{what} {goal:<20} {mark:<6} {figure.note}".rstrip()
