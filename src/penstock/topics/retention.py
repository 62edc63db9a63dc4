"""Retention: which of a topic's oldest records are evicted by its caps and by its TTL.

Pure: the caps are a function of state alone, and the TTL of the time that is given. `Topic` evicts
what is decided here; that the TTL's floor is logged is the business of `engine/catalogue.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from penstock.limits import EPHEMERAL_BYTES_MAX
from penstock.topics.spans import Span
from penstock.types import TopicConfig


class CappedTopic(Protocol):
    """What the caps depend on."""

    @property
    def config(self) -> TopicConfig: ...
    @property
    def live(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def spans(self) -> Sequence[Span]: ...


def over_caps(topic: CappedTopic) -> int | None:
    """The last seq of the oldest span that must be evicted for the caps to hold; None when they
    hold. Ask again after each eviction: it takes one span at a time."""
    config = topic.config
    if config.discard != "old":
        return None
    cap_records, cap_bytes = config.cap_records, config.cap_bytes
    if config.durability == "ephemeral":  # memory is all it has
        cap_bytes = min(cap_bytes or EPHEMERAL_BYTES_MAX, EPHEMERAL_BYTES_MAX)
    if cap_records and topic.live > cap_records:
        span, excess = topic.spans[0], topic.live - cap_records
        index = span.count if span.live <= excess else span.index_after_live(excess)
    elif cap_bytes and topic.bytes > cap_bytes:
        span, excess = topic.spans[0], topic.bytes - cap_bytes
        index = span.count if span.bytes < excess else span.index_after_bytes(excess)
    else:
        return None
    # Up to the last live record: deletes behind it are not losses.
    return span.first + span.last_live(index)


def expired_to(spans: Iterable[Span], ttl_ms: int, now_ms: int) -> int:
    """The last live seq that is past its TTL; 0 when none is."""
    if not ttl_ms:
        return 0
    limit_ts = max(0, now_ms - ttl_ms)  # times are counted from 1970; a TTL may be longer
    found = 0
    for span in spans:
        index = span.count
        if span.run.last_ts >= limit_ts:
            index = span.run.older_than(span.start, span.count, limit_ts)
        last = span.last_live(index)
        if last >= span.start:
            found = span.first + last
        if index < span.count:
            break
    return found
