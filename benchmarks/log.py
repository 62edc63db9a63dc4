"""The embedded log: append, group commit, read, recovery, delete by tag."""

from __future__ import annotations

from collections.abc import Generator

from benchmarks.appends import append_figures
from benchmarks.commits import commit_figures
from benchmarks.deletes import delete_figures
from benchmarks.reads import read_figures
from benchmarks.recoveries import recovery_figures
from penstock.cli.figure import Figure

PARTS = {
    "append": append_figures,
    "commit": commit_figures,
    "read": read_figures,
    "recovery": recovery_figures,
    "delete": delete_figures,
}


def log_figures(root: str, scale: float, only: str) -> Generator[Figure]:
    """Figures of the parts whose name starts with `only`."""
    for name, part in PARTS.items():
        if name.startswith(only):
            yield from part(root, scale)
