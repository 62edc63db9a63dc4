"""Losses that routers announce, one by one and around a ring."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.engine.engine import Log
from penstock.engine.router_gaps import NO_LOSS, RouterLoss, loss_of
from penstock.types import Gap

GAP = Gap(3, 6, "cap", 4, 7, 9)


def route(hops_max: int, *losses: tuple[int, int, int]) -> Any:
    """A router whose source has losses: first, last, hops."""
    found = [SimpleNamespace(first=first, last=last, hops=hops) for first, last, hops in losses]
    topic = SimpleNamespace(losses=found)
    return SimpleNamespace(
        hops_max=hops_max, source=SimpleNamespace(lock=threading.Lock(), topic=topic)
    )


@pytest.mark.parametrize(
    ("hops_max", "hops", "loss"),
    [
        (2, 0, RouterLoss(4, 1)),
        (2, 1, RouterLoss(4, 2)),
        (2, 2, NO_LOSS),
        (9, 6, RouterLoss(4, 7)),
        (9, 7, NO_LOSS),
    ],
)
def test_a_loss_is_passed_on_as_often_as_a_copy_may_be(
    hops_max: int, hops: int, loss: RouterLoss
) -> None:
    assert loss_of(route(hops_max, (3, 6, hops)), GAP) == loss


def test_a_loss_of_the_sources_own_is_new() -> None:
    assert loss_of(route(1, (10, 12, 7)), GAP) == RouterLoss(4, 1)


def test_a_gap_without_seqs_is_no_loss() -> None:
    assert loss_of(route(4), Gap(1, 0, "recreated", 0, 1, 0)) == NO_LOSS


def test_a_loss_goes_around_a_ring_and_ends(memory_log: Log) -> None:
    memory_log.create("b", discard="reject", cap_bytes=100)
    for name, source, dest in (("ab", "a", "b"), ("bc", "b", "c"), ("ca", "c", "a")):
        memory_log.create_router(name, source, dest, allow_cycle=True)

    memory_log.append("a", ["x" * 300])  # fits in no b
    for _ in range(30):
        for topic in ("b", "c", "a"):
            memory_log.read(topic)

    assert [memory_log.read(topic).head_seq for topic in ("a", "b", "c")] == [1, 1, 1]
