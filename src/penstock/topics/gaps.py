"""The gap that a reader must be told, and its reason. Pure."""

from __future__ import annotations

from penstock.topics.topic import Topic
from penstock.types import Cause, Gap


def first_gap(topic: Topic, after: int, epoch: int | None) -> tuple[Gap | None, int, int]:
    """The gap that a read past seq `after` starts with, the seq after which its records start, and
    the seq at which it ends at the latest: the next read reports a later gap. The topic's lock is
    held."""
    gap: Gap | None = None
    start = after
    if after > topic.head or (epoch is not None and epoch != topic.epoch):
        gap = _gap(topic, 1, topic.head, Cause.RECREATED, topic.earliest)
        start = topic.lost_floor
    elif after + 1 < topic.evict_earliest:
        start = topic.evict_earliest - 1
        why = _eviction_cause(topic, after + 1)
        gap = _gap(topic, after + 1, start, why, topic.evict_earliest)
    for loss in topic.losses:
        if loss.last <= start:
            continue
        if loss.first > start + 1 or gap is not None:
            return gap, start, loss.first - 1
        gap = _gap(topic, start + 1, loss.last, loss.why, topic.earliest)
        start = loss.last
    return gap, start, topic.head


def loss_hops(topic: Topic, seq: int) -> int:
    """How many routers have passed on the loss of this seq. The lock is held."""
    return next((loss.hops for loss in topic.losses if loss.first <= seq <= loss.last), 0)


def _eviction_cause(topic: Topic, first_lost: int) -> Cause:
    by_cap = topic.evict_floor >= first_lost
    by_ttl = topic.expiry_floor >= first_lost
    if by_cap and by_ttl:
        return Cause.MIXED
    return Cause.CAP if by_cap else Cause.TTL


def _gap(topic: Topic, first: int, last: int, cause: Cause, earliest: int) -> Gap:
    return Gap(first, last, cause.word, max(0, last - first + 1), earliest, topic.head)
