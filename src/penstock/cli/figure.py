"""Measured numbers: how they are taken in a scratch folder, and how they are printed.

`penstock bench log` uses this, and so do the benchmarks of the repository, which are not installed.
"""

from __future__ import annotations

import contextlib
import math
import os
import platform
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import msgspec

from penstock.cli import output
from penstock.cli.scratch import remove, scratch
from penstock.codec import kernel

PAYLOAD = (  # 100 bytes
    b'{"user":12345,"event":"page_view","path":"/products/9876",'
    b'"ms":42,"ref":"https://shop.example/home"}'
)


class Figure(msgspec.Struct, frozen=True):
    """One measured number. `goal` is a lower bound, or an upper bound with `at_most`.

    The value is NaN when it could not be measured; the note gives the reason.
    """

    name: str
    value: float
    unit: str
    note: str = ""
    goal: float | None = None
    at_most: bool = False

    @property
    def holds(self) -> bool | None:
        if self.goal is None or math.isnan(self.value):
            return None
        return self.value <= self.goal if self.at_most else self.value >= self.goal


class FigureReport(msgspec.Struct, frozen=True):
    """All figures of one run, as `--json` prints them."""

    machine: str
    python: str
    kernel: str
    figures: list[Figure]


def report_figures(
    figures_in: Callable[[str], Generator[Figure]], directory: Path | None, *, as_json: bool
) -> None:
    """Measure in a scratch folder. Print each figure when it is taken, or one report at the end."""
    report = FigureReport(machine(), platform.python_version(), kernel_form(), [])
    if not as_json:
        output.line(f"{report.machine}, Python {report.python}, kernel {report.kernel}")
        output.line()
    with scratch(directory, "bench") as root:
        report.figures.extend(print_figures(figures_in(root), as_json=as_json))
    if as_json:
        output.json_line(report)


def print_figures(figures: Generator[Figure], *, as_json: bool) -> list[Figure]:
    """Collect the figures. Print each when it is taken, unless all are printed as JSON later."""
    taken = []
    # Closed here, whatever happens: that ends the servers which write into the scratch folder.
    with contextlib.closing(figures):
        for figure in figures:
            taken.append(figure)
            if not as_json:
                output.line(row(figure))
                output.flush()
    return taken


def machine() -> str:
    return f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}"


def kernel_form() -> str:
    return "compiled" if kernel.COMPILED else "interpreted"


def row(figure: Figure) -> str:
    """The line of a figure: name, value, unit, goal, whether the goal is met, note."""
    goal = ""
    if figure.goal is not None:
        # A goal of 1 or more needs one digit; a smaller one is a ratio and needs two.
        digits = 1 if figure.goal >= 1 else 2
        goal = f"goal {'≤' if figure.at_most else '≥'} {figure.goal:,.{digits}f}"
    missed = "above" if figure.at_most else "below"
    mark = "" if figure.holds is None else ("ok" if figure.holds else missed)
    value = "–" if math.isnan(figure.value) else f"{figure.value:,.{_digits(figure)}f}"
    what = f"{figure.name:<58} {value:>14} {figure.unit:<10}"
    return f"{what} {goal:<20} {mark:<6} {figure.note}".rstrip()


def _digits(figure: Figure) -> int:
    return 3 if figure.unit == "ms" and figure.value < 10 else 2 if figure.unit == "times" else 1


@contextlib.contextmanager
def folder(root: str) -> Iterator[str]:
    """A new directory that is removed afterwards: no measurement reads the files of another."""
    path = tempfile.mkdtemp(dir=root)
    try:
        yield path
    finally:
        remove(path)


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def best(rounds: int, measure: Callable[[], float]) -> float:
    """The highest rate of several rounds: other work on the machine slowed down the rest."""
    return max(measure() for _ in range(rounds))
