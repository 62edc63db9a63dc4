"""Losses of a source, announced in the destination of its router as lost records.

An announcement counts the routers that have passed it on. Around a ring of routers it would come
back as a new loss and go round for ever, so it ends after as many routers as a copy may pass.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from penstock.engine.router_state import ActiveRouter
from penstock.topics import gaps
from penstock.types import Gap

_HOPS_MAX: Final = 7  # three bits in the entry of the step


class RouterLoss(NamedTuple):
    """Seqs of the destination without records, and how often this loss was passed on."""

    lost: int
    hops: int


NO_LOSS: Final = RouterLoss(0, 0)
RECORD_LOSS: Final = RouterLoss(1, 1)  # one record of the source, which fits in no destination


def loss_of(route: ActiveRouter, gap: Gap) -> RouterLoss:
    """The loss that a gap of the source is in the destination; none if it has come that way."""
    with route.source.lock:
        hops = gaps.loss_hops(route.source.topic, gap.first)
    count = gap.last - gap.first + 1
    if not count or hops >= min(route.hops_max, _HOPS_MAX):
        return NO_LOSS
    return RouterLoss(count, hops + 1)
