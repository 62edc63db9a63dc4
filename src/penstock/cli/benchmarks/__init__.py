"""Measurements of the embedded log. Each prints a figure and how it was taken."""

from __future__ import annotations

from collections.abc import Generator

from penstock.cli.benchmarks.appends import append_figures
from penstock.cli.benchmarks.commits import commit_figures
from penstock.cli.benchmarks.deletes import delete_figures
from penstock.cli.benchmarks.figure import Figure
from penstock.cli.benchmarks.reads import read_figures
from penstock.cli.benchmarks.recoveries import recovery_figures

__all__ = ["Figure", "log_figures"]

_PARTS = {
    "append": append_figures,
    "commit": commit_figures,
    "read": read_figures,
    "recovery": recovery_figures,
    "delete": delete_figures,
}


def log_figures(root: str, scale: float, only: str) -> Generator[Figure]:
    for name, part in _PARTS.items():
        if name.startswith(only):
            yield from part(root, scale)
