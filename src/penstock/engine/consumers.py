"""The consumer positions of an open log, with their lag."""

from __future__ import annotations

from collections.abc import Callable, Set

from penstock import limits
from penstock.atomic_steps import Step
from penstock.clock import Clock
from penstock.engine import read
from penstock.engine.catalogue import Catalogue
from penstock.engine.handle import Handle
from penstock.engine.journal import Applied
from penstock.entries import PositionMoved
from penstock.errors import InvalidArgument, Overloaded, PenstockError, TopicNotFound
from penstock.storage.wal.pending_commit import PendingCommit
from penstock.topics import read_plan, validation
from penstock.topics.topic import Topic
from penstock.types import Position


class Consumers:
    """Checks, logs and returns positions, which are part of the state of their topic. Safe from
    several threads."""

    def __init__(self, catalogue: Catalogue, clock: Clock) -> None:
        self._catalogue = catalogue
        self._clock = clock
        # Names on their way to the log and how often, by topic, so that new ones together do not
        # pass the bound. Guarded by the topic's lock.
        self._under_way: dict[int, dict[str, int]] = {}

    def move(self, topic: str, name: str, seq: int) -> Position:
        """Durable on return. A position may move back: a consumer may read records again."""
        handle = self._catalogue.get(topic)
        entry = self._moved(handle, name, seq)
        self._catalogue.journal.wait(handle, self._submit(handle, entry))
        return self.shown(handle, entry)

    def submit_move(
        self,
        handle: Handle,
        name: str,
        seq: int,
        done: Callable[[PositionMoved | PenstockError], None],
        push: Callable[[Handle], None] = Handle.push,
    ) -> None:
        """The same without waiting: `done` is called on a thread of the log. `push` wakes the
        topic's shard, now or later."""
        entry = self._moved(handle, name, seq)
        self._submit(handle, entry, lambda commit: done(commit.error or entry))
        push(handle)

    def drop(self, topic: str, name: str) -> bool:
        """Durable on return; false when there is none."""
        handle = self._catalogue.get(topic)
        entry = self._removed(handle, name)
        if entry is None:
            return False
        self._catalogue.journal.wait(handle, self._submit(handle, entry))
        return True

    def submit_drop(
        self,
        handle: Handle,
        name: str,
        done: Callable[[bool | PenstockError], None],
        push: Callable[[Handle], None] = Handle.push,
    ) -> None:
        """The same without waiting: `done` is called on a thread of the log, or here."""
        entry = self._removed(handle, name)
        if entry is None:
            done(False)
            return
        self._submit(handle, entry, lambda commit: done(commit.error or True))
        push(handle)

    def get(self, topic: str, name: str) -> Position | None:
        validation.topic_name(name, "position")
        handle = self._catalogue.get(topic)
        held = handle.topic.consumers.get(name)
        return None if held is None else self._shown(handle, {name: held})[0]

    def all(self, topic: str) -> list[Position]:
        """Sorted by name."""
        handle = self._catalogue.get(topic)
        with handle.lock:
            held = dict(sorted(handle.topic.consumers.items()))
        return self._shown(handle, held)

    def shown(self, handle: Handle, moved: PositionMoved) -> Position:
        """A position that was just moved."""
        return self._shown(handle, {moved.name: (moved.seq, moved.ts)})[0]

    def is_shown_quickly(self, handle: Handle, seq: int) -> bool:
        """True if the lag behind `seq` is known without reading files."""
        return not handle.feeds and not handle.config.ttl_ms and read.is_hot(handle, seq)

    def _moved(self, handle: Handle, name: str, seq: int) -> PositionMoved:
        validation.topic_name(name, "position")
        validation.seq(seq)
        return PositionMoved(handle.id, name, seq, self._clock.now_ms())

    def _removed(self, handle: Handle, name: str) -> PositionMoved | None:
        validation.topic_name(name, "position")
        if name not in handle.topic.consumers:
            return None
        return PositionMoved(handle.id, name, 0, self._clock.now_ms(), is_removed=True)

    def _submit(
        self, handle: Handle, entry: PositionMoved, done: Applied = lambda commit: None
    ) -> PendingCommit:
        self._catalogue.check_writable(handle)
        name = entry.name

        def committed(commit: PendingCommit) -> None:
            with handle.lock:
                left = under_way[name] - 1
                if left:
                    under_way[name] = left
                else:
                    del under_way[name]
                if not under_way:
                    self._under_way.pop(handle.id, None)
            done(commit)

        with handle.lock:
            topic = handle.topic
            if handle.is_dropped:
                raise TopicNotFound(topic.name)
            if entry.seq > topic.head:
                raise InvalidArgument(
                    f"position {entry.seq} is above the head of topic {topic.name!r}, {topic.head}"
                )
            under_way = self._under_way.setdefault(handle.id, {})
            if not entry.is_removed and name not in topic.consumers:
                _check_bound(topic, under_way.keys() | {name})
            count = under_way.get(name, 0) + 1
            steps: tuple[Step, ...] = ((under_way.__setitem__, name, count),)
            return self._catalogue.journal.submit(handle, (entry,), callback=committed, steps=steps)

    def _shown(self, handle: Handle, held: dict[str, tuple[int, int]]) -> list[Position]:
        self._catalogue.refresh(handle)
        now_ms = self._clock.now_ms()
        with handle.lock:
            topic = handle.topic
            ahead = read_plan.unread(topic, [seq for seq, _ in held.values()])
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


def _check_bound(topic: Topic, names: Set[str]) -> None:
    """Raise when the topic would have too many positions with these names added."""
    most = limits.POSITIONS_MAX
    if len(topic.consumers.keys() | names) > most:
        raise Overloaded(
            f"topic {topic.name!r} has {most} positions already",
            retry_after_ms=1000,
            limit=("max_positions", most),
        )
