"""R19: projections, killed and cut off anywhere. After recovery each state is what a fold of the
recovered log gives, and a state that was reported as saved is there."""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from unittest import mock

import pytest

import penstock
from penstock import Settings
from penstock.projections import checkpoint
from penstock.storage.fs import OsFilesystem
from tests.support import projection_mutants, rig, seeds
from tests.support.projection_rig import ProjectionRig, make_toy, recomputed, seen

STEPS = 400 if rig.IS_FULL else 30
POINTS_PER_STEP = 20 if rig.IS_FULL else 3
STATES_PER_POINT = 16 if rig.IS_FULL else 4
KILLS = 500 if rig.IS_FULL else 6
MUTANT_SEEDS = 12
MUTANT_STEPS = 30


@pytest.mark.timeout(3_600)
def test_a_crash_anywhere_leaves_the_fold_of_the_log(report: rig.Report) -> None:
    seed = rig.new_seed()

    done = ProjectionRig(Random(f"{seed} rig"), POINTS_PER_STEP, STATES_PER_POINT).run(STEPS)

    report(
        f"R19 projections: {done.crashes} crashes, {done.restored} states restored from a file, "
        f"{len(done.violations)} violations, seed {seed}"
    )
    wrong = [f"{what}\n    {where}" for what, where in done.violations.items()]
    assert not wrong, "\n".join([f"seed {seed}", *wrong[:8]])
    assert done.restored > done.crashes / 4, "too few states came from a file"


@contextlib.contextmanager
def mutated(name: str) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for where, what, instead in projection_mutants.MUTANTS[name]():
            stack.enter_context(mock.patch.object(where, what, instead))
        yield


@pytest.mark.parametrize("name", projection_mutants.MUTANTS)
@pytest.mark.timeout(600)
def test_the_rig_catches(name: str, report: rig.Report) -> None:
    first = seeds.new_seed(fixed=seeds.PROJECTION_MUTANTS.get(name, 0))

    for seed in range(first, first + MUTANT_SEEDS):
        with mutated(name):
            done = ProjectionRig(Random(f"{seed} mutant"), 4, 4).run(MUTANT_STEPS)
        if done.violations:
            what = next(iter(done.violations))
            report(f"R19 mutant {name!r}: seed {seed}, {done.crashes} crashes: {what[:120]}")
            return
    pytest.fail(f"{name}: not caught with seeds {first} to {first + MUTANT_SEEDS - 1}")


def look(path: Path) -> tuple[list[str], int]:
    """(what is wrong, how many states came from a file) after a kill."""
    wrong, restored = [], 0
    for file in sorted(path.glob("projections/*/state.bin")):
        why = checkpoint.check(OsFilesystem(), str(file))
        if why:
            wrong.append(f"{file.name} is damaged: {why}")
    with penstock.open(path, settings=Settings(background=False)) as log:
        host = log.projections
        host.register("toy", make_toy)
        log.tables()
        for held in (*host.all("toy"), *host.all("table")):
            held.runner.restore()
            restored += held.runner.applied is not None
            if held.runner.counts.discarded:
                wrong.append(f"a state was thrown away: {held.runner.counts.discard_reason}")
            held.runner.read_own()
            if seen(held.runner.projection) != seen(recomputed(log, held)):
                wrong.append(f"{held.definition.kind}: not the fold of the log")
    return wrong, restored


@pytest.mark.timeout(3_600)
def test_kill_at_any_instant_leaves_the_fold_of_the_log(tmp_path: Path, report: rig.Report) -> None:
    seed = rig.new_seed()
    choose = random.Random(f"{seed} kills")
    home = rig.on_disk(tmp_path, "projections")
    restored = 0
    for number in range(KILLS):
        directory = home / f"{number // 25}"
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.support.projection_worker",
                str(directory),
                f"{seed} {number}",
            ],
            cwd=rig.ROOT,
            stdout=subprocess.PIPE,
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            time.sleep(choose.uniform(0, 0.2))
        finally:
            process.kill()
            process.communicate()
        wrong, found = look(directory)
        restored += found
        assert not wrong, f"seed {seed}, kill {number}: {wrong}"

    report(f"R19 kill -9: {KILLS} kills, {restored} states restored from a file, seed {seed}")
    assert restored, "no kill came after a save"
