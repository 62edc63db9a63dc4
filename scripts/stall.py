"""Run a command and stop its processes at random for moments, as a very busy machine would:

    python scripts/stall.py [--seed N] [--longest SECONDS] COMMAND...

Now one process, now all of them at once. A test that depends on the speed of the machine fails
here within minutes, in place of once in a hundred runs: a short timer fires before the loop that
looks for its effect, a state that is passed through is never seen.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

LONGEST_S = 1.5
RUNNING_S = 0.4  # on average between two stops


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--longest", type=float, default=LONGEST_S)
    options.add_argument("command", nargs=argparse.REMAINDER)
    asked = options.parse_args()
    chance = random.Random(asked.seed)
    with subprocess.Popen(asked.command) as process:
        try:
            while not _has_ended(process, chance.expovariate(1 / RUNNING_S)):
                stopped = _some(descendants(process.pid), chance)
                _signal(stopped, signal.SIGSTOP)
                try:
                    _has_ended(process, asked.longest * chance.random() ** 3)
                finally:
                    _signal(stopped, signal.SIGCONT)
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
        return process.wait()


def descendants(pid: int) -> list[int]:
    """The processes that come from this one, without itself."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            parents.setdefault(int(fields[1]), []).append(int(folder.name))
    found, waiting = [], [pid]
    while waiting:
        children = parents.get(waiting.pop(), [])
        found += children
        waiting += children
    return found


def _some(processes: list[int], chance: random.Random) -> list[int]:
    if not processes or chance.random() < 0.3:
        return processes
    return [chance.choice(processes)]


def _signal(processes: list[int], number: int) -> None:
    for pid in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _has_ended(process: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
