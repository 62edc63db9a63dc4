"""The log's own topics."""

from __future__ import annotations

from penstock.engine.internal_topics import INTERNAL_TOPICS
from penstock.limits import TOPIC_ID_OWN
from penstock.topics import validation


def test_no_caller_can_name_an_internal_topic() -> None:
    assert all(validation.is_internal(topic.name) for topic in INTERNAL_TOPICS)
    assert not validation.is_internal("orders")


def test_each_internal_topic_has_a_name_and_an_id_of_its_own() -> None:
    ids = [topic.id for topic in INTERNAL_TOPICS if topic.id is not None]

    assert len({topic.name for topic in INTERNAL_TOPICS}) == len(INTERNAL_TOPICS)
    assert len(set(ids)) == len(ids)
    assert all(one >= TOPIC_ID_OWN for one in ids)
