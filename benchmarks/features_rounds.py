"""Rounds of several servers in turn, and the figures that are made of them: medians with ranges.

Each round starts its server anew: the peer keeps a core busy while it idles, which would disturb
the other.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from benchmarks.load_job import Load
from benchmarks.server_stand import Stand, nothing
from penstock.cli.figure import Figure

Measure = Callable[[int], Load]  # of one round, given its number


def alternate(stand: Stand, measures: Sequence[Measure]) -> list[list[Load]]:
    """The loads of each, a round of all before the next round of any."""
    found: list[list[Load]] = [[] for _ in measures]
    for number in range(stand.rounds):
        for loads, measure in zip(found, measures, strict=True):
            loads.append(measure(number))
    return found


def failure_of(*many: Sequence[Load]) -> str:
    """The first reason why a round has no result; empty if all have one."""
    return next((load.failure for loads in many for load in loads if load.failure), "")


def rate_figure(name: str, loads: Sequence[Load], events: int, note: str = "") -> Figure:
    """The median of the events a second, so many an answer."""
    failure = failure_of(loads)
    if failure:
        return nothing(name, "events/s", failure)
    rates = [load.per_second * events for load in loads]
    used = statistics.median(load.server_us for load in loads) / events
    others = max(load.others_cores for load in loads)
    said = [f"{min(rates):,.0f} to {max(rates):,.0f}", f"server CPU an event {used:.2f} µs"]
    said += [f"others up to {others:.2f} cores", *filter(None, [note])]
    return Figure(name, statistics.median(rates), "events/s", "; ".join(said))


def ratio_figure(
    name: str,
    ours: Sequence[Load],
    theirs: Sequence[Load],
    goal: float,
    value: Callable[[Load], float] = lambda load: load.per_second,
    *,
    at_most: bool = False,
) -> Figure:
    """The median over the rounds of ours by theirs."""
    failure = failure_of(ours, theirs)
    if failure:
        return nothing(name, "times", failure, goal, at_most=at_most)
    ratios = [value(one) / max(value(other), 1e-9) for one, other in zip(ours, theirs, strict=True)]
    note = f"rounds {min(ratios):.2f} to {max(ratios):.2f}"
    if not at_most:
        costs = [
            other.server_us / max(one.server_us, 1e-3)
            for one, other in zip(ours, theirs, strict=True)
        ]
        note += f"; by the servers' CPU time an event {statistics.median(costs):.2f}"
    return Figure(name, statistics.median(ratios), "times", note, goal, at_most)


def wait_figure(name: str, loads: Sequence[Load]) -> Figure:
    """The median of the rounds' p50."""
    failure = failure_of(loads)
    if failure:
        return nothing(name, "ms", failure)
    waits = [load.p50_ms for load in loads]
    p99 = statistics.median(load.p99_ms for load in loads)
    note = f"{min(waits):.3f} to {max(waits):.3f}; p99 {p99:.2f} ms"
    return Figure(name, statistics.median(waits), "ms", note)


def spread_figure(
    name: str,
    values: Sequence[float],
    unit: str,
    note: str = "",
    goal: float | None = None,
    *,
    at_most: bool = False,
) -> Figure:
    """The median of some values, with their range."""
    spread = f"{min(values):,.2f} to {max(values):,.2f}"
    said = f"{spread}; {note}" if note else spread
    return Figure(name, statistics.median(values), unit, said, goal, at_most)
