"""R5: the rigs are sensitive. Each broken promise is noticed, and the real code passes.

A plain kill -9 is not used here: it leaves the page cache, so it cannot see a missing sync. The
mutant `ack-before-fsync` survives thousands of kills.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import cuts, memory_rig, mutants, rig
from tests.support.memory_rig import Outcome
from tests.support.powercut import PowerCuts
from tests.support.zygote import Zygote

POWER_CUTS_MAX = 300

Rig = Callable[[], Outcome]

CATCHERS: dict[str, Rig] = {
    "ack-before-fsync": memory_rig.cut_everywhere,
    "visible-before-durable": memory_rig.cut_everywhere,
    "no-directory-sync": memory_rig.cut_everywhere,
    "rename-before-sync": memory_rig.cut_everywhere,
    "sync-retried": memory_rig.fail_every_sync,
    "checksum-unchecked": memory_rig.cut_everywhere,
}


@pytest.mark.parametrize("name", CATCHERS)
def test_mutant_is_caught_in_memory(name: str, report: rig.Report) -> None:
    started = time.monotonic()

    with mutants.mutated(name):
        outcome = CATCHERS[name]()

    took_s = time.monotonic() - started
    assert outcome.violations, f"{name} survived {outcome.states} crash states"
    report(
        f"R5 {name}: caught in memory, state {outcome.states}, {took_s:.1f} s: "
        f"{outcome.violations[0][:100]}"
    )


@pytest.mark.parametrize("run", sorted(set(CATCHERS.values()), key=lambda run: run.__name__))
def test_the_real_log_passes_in_memory(run: Rig, report: rig.Report) -> None:
    started = time.monotonic()

    outcome = run()

    assert not outcome.violations, "\n".join(outcome.violations)
    report(
        f"R5 no mutant: {run.__name__} finds nothing in {outcome.states} states, "
        f"{time.monotonic() - started:.1f} s"
    )


@pytest.mark.root
@pytest.mark.parametrize("name", ["ack-before-fsync"])
def test_mutant_is_caught_by_real_power_cuts(name: str, tmp_path: Path, report: rig.Report) -> None:
    home = rig.on_disk(tmp_path, "mutant")
    seed = rig.new_seed()
    started = time.monotonic()

    with cuts.LoopDisk(home) as disk, Zygote() as zygote:
        lives = PowerCuts(disk, zygote, str(seed), mutant=name)
        while not lives.oracle.violations and lives.cuts < POWER_CUTS_MAX:
            lives.one()
        violations = lives.oracle.violations

    assert violations, f"seed {seed}: {name} survived {lives.cuts} power cuts"
    report(
        f"R5 {name}: seed {seed}, caught by power cut {lives.cuts}, "
        f"{time.monotonic() - started:.1f} s: {violations[0][:100]}"
    )
