"""R14: routers, crashed at any change to the disk in every way, and in their recovery too.

After each crash every record that a router had to bring is at its destination once, in order and
unchanged, or readers are told of a gap in its place; what was seen is still what it was; what a
class promised is there; and opening again changes nothing, also from the spare snapshot.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any
from unittest import mock

import pytest

from tests.support import rig, router_mutants, seeds
from tests.support.router_plans import SHAPES, Plan, drawn
from tests.support.router_rig import Rig

PLANS = 4 if rig.IS_FULL else 1
STEPS = 60 if rig.IS_FULL else 18
POINTS_PER_STEP = 12 if rig.IS_FULL else 3
STATES_PER_POINT = 12 if rig.IS_FULL else 4
NESTED_NTH = 40 if rig.IS_FULL else 200  # one in so many states is crashed again in its recovery


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.timeout(3_600)
def test_no_copy_is_lost_or_doubled_whatever_crashes(shape: str, report: rig.Report) -> None:
    seed = rig.new_seed()
    random = Random(f"{seed} {shape}")
    plans = [drawn(random, shape) for _ in range(PLANS)]

    rigs = [
        Rig(
            plan,
            random,
            points_max=POINTS_PER_STEP,
            states_max=STATES_PER_POINT,
            nested_nth=NESTED_NTH,
        ).run(STEPS, warm=10)
        for plan in plans
    ]

    wrong = [
        f"{one.plan.name}, {one.plan.shards} shards: {what}\n    {story}"
        for one in rigs
        for what, story in one.violations.items()
    ]
    report(
        f"R14 {shape}: {sum(one.points for one in rigs)} points, "
        f"{sum(one.crashes for one in rigs)} crashes, {sum(one.nested for one in rigs)} in "
        f"recovery, {sum(one.spares for one in rigs)} without the newest snapshot, "
        f"{sum(one.opened for one in rigs)} distinct states; "
        f"{sum(one.derived for one in rigs)} copies by reference, "
        f"{sum(one.logged for one in rigs)} with their bytes; "
        f"{len(wrong)} violations, seed {seed}"
    )
    assert not wrong, "\n".join([f"seed {seed}, {len(wrong)} violations:", *wrong[:12]])
    assert sum(one.crashes for one in rigs) > STEPS, "too few crashes"


# The rig is worth what it catches.


@dataclass(frozen=True, slots=True)
class Catcher:
    """A plan that meets what a mutant breaks, and which crashes to look at."""

    plan: Plan
    nested_nth: int = 10_000
    spare_nth: int = 2


def line(*classes: str, is_steady: bool = True, **weights: int) -> Plan:
    """A chain of topics a, b, c... with a router from each to the next."""
    names = "abcd"[: len(classes)]
    topics = {name: {"durability": one} for name, one in zip(names, classes, strict=True)}
    routers = tuple(
        (f"{source}->{dest}", source, dest, dict[str, Any]())
        for source, dest in itertools.pairwise(names)
    )
    return Plan("line", topics, routers, is_steady=is_steady, weights=weights)


def ring() -> Plan:
    topics = {"a": {"durability": "fsync", "cap_records": 2}, "b": {"durability": "fsync"}}
    rules = {"allow_cycle": True}
    routers = (("a->b", "a", "b", rules), ("b->a", "b", "a", rules))
    return Plan("ring", topics, routers, is_steady=True, weights=ONLY | {"append": 20, "read": 2})


OTHERS = ("direct", "many", "run", "delete", "sync", "checkpoint", "meanwhile", "race", "compact")
ONLY = dict.fromkeys((*OTHERS, "upkeep", "close", "kill", "cut", "class"), 0)
CATCHERS = {
    "no barrier": Catcher(line("fsync", "fsync", **ONLY | {"compact": 4})),
    "no bound": Catcher(line("fsync", "fsync", **ONLY | {"race": 4})),
    "weak reference": Catcher(line("disk", "fsync", **ONLY | {"read": 10})),
    "applied twice": Catcher(line("fsync", "disk", **ONLY | {"meanwhile": 4})),
    "cursor apart": Catcher(line("fsync", "fsync", **ONLY | {"read": 10})),
    "past the end": Catcher(line("disk", "disk", **ONLY | {"read": 10})),
    "one hop": Catcher(line("fsync", "fsync", "fsync", many=0, **{"class": 0})),
    "hops forgotten": Catcher(ring()),
    "soft source": Catcher(line("fsync", "disk", "fsync", **ONLY | {"read": 10})),
    "position in memory": Catcher(line("fsync", "ephemeral", **ONLY | {"read": 10})),
    "routers first": Catcher(
        line("fsync", "fsync", is_steady=False, **ONLY | {"rules": 0, "router": 0, "topic": 20})
    ),
    "no boot claimed": Catcher(line("disk", "ephemeral", **ONLY | {"run": 10}), nested_nth=4),
    "class on credit": Catcher(line("disk", "disk", **ONLY | {"append": 8, "read": 4, "class": 6})),
}


@contextlib.contextmanager
def mutated(name: str) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for where, attribute, instead in router_mutants.MUTANTS[name]():
            stack.enter_context(mock.patch.object(where, attribute, instead))
        yield


def caught(by: Catcher, first_seed: int) -> tuple[str, int]:
    """What is wrong first, and after how many states; nothing when a few seeds find nothing."""
    opened = 0
    for seed in range(first_seed, first_seed + 6):
        found = Rig(
            by.plan,
            Random(seed),
            points_max=6,
            states_max=8,
            nested_nth=by.nested_nth,
            spare_nth=by.spare_nth,
        ).run(20)
        opened += found.opened
        if found.violations:
            return next(iter(found.violations)), opened
    return "", opened


@pytest.mark.parametrize("name", CATCHERS)
@pytest.mark.timeout(3_600)
def test_a_broken_router_is_caught(name: str, report: rig.Report) -> None:
    with mutated(name):
        wrong, opened = caught(CATCHERS[name], seeds.ROUTER_MUTANTS.get(name, 0))

    assert wrong, f"{name} survived {opened} states"
    report(f"R14 {name}: caught in state {opened}: {wrong[:100]}")
