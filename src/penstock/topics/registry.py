"""All topics by id and by name, and the one way to change them: `apply(entry)`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from penstock.limits import TOPIC_ID_OWN
from penstock.topics.index import RunFactory, Topic
from penstock.types import (
    Cause,
    FloorMoved,
    LeasesChanged,
    PositionMoved,
    RecordsAppended,
    RecordsDeleted,
    RecordsRouted,
    RouterCreated,
    RouterDropped,
    SeqsLost,
    SeqsReserved,
    TopicConfig,
    TopicConfigured,
    TopicCreated,
    TopicDropped,
    TopicEntry,
)


class Registry:
    """Records that were appended before are passed over, so replay may start early; for other
    entries replay goes by each topic's `position`, since a cap applied again might meet records
    that came after it.

    Not locked: the engine holds the topic's lock around `apply` of that topic, and its own
    around creation and removal.
    """

    def __init__(self, place: RunFactory) -> None:
        self._place = place
        self._by_id: dict[int, Topic] = {}
        self._by_name: dict[str, Topic] = {}
        self.next_id = 1
        self.jump_cause = Cause.LOST  # why seqs are missing when an append is not the next one

    def get(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def by_id(self, topic_id: int) -> Topic | None:
        return self._by_id.get(topic_id)

    def known(self) -> list[Topic]:
        """Every topic by id, also those whose name is not settled yet."""
        return list(self._by_id.values())

    def all(self) -> list[Topic]:
        """Sorted by name."""
        return [self._by_name[name] for name in sorted(self._by_name)]

    def __len__(self) -> int:
        return len(self._by_name)

    def apply(self, entry: TopicEntry) -> int:
        """Change the state; returns how many records a delete removed, else 0."""
        match entry:
            case RecordsAppended():
                self._known(entry.topic_id).apply_append(entry, self._place, self.jump_cause)
            case RecordsDeleted():
                return self._known(entry.topic_id).apply_delete(entry)
            case TopicCreated():
                self._create(entry)
            case TopicConfigured():
                self._known(entry.topic_id).configure(entry.config)
            case TopicDropped():
                self._drop(entry.topic_id)
            case FloorMoved():
                self._known(entry.topic_id).apply_floor(entry)
            case SeqsReserved():
                topic = self._known(entry.topic_id)
                topic.ceiling = max(topic.ceiling, entry.ceiling)
            case SeqsLost():
                self._known(entry.topic_id).bury(entry.first, entry.last, entry.cause)
            case PositionMoved():
                self._known(entry.topic_id).apply_position(entry)
            case LeasesChanged():
                self._known(entry.topic_id).queue.apply(entry)
            case RecordsRouted():
                self._known(entry.topic_id).apply_route(entry, self._place, self.jump_cause)
            case RouterCreated():
                self._known(entry.topic_id).apply_router(entry)
            case RouterDropped():
                self._known(entry.topic_id).routers.pop(entry.name, None)
            case _:
                assert_never(entry)
        return 0

    def adopt(self, topics: Iterable[Topic], next_id: int) -> None:
        """Start from a snapshot."""
        for topic in topics:
            self._by_id[topic.id] = topic
        self.next_id = max(self.next_id, next_id)
        self.settle_names()

    def settle_names(self) -> None:
        """After replay: shards replay one after another, so a dropped and recreated name is
        settled only now. The youngest topic of a name is the live one."""
        self._by_name = {}
        for topic_id in sorted(self._by_id):
            topic = self._by_id[topic_id]
            older = self._by_name.get(topic.name)
            if older is not None:
                del self._by_id[older.id]
            self._by_name[topic.name] = topic

    def _create(self, entry: TopicCreated) -> None:
        if entry.topic_id < TOPIC_ID_OWN:
            self.next_id = max(self.next_id, entry.topic_id + 1)
        known = self._by_id.get(entry.topic_id)
        if known is not None:
            known.name = entry.name
            return
        topic = Topic(entry.topic_id, entry.name, entry.config, entry.ts)
        self._by_id[entry.topic_id] = topic
        self._by_name[entry.name] = topic

    def _drop(self, topic_id: int) -> None:
        topic = self._by_id.pop(topic_id, None)
        if topic is not None and self._by_name.get(topic.name) is topic:
            del self._by_name[topic.name]

    def _known(self, topic_id: int) -> Topic:
        """The topic; one whose creation was lost to damage gets a name that says so."""
        topic = self._by_id.get(topic_id)
        if topic is None:
            self._create(TopicCreated(topic_id, f"recovered-{topic_id:08X}", TopicConfig(), 0))
            topic = self._by_id[topic_id]
        return topic
