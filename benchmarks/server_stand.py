"""The test stand: runs jobs against servers on chosen cores, and makes figures of the results."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence

import msgspec

from benchmarks.load_cpu import Cores, Placement, place
from benchmarks.load_job import Job, Load
from benchmarks.load_process import run_job
from benchmarks.server_process import Missing, Server
from penstock.cli.figure import Figure, folder

Attempt = tuple[Server, Job]
Rated = tuple[Load, int]  # with how many records an answer stands for


class Stand:
    """One run. `commands` collects the command line of every server that was measured."""

    def __init__(self, root: str, seconds: float, cores: Cores, rounds: int = 3) -> None:
        self.root = root
        self.seconds = seconds
        self.cores = cores
        self.rounds = rounds
        self.commands: dict[str, None] = {}
        self.disturbance = 0.0  # the most cores that other work used during a measurement

    def folder(self) -> contextlib.AbstractContextManager[str]:
        return folder(self.root)

    def compare(
        self, attempts: Sequence[Attempt], placement: Placement | None = None
    ) -> list[Load]:
        """The best of each over several rounds, in turn, so that a disturbance meets them all."""
        best = [Load(failure="not tried")] * len(attempts)
        for _ in range(self.rounds):
            for at, attempt in enumerate(attempts):
                best[at] = better(best[at], self.run(*attempt, placement))
        return best

    def run(self, server: Server, job: Job, placement: Placement | None = None) -> Load:
        """Run one job."""
        if isinstance(server, Missing):
            return Load(failure=server.reason)
        self.commands[server.command] = None
        where = placement or self.cores.wide
        place(server.pid, where.server)
        load = run_job(
            msgspec.structs.replace(job, port=server.port, pid=server.pid, cores=where.generator)
        )
        self.disturbance = max(self.disturbance, load.others_cores)
        return load


def better(one: Load, other: Load) -> Load:
    """Of two tries of the same: a failure is worse than anything, then the rate counts, and for
    streams, whose rate is given, the wait."""
    if one.failure or other.failure:
        return one if other.failure and one.failure != "not tried" else other
    if one.expected:
        return min(one, other, key=lambda load: (load.expected - load.answers, load.p99_ms))
    return max(one, other, key=lambda load: load.per_second)


# Figures from loads.


def shares(load: Load) -> str:
    used = f"cores used: server {load.server_cores:.2f}, generator {load.generator_cores:.2f}"
    return f"{used}, others {load.others_cores:.2f}"


def rate_figure(
    name: str, load: Load, records: int, note: str = "", goal: float | None = None
) -> Figure:
    """Records a second, so many an answer."""
    if load.failure:
        return nothing(name, "records/s", load.failure, goal)
    detail = (
        f"p50 {load.p50_ms:.2f} ms, p99 {load.p99_ms:.2f} ms; {shares(load)}; "
        f"server CPU an answer {load.server_us:.0f} µs"
    )
    said = f"{note}; {detail}" if note else detail
    return Figure(name, load.per_second * records, "records/s", said, goal)


def ratio_figure(
    name: str, ours: Rated, theirs: Rated, goal: float | None, note: str = ""
) -> Figure:
    """Our records a second over theirs; and beside it the same by the servers' CPU time alone,
    which stays true on a machine that others use too."""
    failure = ours[0].failure or theirs[0].failure
    if failure:
        return nothing(name, "times", failure, goal)
    rates = [load.per_second * records for load, records in (ours, theirs)]
    costs = [max(load.server_us, 1e-3) / records for load, records in (ours, theirs)]
    note = f"by the servers' CPU time a record {costs[1] / costs[0]:.2f} times"
    return Figure(name, rates[0] / max(rates[1], 1e-9), "times", note, goal)


def wait_figure(name: str, load: Load, goal: float | None, *, median: bool, note: str) -> Figure:
    """Milliseconds until an answer or a delivery: half of them, or 99 of 100."""
    if load.failure:
        return nothing(name, "ms", load.failure, goal, at_most=True)
    value = load.p50_ms if median else load.p99_ms
    return Figure(name, value, "ms", note, goal, at_most=True)


def nothing(
    name: str, unit: str, reason: str, goal: float | None = None, *, at_most: bool = False
) -> Figure:
    """A figure that could not be taken, and why."""
    return Figure(name, math.nan, unit, " ".join(reason.split()), goal, at_most)
