"""A topic at work: its state, its lock, its shard, and what is on the way to disk."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.storage.wal.shard import Shard
from penstock.storage.wal.ticket import Ticket
from penstock.topics.index import Topic

if TYPE_CHECKING:
    from penstock.engine.route import Route
    from penstock.engine.trail import Trail


class Handle:
    """`lock` guards everything here, the topic's state included. It is held for microseconds:
    never across a write, a sync or a wait."""

    __slots__ = (
        "calm",
        "durable_ceiling",
        "feeds",
        "holder",
        "is_closed",
        "is_dropped",
        "keys_under_way",
        "last_ts",
        "listeners",
        "lock",
        "next_seq",
        "outlets",
        "pruned",
        "reserved",
        "shard",
        "staged_bytes",
        "topic",
        "trail",
    )

    def __init__(self, topic: Topic, shard: Shard) -> None:
        self.topic = topic
        self.shard = shard
        self.lock = threading.Lock()
        self.next_seq = topic.head + 1
        self.last_ts = topic.last_ts
        self.reserved = topic.ceiling  # seqs up to here may be acknowledged unsynced
        self.staged_bytes = 0  # payload submitted and not yet published
        self.durable_ceiling = 0  # reserved in this run, for records that are never written
        self.holder: object = None  # the batch over several topics that keeps others out
        # No seal is due before this time unless the tail is no longer as it was then; read and
        # written by the upkeep alone.
        self.calm: tuple[int, int, float] = (-1, -1, 0.0)
        self.pruned = 0  # the removals of the topic that its leases have followed
        self.feeds: tuple[Route, ...] = ()  # routers that end here
        self.outlets: tuple[Route, ...] = ()  # routers that begin here
        self.trail: Trail | None = None  # kept while there are any of these
        self.is_dropped = False
        self.is_closed = False
        self.keys_under_way: dict[bytes, Ticket] = {}
        self.listeners: tuple[Callable[[], None], ...] = ()

    def is_short_of_seqs(self, count: int) -> bool:
        """Must a RAM-only topic reserve seqs, and wait for that, before `count` more records?"""
        if self.topic.config.durability != "ephemeral":
            return False
        return self.next_seq + count - 1 > self.durable_ceiling

    @property
    def is_behind(self) -> bool:
        """Is there something on its way here that a reader should see now?"""
        return bool(self.feeds) and any(
            feed.is_behind for handle in self.upstream() for feed in handle.feeds
        )

    def upstream(self) -> list[Handle]:
        """This topic, what feeds it, what feeds that, and so on: all routers that end in a topic
        come from one other. Each once, however the way goes round."""
        found: list[Handle] = []
        at: Handle | None = self
        while at is not None and at not in found:
            found.append(at)
            feeds = at.feeds
            at = feeds[0].source if feeds else None
        return found

    def push(self) -> None:
        """Get what was submitted for this topic going, without waiting for it."""
        self.shard.push()

    def wake(self) -> None:
        """Tell followers that something changed. Call without the lock."""
        for listener in self.listeners:
            listener()

    def listen(self, listener: Callable[[], None]) -> None:
        with self.lock:
            self.listeners = (*self.listeners, listener)

    def unlisten(self, listener: Callable[[], None]) -> None:
        with self.lock:
            self.listeners = tuple(one for one in self.listeners if one is not listener)
