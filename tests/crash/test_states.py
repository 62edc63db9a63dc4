"""R6: all short sequences of operations, crashed at every point in every way, and recovered."""

from __future__ import annotations

from random import Random

import pytest

from tests.support import rig, states

PARTS = 6
SEQUENCES_PER_PART = None if rig.IS_FULL else 80
STATES_PER_POINT = 24
AFTERLIFE_NTH = 40 if rig.IS_FULL else 30
SHARDS = (1, 1, 2)


def numbered(part: int) -> list[tuple[str, tuple[states.Step, ...]]]:
    """This part's share of all sequences on all preparations."""
    every = [(name, steps) for steps in states.SEQUENCES for name in states.PREPARATIONS]
    return every[part::PARTS]


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.timeout(3_600)
def test_every_crash_of_a_short_sequence_keeps_every_promise(part: int, report: rig.Report) -> None:
    """Crash points within all but the last step belong to the shorter sequence."""
    seed = rig.new_seed()
    random = Random(f"{seed} {part}")
    chosen = numbered(part)
    if SEQUENCES_PER_PART is not None:
        chosen = random.sample(chosen, SEQUENCES_PER_PART)
    bounds = states.settings(shards=SHARDS[part % len(SHARDS)])
    worlds = {name: states.prepared(name, bounds) for name in states.PREPARATIONS}
    inspector = states.Inspector(
        random, bounds=bounds, states_max=STATES_PER_POINT, nth=AFTERLIFE_NTH
    )

    for name, steps in chosen:
        story = f"{name}: {', '.join(step.name for step in steps)}"
        world = worlds[name].copy(settled=random.random() < 0.8)
        for point in states.crash_points(world, steps):
            inspector.inspect(point, story)

    report(
        f"R6 part {part}: {len(chosen)} sequences, {inspector.checked} crashes, "
        f"{inspector.distinct} distinct states, {inspector.nested} crashes in recovery, "
        f"{len(inspector.violations)} violations, seed {seed}"
    )
    told = [f"{wrong}\n    {story}" for wrong, story in inspector.violations.items()]
    assert not told, "\n".join([f"seed {seed}, {len(told)} violations:", *told[:12]])
