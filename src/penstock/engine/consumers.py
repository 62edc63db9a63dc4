"""The consumer positions of an open log: who has come how far in a topic, and how far behind
that is."""

from __future__ import annotations

import threading

from penstock import limits
from penstock.clock import Clock
from penstock.engine.catalogue import Catalogue
from penstock.engine.handle import Handle
from penstock.errors import InvalidArgument, Overloaded, TopicNotFound
from penstock.topics import names, reading
from penstock.types import Position, PositionMoved


class Consumers:
    """Positions are state of their topic: this only checks, logs and shows them. Safe from
    several threads."""

    def __init__(self, catalogue: Catalogue, clock: Clock) -> None:
        self._catalogue = catalogue
        self._clock = clock
        self._adding = threading.Lock()

    def move(self, topic: str, name: str, seq: int) -> Position:
        """Durable on return. Moving back is fine: a consumer may want to see records again."""
        names.topic_name(name, "position")
        names.seq(seq)
        handle = self._catalogue.get(topic)
        entry = PositionMoved(handle.topic.id, name, seq, self._clock.now_ms())
        if name in handle.topic.consumers:
            self._commit(handle, entry)
        else:
            with self._adding:  # one new name at a time, so that two cannot pass the bound
                most = limits.POSITIONS_MAX
                if len(handle.topic.consumers) >= most and name not in handle.topic.consumers:
                    raise Overloaded(
                        f"topic {topic!r} has {most} positions already", retry_after_ms=1000
                    )
                self._commit(handle, entry)
        return self._shown(handle, {name: (seq, entry.ts)})[0]

    def drop(self, topic: str, name: str) -> bool:
        """Durable on return; false when there is none."""
        names.topic_name(name, "position")
        handle = self._catalogue.get(topic)
        if name not in handle.topic.consumers:
            return False
        now_ms = self._clock.now_ms()
        entry = PositionMoved(handle.topic.id, name, 0, now_ms, is_removed=True)
        self._commit(handle, entry)
        return True

    def get(self, topic: str, name: str) -> Position | None:
        names.topic_name(name, "position")
        handle = self._catalogue.get(topic)
        held = handle.topic.consumers.get(name)
        return None if held is None else self._shown(handle, {name: held})[0]

    def all(self, topic: str) -> list[Position]:
        """Sorted by name."""
        handle = self._catalogue.get(topic)
        with handle.lock:
            held = dict(sorted(handle.topic.consumers.items()))
        return self._shown(handle, held)

    def _commit(self, handle: Handle, entry: PositionMoved) -> None:
        self._catalogue.check_writable(handle)
        with handle.lock:
            topic = handle.topic
            if handle.is_dropped:
                raise TopicNotFound(topic.name)
            if entry.seq > topic.head:
                raise InvalidArgument(
                    f"position {entry.seq} lies past the head of topic {topic.name!r}, {topic.head}"
                )
            ticket = self._catalogue.stage(handle, entry)
        self._catalogue.finish(handle, ticket)

    def _shown(self, handle: Handle, held: dict[str, tuple[int, int]]) -> list[Position]:
        self._catalogue.refresh(handle)
        now_ms = self._clock.now_ms()
        with handle.lock:
            topic = handle.topic
            ahead = reading.unread(topic, [seq for seq, _ in held.values()])
            return [
                Position(
                    name,
                    seq,
                    topic.epoch,
                    ts,
                    records,
                    max(0, now_ms - oldest_ts) if records else 0,
                    topic.head,
                )
                for (name, (seq, ts)), (records, oldest_ts) in zip(held.items(), ahead, strict=True)
            ]
