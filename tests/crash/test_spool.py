"""The spool keeps its promises whatever happens to the machine or to its files."""

from __future__ import annotations

import pytest

from penstock.sender.spool import Durability
from tests.support import rig
from tests.support.spool_rig import explore

SEEDS = range(40) if rig.IS_FULL else range(2)
STATES = 60 if rig.IS_FULL else 8
STEPS = 400 if rig.IS_FULL else 80


@pytest.mark.parametrize("durability", ["memory", "periodic", "append"])
@pytest.mark.parametrize("seed", SEEDS)
def test_no_crash_breaks_a_promise(seed: int, durability: Durability) -> None:
    assert explore(seed, durability, steps=STEPS, states=STATES) > 100


@pytest.mark.parametrize("durability", ["memory", "periodic", "append"])
@pytest.mark.parametrize("seed", SEEDS)
def test_no_crash_breaks_a_promise_on_a_disk_that_fails(seed: int, durability: Durability) -> None:
    assert explore(100 + seed, durability, steps=STEPS, states=STATES, faults=True) > 100
