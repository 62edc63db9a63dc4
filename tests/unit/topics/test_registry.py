"""All topics, and the law that replay rests on: an entry applied again changes nothing."""

from __future__ import annotations

import pytest

from penstock.entries import (
    FloorMoved,
    PositionMoved,
    RecordsDeleted,
    SeqsLost,
    SeqsReserved,
    TopicCreated,
    TopicDropped,
    TopicEntry,
)
from penstock.topics.registry import Registry
from penstock.types import Cause, TagMatch, TopicConfig
from tests.unit.topics.support import Row, appended, live_seqs, place

CREATED = TopicCreated(1, "t", TopicConfig(), 5)
HISTORIES: dict[str, list[TopicEntry]] = {
    "appends": [CREATED, appended(1, 3), appended(4, 2, key=b"k")],
    "a jump": [CREATED, appended(1, 3), appended(9, 2)],
    "a delete by seq": [CREATED, appended(1, 5), RecordsDeleted(1, 3, None, (), 5), appended(6, 2)],
    "a delete by tag": [
        CREATED,
        appended(1, [Row(tag="a"), Row(), Row(tag="ab")]),
        RecordsDeleted(1, None, TagMatch(b"a", True), (), 3),
        appended(4, [Row(tag="a")]),
    ],
    "floors": [CREATED, appended(1, 5), FloorMoved(1, 2, 3, 4), appended(6, 2)],
    "a reservation": [CREATED, SeqsReserved(1, 100), appended(1, 2), SeqsReserved(1, 200)],
    "losses": [
        CREATED,
        appended(1, 9),
        SeqsLost(1, 2, 2, Cause.DAMAGE),
        SeqsLost(1, 6, 7, Cause.DAMAGE),
    ],
    "positions": [
        CREATED,
        appended(1, 3),
        PositionMoved(1, "a", 2, 9),
        PositionMoved(1, "b", 3, 9),
        PositionMoved(1, "a", 1, 10),
        PositionMoved(1, "b", 0, 11, is_removed=True),
    ],
    "a cap": [
        TopicCreated(1, "t", TopicConfig(cap_records=3), 5),
        appended(1, 5),
        appended(6, 2),
    ],
    "a drop": [CREATED, appended(1, 3), TopicDropped(1, "t")],
    "a recreation": [
        CREATED,
        appended(1, 3),
        TopicDropped(1, "t"),
        TopicCreated(2, "t", TopicConfig(), 6),
        appended(1, 2, topic_id=2),
    ],
}


def registry_of(*entries: TopicEntry) -> Registry:
    registry = Registry(place)
    for entry in entries:
        registry.apply(entry)
    return registry


def state(registry: Registry) -> object:
    """Everything that a reader or a writer could tell apart, once replay is over."""
    registry.resolve_names()
    return registry.next_id, [
        (
            topic.id,
            topic.name,
            topic.config,
            topic.head,
            topic.ceiling,
            live_seqs(topic),
            (topic.live, topic.bytes, topic.last_ts),
            (topic.evict_floor, topic.expiry_floor, topic.delete_floor),
            topic.losses,
            topic.keys,
            topic.consumers,
        )
        for topic in registry.all()
    ]


@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES)
def test_a_history_applied_again_from_anywhere_changes_nothing(history: list[TopicEntry]) -> None:
    once = state(registry_of(*history))

    for start in range(len(history)):
        assert state(registry_of(*history, *history[start:])) == once


def test_a_delete_answers_how_many_it_removed() -> None:
    registry = registry_of(CREATED, appended(1, 5))
    delete = RecordsDeleted(1, 4, None, (), 5)

    assert [registry.apply(delete), registry.apply(delete)] == [3, 0]


def test_positions_move_either_way_and_go_with_their_topic() -> None:
    registry = registry_of(*HISTORIES["positions"])
    before = dict(registry.get("t").consumers)

    registry.apply(TopicDropped(1, "t"))
    registry.apply(TopicCreated(2, "t", TopicConfig(), 6))

    assert before == {"a": (1, 10)}
    assert registry.get("t").consumers == {}


def test_topics_are_found_by_name_and_by_id() -> None:
    registry = registry_of(TopicCreated(4, "b", TopicConfig(), 0), CREATED)

    assert [topic.name for topic in registry.all()] == ["b", "t"]
    assert registry.get("t") is registry.by_id(1)
    assert registry.get("x") is registry.by_id(9) is None
    assert (len(registry), registry.next_id) == (2, 5)


def test_an_id_is_never_handed_out_twice_even_after_a_drop() -> None:
    registry = registry_of(CREATED, TopicDropped(1, "t"))

    assert (len(registry), registry.next_id) == (0, 2)


def test_a_recreated_name_means_the_younger_topic_in_whatever_order_shards_replay() -> None:
    registry = registry_of(
        TopicCreated(2, "t", TopicConfig(), 6),
        appended(1, 2, topic_id=2),
        CREATED,
        appended(1, 5),
    )

    registry.resolve_names()

    assert registry.get("t").id == 2
    assert [topic.id for topic in registry.known()] == [2]


def test_dropping_the_older_of_a_name_leaves_the_younger() -> None:
    registry = registry_of(CREATED, TopicCreated(2, "t", TopicConfig(), 6), TopicDropped(1, "t"))

    assert registry.get("t").id == 2


def test_records_of_an_unknown_topic_are_kept_under_a_name_that_says_so() -> None:
    registry = registry_of(appended(1, 3, topic_id=31))

    assert registry.get("recovered-0000001F").live == 3
    assert registry.next_id == 32


def test_a_creation_that_turns_up_later_gives_the_name_back() -> None:
    registry = registry_of(appended(1, 3), CREATED)

    registry.resolve_names()

    assert [topic.name for topic in registry.all()] == ["t"]
    assert registry.get("t").live == 3


def test_a_snapshot_is_where_it_starts() -> None:
    before = registry_of(CREATED, appended(1, 3), TopicDropped(7, "gone"))
    registry = Registry(place)

    registry.adopt(before.known(), next_id=8)

    assert registry.get("t").live == 3
    assert registry.next_id == 8


def test_missing_seqs_are_blamed_on_what_replay_says() -> None:
    registry = registry_of(CREATED)
    registry.jump_cause = Cause.DAMAGE

    registry.apply(appended(4, 1))

    assert [loss.cause for loss in registry.get("t").losses] == [Cause.DAMAGE]
