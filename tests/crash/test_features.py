"""R19 for features: a store with every operator, killed and cut off anywhere. After recovery every
part, index and row is what a fold of the surviving records gives, bit by bit."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.support import cuts, feature_lives, feature_mutants, rig, seeds
from tests.support.feature_lives import FeatureLives
from tests.support.feature_rig import VERBS_OF_MUTANTS, FeatureRig
from tests.support.zygote import Zygote

STEPS = 100 if rig.IS_FULL else 10
POINTS_PER_STEP = 4 if rig.IS_FULL else 2
STATES_PER_POINT = 6 if rig.IS_FULL else 2
MUTANT_SEEDS = 24
MUTANT_STEPS = 8
KILLS = 100 if rig.IS_FULL else 4
CUTS = 100 if rig.IS_FULL else 4
MUTANT_CUTS_MAX = 100


@pytest.mark.timeout(3_600)
def test_a_crash_anywhere_leaves_the_fold_of_the_records(report: rig.Report) -> None:
    seed = rig.new_seed()

    done = FeatureRig(Random(f"{seed} rig"), POINTS_PER_STEP, STATES_PER_POINT).run(STEPS)

    report(
        f"R19 features: {done.crashes} crashes, {done.restored} states restored from a file, "
        f"up to {done.evicted} keys of a part on disk, {done.loads} snapshots loaded, "
        f"{len(done.violations)} violations, seed {seed}"
    )
    wrong = [f"{what}\n    {where}" for what, where in done.violations.items()]
    assert not wrong, "\n".join([f"seed {seed}", *wrong[:8]])
    assert done.restored > done.crashes, "too few states came from a file"
    assert done.evicted, "no key was on disk"


@pytest.mark.parametrize("name", feature_mutants.MUTANTS)
@pytest.mark.timeout(600)
def test_the_rig_catches(name: str, report: rig.Report) -> None:
    first = seeds.new_seed(fixed=seeds.FEATURE_MUTANTS.get(name, 0))

    for seed in range(first, first + MUTANT_SEEDS):
        with feature_mutants.mutated(name):
            done = FeatureRig(Random(f"{seed} mutant"), 2, 2).run(
                MUTANT_STEPS, VERBS_OF_MUTANTS[name]
            )
        if done.violations:
            what = next(iter(done.violations))
            report(f"R19 mutant {name!r}: seed {seed}, {done.crashes} crashes: {what[:120]}")
            return
    pytest.fail(f"{name}: not caught with seeds {first} to {first + MUTANT_SEEDS - 1}")


def said(lives: FeatureLives) -> str:
    return ", ".join(f"{lives.counts[name]} {name}" for name in sorted(lives.counts))


@pytest.mark.timeout(3_600)
def test_a_kill_at_any_instant_loses_no_acknowledged_event(
    tmp_path: Path, report: rig.Report
) -> None:
    seed = rig.new_seed()
    home = rig.on_disk(tmp_path, "features")

    with Zygote(feature_lives.ROLE) as zygote:
        lives = FeatureLives(zygote, home, f"{seed} kills")
        while lives.life < KILLS and not lives.violations:
            lives.one()

    report(f"R19 features, kill -9: {lives.life} kills, {said(lives)}, seed {seed}")
    assert not lives.violations, "\n".join([f"seed {seed}", *lives.violations])
    assert lives.counts["states from a file"], "no kill came after a save"


@pytest.mark.root
@pytest.mark.timeout(3_600)
def test_a_power_cut_loses_no_event_whose_push_was_synced(
    tmp_path: Path, report: rig.Report
) -> None:
    seed = rig.new_seed()
    home = rig.on_disk(tmp_path, "features-cut")

    with cuts.LoopDisk(home) as disk, Zygote(feature_lives.ROLE) as zygote:
        lives = FeatureLives(zygote, disk.mount_point, f"{seed} cuts", disk=disk)
        while lives.life < CUTS and not lives.violations:
            lives.one()

    report(f"R19 features, power cuts: {lives.life} cuts, {said(lives)}, seed {seed}")
    assert not lives.violations, "\n".join([f"seed {seed}", *lives.violations])
    assert lives.counts["acknowledged pushes"], "nothing was acknowledged before a cut"


@pytest.mark.root
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["acknowledged before the sync"])
def test_power_cuts_catch(name: str, tmp_path: Path, report: rig.Report) -> None:
    seed = rig.new_seed()
    home = rig.on_disk(tmp_path, "features-mutant")

    with cuts.LoopDisk(home) as disk, Zygote(feature_lives.ROLE) as zygote:
        lives = FeatureLives(zygote, disk.mount_point, f"{seed}", disk=disk, mutant=name)
        while lives.life < MUTANT_CUTS_MAX and not lives.violations:
            lives.one()

    assert lives.violations, f"seed {seed}: {name} survived {lives.life} power cuts"
    report(f"R19 mutant {name!r}: seed {seed}, power cut {lives.life}: {lives.violations[0][:120]}")
