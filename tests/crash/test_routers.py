"""R14: routers, crashed at any change to the disk in every way, and in their recovery too."""

from __future__ import annotations

from random import Random

import pytest

from tests.support import rig
from tests.support.router_rig import Plan, Rig

PLANS = (
    Plan("pair", {"a": {"durability": "disk"}, "b": {"durability": "fsync"}}, (("a->b", "a", "b", {}),)),
)


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.name)
def test_x(plan: Plan, report: rig.Report) -> None:
    seed = rig.new_seed()
    done = Rig(plan, Random(seed), points_max=6, states_max=6, nested_nth=40).run(40)
    report(f"{plan.name}: {done.points} {done.crashes} {done.nested} {done.spares} {done.opened} {done.derived} {done.logged} seed {seed}")
    told = [f"{wrong}\n    {story}" for wrong, story in done.violations.items()]
    assert not told, "\n".join(told[:12])
