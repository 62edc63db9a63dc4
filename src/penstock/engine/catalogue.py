"""The topics of an open log: finding, making, configuring and dropping them, and the control
entries that change them."""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock import limits
from penstock.codec.entry import encode_entry
from penstock.engine.handle import Handle
from penstock.engine.opening import Parts
from penstock.errors import Closed, ColdUnavailable, Overloaded, TopicExists, TopicNotFound
from penstock.storage.wal.ticket import Ticket, closed_gate
from penstock.topics import names
from penstock.types import (
    FloorMoved,
    PositionMoved,
    RecordsDeleted,
    RouterCreated,
    RouterDropped,
    SeqsLost,
    SeqsReserved,
    TopicConfig,
    TopicConfigured,
    TopicCreated,
    TopicDropped,
    TopicInfo,
)

ControlOfTopic = (
    TopicConfigured
    | TopicDropped
    | FloorMoved
    | SeqsReserved
    | SeqsLost
    | RecordsDeleted
    | PositionMoved
    | RouterCreated
    | RouterDropped
)


# The log's own topics. No caller can name them.
INTENTS = "_batches"  # of batches over several topics
AUDIT = "_audit"  # what was done by those who run it


class Catalogue:
    """Creations and removals go one at a time; look-ups take no lock. A topic joins and leaves
    the catalogue when its entry is published, so that a checkpoint never sees one without the
    other."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._clock = parts.clock
        self._registry = parts.registry
        self._timeout_s = parts.settings.append_timeout_s
        self._handles = parts.handles
        self.changing = threading.RLock()
        self.settle: Callable[[Handle], None] = lambda handle: None  # set by the routers
        self.is_closed = False

    # Finding.

    def find(self, name: str) -> Handle | None:
        """A topic by its name. The log's own, which begin with an underscore, are nobody's."""
        handle = self._handles.get(name)
        return None if handle is None or name[0] == "_" else handle

    def get(self, name: str) -> Handle:
        self.check_open()
        handle = self.find(name)
        if handle is None:
            names.topic_name(name)
            raise TopicNotFound(name)
        return handle

    def get_or_create(self, name: str) -> tuple[Handle, bool]:
        """(the topic, whether it was made just now)"""
        handle = self.find(name)
        if handle is not None and not self.is_closed:
            return handle, False
        with self.changing:
            self.check_open()
            handle = self.find(name)
            if handle is not None:
                return handle, False
            return self.create(names.topic_name(name), self.config(name, {})), True

    @property
    def count(self) -> int:
        """How many topics callers have."""
        return len(self._handles) - (INTENTS in self._handles) - (AUDIT in self._handles)

    def all(self, prefix: str = "", *, internal: bool = False) -> list[Handle]:
        """Sorted by name. The log's own topics begin with an underscore, which no other can."""
        chosen = sorted(
            name
            for name in list(self._handles)
            if name.startswith(prefix) and (internal or not name.startswith("_"))
        )
        found = (self._handles.get(name) for name in chosen)
        return [handle for handle in found if handle is not None]

    def each(self) -> list[Handle]:
        """All of them, in no order."""
        return list(self._handles.values())

    def info(self, handle: Handle) -> TopicInfo:
        self.refresh(handle)
        with handle.lock:
            topic = handle.topic
            return TopicInfo(
                topic.name,
                topic.id,
                topic.epoch,
                topic.config,
                topic.head,
                topic.earliest,
                topic.head + 1,
                topic.live,
                topic.bytes,
                sum(span.run.is_sealed for span in topic.spans),
                topic.last_ts or None,
            )

    def check_open(self) -> None:
        if self.is_closed:
            raise Closed("the log is closed")

    # Making and unmaking: `changing` is held.

    def config(self, name: str, given: dict[str, object]) -> TopicConfig:
        default = self._parts.settings.default_durability
        return names.topic_config(given, topic=name, default_durability=default)

    def create(self, name: str, config: TopicConfig, own_id: int | None = None) -> Handle:
        """`own_id` is for topics of the log's own, which have ids beside all others."""
        most = self._parts.settings.max_topics
        if most and name[0] != "_" and self.count >= most:
            raise Overloaded(
                f"there are {self.count} topics already (max_topics)", retry_after_ms=1000
            )
        topic_id = self._registry.next_id if own_id is None else own_id
        now_ms = self._clock.now_ms()
        shard = self._parts.shard_of(topic_id)
        self._parts.check_writable(shard)
        entries: list[TopicCreated | SeqsReserved] = [TopicCreated(topic_id, name, config, now_ms)]
        if config.durability != "fsync":
            entries.append(SeqsReserved(topic_id, limits.SEQ_RESERVE))

        def publish(tickets: list[Ticket]) -> None:
            for entry in entries:
                self._registry.apply(entry)
            topic = self._registry.by_id(topic_id)
            if topic is None:
                raise AssertionError("a created topic must exist")
            topic.position = tickets[-1].start
            handle = Handle(topic, shard)
            handle.durable_ceiling = topic.ceiling
            self._handles[name] = handle

        if own_id is None:
            self._registry.next_id = topic_id + 1
        frames = b"".join(encode_entry(entry, now_ms) for entry in entries)
        ticket = Ticket(frames, publish, durable=True, lane=topic_id, gate=closed_gate())
        shard.submit(ticket)
        shard.drive(ticket)
        ticket.wait(self._timeout_s)
        return self._handles[name]

    def configure(self, handle: Handle, wanted: TopicConfig) -> None:
        topic = handle.topic
        current = topic.config
        if current.type != wanted.type:
            raise TopicExists(
                f"topic {topic.name!r} is a {current.type}, it cannot become a {wanted.type}"
            )
        if current != wanted:
            if current.durability == "ephemeral":
                self.note_head(handle)
            self.commit(handle, TopicConfigured(topic.id, topic.name, wanted))
            with handle.lock:
                if handle.trail is not None and current.durability != wanted.durability:
                    handle.trail.clear()  # what was written so far was promised otherwise

    def drop(self, handle: Handle) -> None:
        name = handle.topic.name
        self._parts.check_writable(handle.shard)
        with handle.lock:
            handle.is_dropped = True
            ticket = self.stage(handle, TopicDropped(handle.topic.id, name))
        self.finish(handle, ticket)
        handle.wake()

    # Control entries.

    def check_writable(self, handle: Handle) -> None:
        """May this topic be changed? Raises what is wrong with the disk, if anything."""
        self._parts.check_writable(handle.shard)

    def commit(self, handle: Handle, entry: ControlOfTopic) -> Ticket:
        """Log a control entry durably and apply it."""
        self.check_writable(handle)
        with handle.lock:
            if handle.is_dropped:
                raise TopicNotFound(handle.topic.name)
            ticket = self.stage(handle, entry)
        self.finish(handle, ticket)
        return ticket

    def stage(self, handle: Handle, entry: ControlOfTopic, *, durable: bool = True) -> Ticket:
        """Queue a control entry. The topic's lock is held."""

        def publish(tickets: list[Ticket]) -> None:
            with handle.lock:
                tickets[-1].result = self._registry.apply(entry)
                handle.topic.position = tickets[-1].start
                if isinstance(entry, TopicDropped):
                    self._handles.pop(entry.name, None)

        frames = encode_entry(entry, self._clock.now_ms())
        ticket = Ticket(frames, publish, durable=durable, lane=handle.topic.id, gate=closed_gate())
        handle.shard.submit(ticket)
        return ticket

    def finish(self, handle: Handle, ticket: Ticket) -> None:
        handle.shard.drive(ticket)
        ticket.wait(self._timeout_s)

    def refresh(self, handle: Handle) -> None:
        """Before a look at a topic: bring what is on its way to it, let go of what is too old."""
        if handle.feeds:
            self.settle(handle)
        self.expire(handle)

    def expire(self, handle: Handle) -> None:
        """Move the TTL floor. Logged but not synced: after a crash the clock moves it again."""
        if not handle.topic.config.ttl_ms:
            return
        with handle.lock:
            topic = handle.topic
            try:
                expired = topic.expired_to(self._clock.now_ms())
            except ColdUnavailable:  # an index here is damaged, and its data away: later
                return
            if expired <= topic.expiry_floor or handle.is_dropped:
                return
            entry = FloorMoved(topic.id, topic.evict_floor, topic.earliest, expired)
            if self._parts.is_troubled or self.is_closed:
                self._registry.apply(entry)
                return
            ticket = self.stage(handle, entry, durable=False)
        self.finish(handle, ticket)

    def note_head(self, handle: Handle) -> None:
        """Log how far the seqs of a RAM-only topic went: on replay they are used, and lost."""
        topic = handle.topic
        if topic.head:
            floors = topic.evict_floor, topic.head + 1, topic.expiry_floor
            self.commit(handle, FloorMoved(topic.id, *floors))

    def close(self) -> None:
        """Refuse new writes to every topic; what is numbered already is still committed."""
        for handle in self.all(internal=True):
            with handle.lock:
                handle.is_closed = True
        if not self._parts.is_troubled:
            for handle in self.all():
                if handle.topic.config.durability == "ephemeral":
                    self.note_head(handle)
