"""An exception from outside, at any place of any verb, corrupts nothing.

Each verb is interrupted at every place where CPython could run a signal handler (every nth in
`make test`), with a KeyboardInterrupt, an Exception and an OSError. After each interrupt the log
must go on, and show the verb wholly done or not done: live, after a kill and after a close. Then
real signals, and exceptions that another thread sets, interrupt a process that uses a log.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import interrupt_mutants, rig, signal_rig
from tests.support.interrupt_cases import CASES
from tests.support.interrupt_rig import Disk, MemoryDisk, RealDisk, Rig
from tests.support.signal_points import KINDS, Interrupted

# Places from one interrupt to the next. A call passes 60 to 1,000 of them.
STRIDE = {"alone": 1 if rig.IS_FULL else 97, "threads": 1 if rig.IS_FULL else 397}
MUTANT_HANG_S = 5  # a mutant may hang: a false alarm does no harm there
INTERRUPTS = 1000 if rig.IS_FULL else 100  # of one process
PROCESSES = 10 if rig.IS_FULL else 1  # of each kind
PROCESS_S = 600


# Deterministic.


def _disks(mode: str, tmp_path: Path) -> Callable[[], Disk]:
    """`alone`: no threads and no files. `threads`: both."""
    if mode == "alone":
        return MemoryDisk
    numbers = itertools.count()
    return lambda: RealDisk(tmp_path, next(numbers))


@pytest.mark.parametrize("mode", STRIDE)
@pytest.mark.parametrize("name", CASES)
def test_a_verb_may_be_interrupted_anywhere(name: str, mode: str, tmp_path: Path) -> None:
    stride = STRIDE[mode]
    first = 1 + rig.new_seed() % stride

    tally = Rig(CASES[name], _disks(mode, tmp_path)).run(first, stride, KINDS, findings_max=5)

    assert not tally.findings, "\n".join(map(str, tally.findings))
    if rig.IS_FULL:
        rig.say(
            f"interrupts, {name}, {mode}: {tally.trials} at {tally.places} places, "
            f"{tally.failed} logs had to be reopened"
        )


@pytest.mark.parametrize("name", interrupt_mutants.MUTANTS)
def test_a_critical_section_that_is_broken_is_caught(name: str, tmp_path: Path) -> None:
    interrupted = CASES[interrupt_mutants.CASE.get(name, "append-fsync")]
    case = Rig(interrupted, MemoryDisk, hang_s=MUTANT_HANG_S)

    with interrupt_mutants.mutated(name):
        tally = case.run(1, 1, (Interrupted,), findings_max=1)

    assert tally.findings, f"{name} survived {tally.trials} interrupts"


# Real signals and threads.


def _objections(path: Path, seed: int, how: str, kind: str, mutant: str = "") -> list[str]:
    """What one process did wrong, or what is wrong with its log afterwards."""
    words = [str(path), str(seed), how, kind, str(INTERRUPTS), mutant]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tests.support.signal_rig", *words],
            cwd=rig.ROOT,
            env=os.environ | {"PYTHONPATH": f"{rig.ROOT / 'src'}{os.pathsep}{rig.ROOT}"},
            capture_output=True,
            text=True,
            timeout=PROCESS_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return ["it hangs"]
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode not in (0, -9) or not lines or "end" not in lines[-1]:
        return [f"exit {done.returncode} after {lines[-1:]}: {done.stderr[-3000:]}"]
    return signal_rig.judge(path, lines)


@pytest.mark.crash  # when a signal comes is nobody's choice
@pytest.mark.parametrize("kind", signal_rig.KINDS)
@pytest.mark.parametrize("how", ["signals", "thread"])
def test_exceptions_of_signals_and_threads_lose_nothing(
    how: str, kind: str, tmp_path: Path
) -> None:
    home = rig.on_disk(tmp_path, "signals")
    for number, seed in enumerate(rig.new_seeds(PROCESSES)):
        wrong = _objections(home / str(number), seed, how, kind)
        assert not wrong, f"seed {seed}: " + "\n".join(wrong[:10])
