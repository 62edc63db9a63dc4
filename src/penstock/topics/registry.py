"""All topics by id and by name, and the one way to change them: `apply(entry)`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from penstock.atomic_steps import Step
from penstock.entries import (
    FloorMoved,
    KeyRemembered,
    LeasesChanged,
    PositionMoved,
    RecordsAppended,
    RecordsDeleted,
    RecordsRouted,
    RouterCreated,
    RouterDropped,
    RouterLogged,
    RouterMoved,
    SeqsLost,
    SeqsReserved,
    TopicConfigured,
    TopicCreated,
    TopicDropped,
    TopicEntry,
)
from penstock.limits import TOPIC_ID_OWN
from penstock.topics.topic import RunFactory, Topic
from penstock.types import Cause, TopicConfig


class Registry:
    """Records that were appended before are skipped, so replay may start early. For other entries
    replay compares each topic's `position`, because a cap applied again might evict later records.

    Not locked: the engine holds the topic's lock around `apply` of that topic, and its own
    around creation and removal.
    """

    def __init__(self, place: RunFactory) -> None:
        self.place = place
        self._by_id: dict[int, Topic] = {}
        self._by_name: dict[str, Topic] = {}
        self.next_id = 1
        self.defers_caps = False  # while topics are rebuilt, whose records come in any order
        self.jump_cause = Cause.LOST  # why seqs are missing when an append is not the next one

    def get(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def by_id(self, topic_id: int) -> Topic | None:
        return self._by_id.get(topic_id)

    def known(self) -> list[Topic]:
        """Every topic by id, also those whose name is not resolved yet."""
        return list(self._by_id.values())

    def all(self) -> list[Topic]:
        """Sorted by name."""
        return [self._by_name[name] for name in sorted(self._by_name)]

    def __len__(self) -> int:
        return len(self._by_name)

    def apply(self, entry: TopicEntry, position: tuple[int, int] | None = None) -> int:
        """Change the state; returns how many records a delete removed, else 0. `position` is
        where the entry's commit begins in the WAL; None for an entry that is not logged."""
        removed = self._apply(entry)
        if position is not None:
            topic = self._by_id.get(entry.topic_id)
            if topic is not None and position > topic.position:
                topic.position = position
        return removed

    def deleting(
        self, entry: RecordsDeleted, position: tuple[int, int]
    ) -> tuple[list[Step], int] | None:
        """The steps of `apply` for a delete, to be performed at once, and how many records it
        removes; None for a delete that takes more than one step."""
        topic = self._by_id.get(entry.topic_id)
        change = None if topic is None else topic.deleting(entry)
        if topic is not None and change is not None and position > topic.position:
            change[0].append((setattr, topic, "position", position))
        return change

    def _apply(self, entry: TopicEntry) -> int:
        match entry:
            case RecordsAppended():
                self._known(entry.topic_id).apply_append(entry, self.place, self.jump_cause)
            case RecordsDeleted():
                return self._known(entry.topic_id).apply_delete(entry)
            case TopicCreated():
                self._create(entry)
            case TopicConfigured():
                topic = self._known(entry.topic_id)
                topic.configure(entry.config, defers_caps=self.defers_caps)
            case TopicDropped():
                self._drop(entry.topic_id)
            case FloorMoved():
                self._known(entry.topic_id).apply_floor(entry)
            case SeqsReserved():
                topic = self._known(entry.topic_id)
                topic.ceiling = max(topic.ceiling, entry.ceiling)
            case SeqsLost():
                self._known(entry.topic_id).drop_unreadable(entry.first, entry.last, entry.cause)
            case PositionMoved():
                self._known(entry.topic_id).apply_position(entry)
            case LeasesChanged():
                self._known(entry.topic_id).queue.apply(entry)
            case RecordsRouted():
                self._known(entry.topic_id).apply_route(entry, self.place, self.jump_cause)
            case RouterLogged():
                self._known(entry.topic_id).apply_router_logged(entry)
            case RouterMoved():
                router = self._known(entry.topic_id).routers.get(entry.router)
                if router is not None:
                    router.went_on(entry.cursor, entry.count)
            case KeyRemembered():
                span = entry.first_seq, entry.last_seq
                self._known(entry.topic_id).remember(entry.key, *span, entry.ts)
            case RouterCreated():
                self._known(entry.topic_id).apply_router(entry)
            case RouterDropped():
                self._known(entry.topic_id).routers.pop(entry.name, None)
            case _:
                assert_never(entry)
        return 0

    def enforce_caps(self) -> None:
        """After `defers_caps`."""
        self.defers_caps = False
        for topic in self._by_id.values():
            topic.enforce_caps()

    def adopt(self, topics: Iterable[Topic], next_id: int) -> None:
        """Start from a snapshot."""
        for topic in topics:
            self._by_id[topic.id] = topic
        self.next_id = max(self.next_id, next_id)
        self.resolve_names()

    def resolve_names(self) -> None:
        """After replay: shards replay one after another, so a dropped and recreated name is
        resolved only now. The newest topic of a name is the live one."""
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
