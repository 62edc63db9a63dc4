"""Caps and TTL: what is evicted, and what is not."""

from __future__ import annotations

from penstock import limits
from penstock.entries import RecordsDeleted
from penstock.topics.topic import Topic
from penstock.types import TopicConfig
from tests.unit.topics.support import Row, appended, live_seqs, place, topic_of

FIVE = [Row()] * 5


# Caps.


def test_deleted_records_do_not_count_towards_a_cap() -> None:
    topic = topic_of(*FIVE, cap_records=5)
    topic.apply_delete(RecordsDeleted(topic.id, None, None, (2, 3), topic.head))

    topic.apply_append(appended(6, 2), place)

    assert live_seqs(topic) == [1, 4, 5, 6, 7]
    assert topic.evict_floor == 0


def test_a_byte_cap_evicts_the_oldest_until_the_rest_fits() -> None:
    topic = topic_of(Row(5), Row(1), Row(4), cap_bytes=10)

    topic.apply_append(appended(4, [Row(2)]), place)

    assert live_seqs(topic) == [2, 3, 4]
    assert (topic.bytes, topic.evict_floor) == (7, 1)


def test_a_batch_above_the_cap_leaves_its_newest_records() -> None:
    topic = topic_of(*FIVE, cap_records=3)

    topic.apply_append(appended(6, 10), place)

    assert live_seqs(topic) == [13, 14, 15]
    assert topic.evict_floor == 12


def test_a_topic_that_rejects_never_evicts() -> None:
    topic = topic_of(*FIVE, cap_records=3, discard="reject")

    assert topic.live == 5


def test_memory_is_a_cap_that_needs_no_configuration() -> None:
    half = limits.EPHEMERAL_BYTES_MAX // 2
    topic = topic_of(Row(half), Row(half), Row(1), durability="ephemeral")

    assert live_seqs(topic) == [2, 3]
    assert topic.evict_floor == 1


def test_a_tightened_cap_evicts_at_once() -> None:
    topic = topic_of(*FIVE)

    topic.configure(TopicConfig(cap_records=2))

    assert live_seqs(topic) == [4, 5]


def test_a_cap_on_bytes_evicts_no_more_than_it_must() -> None:
    """No empty record behind the one that was enough."""
    topic = Topic(1, "t", TopicConfig(), 0)
    topic.apply_append(appended(1, [Row(1), Row(0)]), place)
    topic.apply_append(appended(4, [Row(3)]), place)

    topic.configure(TopicConfig(cap_bytes=3))

    assert live_seqs(topic) == [2, 4]


# TTL.


def test_a_record_expires_once_it_is_older_than_its_ttl() -> None:
    topic = topic_of(*(Row(ts=ts) for ts in (0, 10, 10, 20, 30, 40)), ttl_ms=100)

    assert topic.expired_to(now_ms=100) == 0
    assert topic.expired_to(now_ms=101) == 1
    assert topic.expired_to(now_ms=111) == 3
    assert topic.expired_to(now_ms=999) == 6


def test_without_a_ttl_nothing_ever_expires() -> None:
    assert topic_of(*FIVE).expired_to(now_ms=1 << 60) == 0
