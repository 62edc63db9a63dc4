"""Two source trees in one run: the same load, alternately, and the ratios of the medians.

Every measurement gets a new process and an empty data directory. A round measures both trees, and
the order changes from round to round, so that a slow drift of the machine meets both alike.
"""

from __future__ import annotations

import platform
import statistics
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from benchmarks.compare_parts import PARTS, Part
from benchmarks.load_job import Load
from benchmarks.server_process import DidNotStart
from benchmarks.server_stand import Stand
from benchmarks.source_tree import SourceTree
from penstock.cli.figure import machine
from penstock.errors import InvalidArgument

QUIET_CORES: Final = 0.3  # other work below this does not disturb a run


class Comparison(msgspec.Struct, frozen=True):
    """One part, measured in both trees. Above 1, the ratios favour the head."""

    part: str
    description: str
    unit: str
    base: float = 0.0  # medians of the rates
    head: float = 0.0
    ratio: float = 0.0  # of the medians
    ratios: list[float] = []  # round by round
    base_cpu_us: float = 0.0  # medians of the measured process's CPU time, a record
    head_cpu_us: float = 0.0
    cpu_ratio: float = 0.0  # base over head
    others_cores: float = 0.0  # the most cores that other work used
    failure: str = ""


class CompareReport(msgspec.Struct, frozen=True):
    """All comparisons of a run, with everything that they depend on."""

    machine: str
    python: str
    disk: str
    command: str
    base: SourceTree
    head: SourceTree
    rounds: int
    seconds: float
    comparisons: list[Comparison]


def chosen(names: str) -> list[Part]:
    """The parts of a list with commas; all of them when it is empty."""
    wanted = [name.strip() for name in names.split(",") if name.strip()] or list(PARTS)
    unknown = [name for name in wanted if name not in PARTS]
    if unknown:
        raise InvalidArgument(f"unknown part {unknown[0]!r}: expected some of {', '.join(PARTS)}")
    return [PARTS[name] for name in wanted]


def new_report(
    base: SourceTree, head: SourceTree, *, disk: str, command: str, rounds: int, seconds: float
) -> CompareReport:
    return CompareReport(
        machine(), platform.python_version(), disk, command, base, head, rounds, seconds, []
    )


def comparisons(
    stand: Stand, parts: list[Part], base: SourceTree, head: SourceTree
) -> Iterator[Comparison]:
    """Part by part, as they are measured."""
    for part in parts:
        yield compare(part, stand.rounds, *_measurers(part, stand, base, head))


def _measurers(
    part: Part, stand: Stand, base: SourceTree, head: SourceTree
) -> tuple[Callable[[], Load], Callable[[], Load]]:
    def measurer(tree: SourceTree) -> Callable[[], Load]:
        def measure() -> Load:
            try:
                return part.measure(stand, tree)
            except (DidNotStart, OSError) as error:
                return Load(failure=f"{tree.name}: {error}")

        return measure

    return measurer(base), measurer(head)


def compare(
    part: Part, rounds: int, measure_base: Callable[[], Load], measure_head: Callable[[], Load]
) -> Comparison:
    """Measure both, `rounds` times each, in alternating order."""
    bases: list[Load] = []
    heads: list[Load] = []
    for number in range(rounds):
        pair = [(measure_base, bases), (measure_head, heads)]
        for measure, into in pair if number % 2 == 0 else reversed(pair):
            load = measure()
            if load.failure or not load.answers:
                reason = " ".join(load.failure.split()) or "no answer in the time given"
                return Comparison(part.name, part.description, part.unit, failure=reason)
            into.append(load)
    return _summary(part, bases, heads)


def _summary(part: Part, bases: list[Load], heads: list[Load]) -> Comparison:
    rates = [[load.per_second * part.records for load in loads] for loads in (bases, heads)]
    costs = [
        statistics.median(load.server_us / part.records for load in loads)
        for loads in (bases, heads)
    ]
    base, head = map(statistics.median, rates)
    return Comparison(
        part.name,
        part.description,
        part.unit,
        base,
        head,
        head / base,
        [two / one for one, two in zip(*rates, strict=True)],
        costs[0],
        costs[1],
        costs[0] / max(costs[1], 1e-9),
        max(load.others_cores for load in bases + heads),
    )


def head_lines(report: CompareReport) -> Iterator[str]:
    """Machine, command and commits."""
    yield f"{report.machine}, Python {report.python}; disk: {report.disk}"
    yield f"command: {report.command}"
    for side, tree in (("base", report.base), ("head", report.head)):
        yield f"{side}: {tree.name}: {tree.commit}; kernel {tree.kernel}"
    yield f"rounds: {report.rounds}, of {report.seconds:g} s each; a ratio above 1 favours the head"
    if report.base.kernel != report.head.kernel:
        yield "warning: one kernel is compiled and the other is not; the ratios mean little"


def tail_lines(report: CompareReport) -> Iterator[str]:
    """A warning if other work disturbed the run."""
    most = max((found.others_cores for found in report.comparisons), default=0.0)
    if most > QUIET_CORES:
        yield (
            f"disturbed: other work used up to {most:.1f} cores. The rates of this run are not "
            "reliable; compare the CPU times."
        )


def row(found: Comparison) -> str:
    """One line: medians, their ratio, the ratios of the rounds, CPU times."""
    if found.failure:
        return f"{found.part:<11} not measured: {found.failure}"
    low, high = min(found.ratios), max(found.ratios)
    return (
        f"{found.part:<11} {found.base:>12,.0f} → {found.head:>12,.0f} {found.unit:<10} "
        f"ratio {found.ratio:5.2f} ({low:.2f} to {high:.2f})  "
        f"CPU {found.base_cpu_us:.2f} → {found.head_cpu_us:.2f} µs, ratio {found.cpu_ratio:.2f}  "
        f"others {found.others_cores:.1f} cores  {found.description}"
    )
