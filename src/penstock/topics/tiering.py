"""Selects the segments of a topic that move to the cold tier. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.types import TopicConfig


def may_move(config: TopicConfig) -> bool:
    """Segments of queues stay: a worker must not wait for a tier."""
    return config.type != "queue"


def going(sizes: Sequence[int], *, segments_kept: int, bytes_kept: int) -> int:
    """The number of oldest segments to move, of sealed segments with these sizes. The newest stay:
    as many as `segments_kept`, and no more than `bytes_kept` of them unless that is 0."""
    stay = total = 0
    for size in reversed(sizes):
        total += size
        if stay == segments_kept or (bytes_kept and total > bytes_kept):
            break
        stay += 1
    return len(sizes) - stay
