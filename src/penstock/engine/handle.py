"""An open topic: its state, its lock, its shard, and its pending commits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from penstock.storage.wal.pending_commit import PendingCommit
from penstock.storage.wal.shard import Shard
from penstock.topics.topic import Topic
from penstock.types import TopicConfig

if TYPE_CHECKING:
    from penstock.engine.change_mark import ChangeMark
    from penstock.engine.router_state import ActiveRouter
    from penstock.engine.wal_positions import WalPositions
    from penstock.engine.watermarks import SyncProgress


class Pushable(Protocol):
    """Something with commits in the queue of a shard. One push is enough for all of one group."""

    @property
    def shard_group(self) -> str: ...

    def push(self) -> None:
        """Start the submitted commits, without waiting for them."""


class Extent(NamedTuple):
    """The seqs of a topic, the number of its live records, and their payload bytes."""

    head_seq: int
    earliest_seq: int
    records: int
    bytes: int


class Handle:
    """`lock` guards everything here, the topic's state included. It is held for microseconds:
    never across a write, a sync or a wait."""

    __slots__ = (
        "calm",
        "dead_lettered",
        "drop",
        "durable_ceiling",
        "feeds",
        "has_copies",
        "has_unwritten",
        "holder",
        "id",
        "is_closed",
        "is_dropped",
        "is_followed",
        "keys_under_way",
        "last_ts",
        "listeners",
        "lock",
        "mark",
        "name",
        "next_lease_id",
        "next_seq",
        "outlets",
        "recovered_head",
        "reserved",
        "shard",
        "shard_group",
        "staged_bytes",
        "sync_progress",
        "topic",
        "wal_positions",
    )

    def __init__(self, topic: Topic, shard: Shard) -> None:
        self.topic = topic
        self.name = topic.name
        self.id = topic.id
        self.shard = shard
        self.shard_group = shard.group  # topics of one group are written by one shard
        self.lock = threading.Lock()
        self.next_seq = topic.head + 1
        self.last_ts = topic.last_ts
        self.reserved = topic.ceiling  # seqs up to here may be acknowledged unsynced
        self.staged_bytes = 0  # payload submitted and not yet published
        self.durable_ceiling = 0  # reserved in this run, for records that are never written
        self.holder: object = None  # the batch over several topics that keeps others out
        # No seal is due before this time unless the tail is no longer as it was then; read and
        # written by the maintenance alone.
        self.calm: tuple[int, int, float] = (-1, -1, 0.0)
        # Of a queue: given out so far, entries that are on their way to the log included.
        self.next_lease_id = topic.queue.next_lease_id
        self.dead_lettered = topic.queue.dead_lettered
        self.feeds: tuple[ActiveRouter, ...] = ()  # routers that end here
        self.outlets: tuple[ActiveRouter, ...] = ()  # routers that begin here
        self.wal_positions: WalPositions | None = None  # kept while there are any of these
        self.is_dropped = False
        self.drop: PendingCommit | None = None  # the removal, from when it is queued
        self.is_closed = False
        self.keys_under_way: dict[bytes, PendingCommit] = {}
        self.listeners: tuple[Callable[[], None], ...] = ()
        self.mark: ChangeMark | None = None  # of those who watch this topic
        self.is_followed = False  # there is a listener or a mark
        # For the watermarks of this topic:
        self.recovered_head = topic.head  # the records up to here were on disk at the opening
        self.sync_progress: SyncProgress | None = None  # since someone asked for it
        self.has_copies = False  # made by routers in this run
        self.has_unwritten = False  # records of a RAM-only class that it no longer has

    # What servers ask. A topic's configuration and head change; its name and id do not.

    @property
    def config(self) -> TopicConfig:
        return self.topic.config

    @property
    def head(self) -> int:
        return self.topic.head

    @property
    def epoch(self) -> int:
        return self.topic.epoch

    @property
    def sync_group(self) -> str:
        """Topics with the same value are synced together."""
        return "" if self.has_copies else self.shard_group  # copies need all shards

    @property
    def queue_depth(self) -> int:
        """Commits that wait for this topic's shard to write them."""
        return self.shard.queue_depth

    def extent(self) -> Extent:
        """As of one moment."""
        with self.lock:
            topic = self.topic
            return Extent(topic.head, topic.earliest, topic.live, topic.bytes)

    def is_short_of_seqs(self, count: int) -> bool:
        """True if a RAM-only topic must reserve seqs, and wait for that, before `count` more
        records."""
        if self.topic.config.durability != "ephemeral":
            return False
        return self.next_seq + count - 1 > self.durable_ceiling

    @property
    def is_behind(self) -> bool:
        """True if routers have records for this topic that a reader should see now."""
        return bool(self.feeds) and any(
            feed.is_behind for handle in self.upstream() for feed in handle.feeds
        )

    def upstream(self) -> list[Handle]:
        """This topic, its source, the source of that, and so on: all routers that end in a topic
        have one source. Each topic occurs once, also in a cycle."""
        found: list[Handle] = []
        at: Handle | None = self
        while at is not None and at not in found:
            found.append(at)
            feeds = at.feeds
            at = feeds[0].source if feeds else None
        return found

    def push(self) -> None:
        """Start the submitted commits of this topic, without waiting for them."""
        self.shard.push()

    def wake(self) -> None:
        """Notify followers of a change. Call it without the lock."""
        mark = self.mark
        if mark is not None:
            mark.set()
        for listener in self.listeners:
            listener()

    def listen(self, listener: Callable[[], None]) -> None:
        with self.lock:
            self.listeners = (*self.listeners, listener)
            self.is_followed = True

    def unlisten(self, listener: Callable[[], None]) -> None:
        with self.lock:
            self.listeners = tuple(one for one in self.listeners if one is not listener)
            self.is_followed = bool(self.listeners) or self.mark is not None

    def mark_changes(self, mark: ChangeMark | None) -> None:
        """Set this mark with every change from now on; None: no longer."""
        with self.lock:
            self.mark = mark
            self.is_followed = bool(self.listeners) or mark is not None
