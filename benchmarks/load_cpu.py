"""CPU time of a process and its children, and the placement of processes on cores."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

import msgspec


class Meter:
    """CPU seconds that this process, the server and all other processes use from now on."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._started = time.perf_counter()
        self._own = time.process_time()
        self._other = cpu_seconds(pid)
        self._all = busy_seconds()

    def shares(self) -> tuple[float, float, float]:
        """(this process, the other one, everybody else), in cores."""
        elapsed = max(time.perf_counter() - self._started, 1e-9)
        own = time.process_time() - self._own
        other = max(0.0, cpu_seconds(self._pid) - self._other)
        rest = max(0.0, busy_seconds() - self._all - own - other)
        return own / elapsed, other / elapsed, rest / elapsed


def busy_seconds() -> float:
    """Of all cores together, what a hypervisor took included; 0 where the system does not tell."""
    try:
        line = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0]
    except OSError:
        return 0.0
    user, nice, system, _idle, _waiting, irq, softirq, stolen, *_ = map(int, line.split()[1:])
    return (user + nice + system + irq + softirq + stolen) / os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """Of a process and all its descendants; 0 where the system does not tell."""
    try:
        # After the name, which may hold blanks and brackets of its own.
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        started = children(pid)
    except OSError:
        return 0.0
    ticks = int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK") + sum(map(cpu_seconds, started))


def children(pid: int) -> list[int]:
    """Processes that the main thread of a process has started and that it has not waited for."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(child) for child in text.split()]


class Placement(msgspec.Struct, frozen=True):
    """The cores of the server and of the generator. An empty list leaves them to the kernel."""

    server: list[int] = []
    generator: list[int] = []


class Cores:
    """The placements that this machine allows.

    Left to the kernel, server and generator sometimes share a core and sometimes not, for seconds
    at a time, and the same server is then three times as fast or as slow to answer.
    """

    def __init__(self, available: set[int]) -> None:
        *rest, self._last = sorted(available) or [0]
        self._rest = rest
        self._all = [*rest, self._last]

    @property
    def are_several(self) -> bool:
        return bool(self._rest)

    @property
    def wide(self) -> Placement:
        """The generator on the last core, the server wherever there is room."""
        return Placement(self._all, [self._last]) if self._rest else Placement()

    @property
    def apart(self) -> Placement:
        """The generator on the last core, the server on the others."""
        return Placement(self._rest, [self._last]) if self._rest else Placement()

    @property
    def together(self) -> Placement:
        """Both on one core: no core has to be woken for the other's sake."""
        return Placement(self._rest[:1], self._rest[:1])

    @property
    def text(self) -> str:
        if not self._rest:
            return "server and generator wherever the kernel puts them"
        return f"generator on core {self._last}, servers on any unless a figure says otherwise"


def place(pid: int, cores: list[int]) -> None:
    """Pin every thread of a process and of its descendants, if the system can do that."""
    if not cores or not hasattr(os, "sched_setaffinity"):
        return
    with contextlib.suppress(OSError):  # a thread may end meanwhile
        for thread in os.listdir(f"/proc/{pid}/task"):
            os.sched_setaffinity(int(thread), cores)
        for child in children(pid):
            place(child, cores)


def available() -> set[int]:
    """Cores this process may use; none where the system does not tell."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
