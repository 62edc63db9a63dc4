"""The topics of an open log: find, create, configure and drop them, and the control entries that
change them."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from penstock import limits
from penstock.engine.handle import Handle, Pushable
from penstock.engine.internal_topics import INTERNAL_TOPICS, InternalTopic
from penstock.engine.opening import LogContext
from penstock.entries import FloorMoved, SeqsLost, TopicConfigured
from penstock.errors import (
    Closed,
    ColdUnavailable,
    Overloaded,
    PenstockError,
    TopicExists,
    TopicNotFound,
)
from penstock.storage.wal.pending_commit import PendingCommit
from penstock.storage.wal.shard import Shard
from penstock.topics import validation
from penstock.types import Cause, TopicConfig, TopicInfo

Created = Callable[[Handle | PenstockError, bool], None]
"""Called with the topic or the error, and whether this call created the topic."""


class Creation(msgspec.Struct, eq=False):
    """A queued creation of a topic, and the callbacks that wait for it."""

    shard: Shard
    commit: PendingCommit
    waiters: list[tuple[Created, bool]]

    @property
    def shard_group(self) -> str:
        return self.shard.group

    def push(self) -> None:
        self.shard.push()


Push = Callable[[Pushable], None]
"""Wakes the shard of a submitted change, now or later."""


def push_now(submitted: Pushable) -> None:
    submitted.push()


class Catalogue:
    """One creation or removal at a time; look-ups take no lock. A topic is added and removed when
    its entry is published, so that a checkpoint never sees one without the other."""

    def __init__(self, parts: LogContext) -> None:
        self._parts = parts
        self._clock = parts.clock
        self._registry = parts.registry
        self._timeout_s = parts.settings.append_timeout_s
        self._handles = parts.handles
        self.journal = parts.journal
        self.changing = threading.RLock()  # hold it to look and then create or drop
        self._creating: dict[str, Creation] = {}  # on their way to the log
        self._creating_lock = threading.Lock()
        self._after_drop: dict[str, list[Callable[[PenstockError | None], None]]] = {}
        self.catch_up: Callable[[Handle], None] = lambda handle: None  # set by the routers
        self.changed: Callable[[str], None] = lambda name: None  # set by the watches
        self.is_closed = False
        self._default_config = self._checked_config("", {})

    # Finding.

    def find(self, name: str) -> Handle | None:
        """A topic by its name. Internal topics, whose names begin with an underscore, are not
        found."""
        handle = self._handles.get(name)
        return None if handle is None or validation.is_internal(name) else handle

    def get(self, name: str) -> Handle:
        self.check_open()
        handle = self.find(name)
        if handle is None:
            validation.topic_name(name)
            raise TopicNotFound(name)
        return handle

    def get_or_create(self, name: str) -> tuple[Handle, bool]:
        """(the topic, whether this call created it)"""
        handle = self._handles.get(name)  # as `find`, without a call for each append
        if handle is not None and not handle.is_dropped and name[0] != "_" and not self.is_closed:
            return handle, False
        with self.changing:
            self.check_open()
            handle = self.find(name)
            if handle is not None and not handle.is_dropped:
                return handle, False
            return self.create(validation.topic_name(name), self.config(name, {}))

    def internal(self, wanted: InternalTopic) -> Handle:
        """One of the log's own topics, created when it is first used."""
        handle = self._handles.get(wanted.name)
        if handle is not None:
            return handle
        with self.changing:
            return self.create(wanted.name, wanted.config, wanted.id)[0]

    @property
    def count(self) -> int:
        """The number of topics, without internal ones."""
        return len(self._handles) - sum(one.name in self._handles for one in INTERNAL_TOPICS)

    def all(self, prefix: str = "", *, internal: bool = False) -> list[Handle]:
        """Sorted by name. Internal topics are left out: only their names begin with an
        underscore."""
        chosen = sorted(
            name
            for name in list(self._handles)
            if name.startswith(prefix) and (internal or not validation.is_internal(name))
        )
        found = (self._handles.get(name) for name in chosen)
        return [handle for handle in found if handle is not None]

    def names(self, prefix: str = "") -> list[str]:
        """The names of callers' topics that start with `prefix`, sorted."""
        return [handle.name for handle in self.all(prefix)]

    def payload_bytes(self) -> int:
        """The payload bytes of all live and all queued records, without internal topics."""
        handles = [handle for handle in self.each() if not validation.is_internal(handle.name)]
        # In this order: bytes move from the first to the second while we look.
        return sum(handle.staged_bytes + handle.topic.bytes for handle in handles)

    def each(self) -> list[Handle]:
        """All topics, in no order."""
        return list(self._handles.values())

    def infos(self, prefix: str) -> list[TopicInfo]:
        """All topics whose name starts with `prefix`, sorted by name."""
        self.check_open()
        return [self.info(handle) for handle in self.all(prefix)]

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

    def is_changing_here(self) -> bool:
        """True if this thread holds `changing`."""
        return self.changing._is_owned()  # type: ignore[attr-defined, no-any-return]

    # Making and unmaking: `changing` is held.

    def config(self, name: str, given: dict[str, object]) -> TopicConfig:
        """The configuration of a topic with the given settings."""
        return self._checked_config(name, given) if given else self._default_config

    def _checked_config(self, name: str, given: dict[str, object]) -> TopicConfig:
        default = self._parts.settings.default_durability
        return validation.topic_config(given, topic=name, default_durability=default)

    def create(
        self, name: str, config: TopicConfig, own_id: int | None = None
    ) -> tuple[Handle, bool]:
        """The topic, durable on return, and whether this call created it. `own_id` is for internal
        topics, which have their own range of ids."""
        known = self._handles.get(name)
        if known is not None and known.drop is not None:
            self.journal.wait(known, known.drop)  # the name is free after that
        with self._creating_lock:
            known = self._handles.get(name)  # it joins these before its creation ends
            if known is not None:
                return known, False
            creation, is_new = self._begin_creation(name, config, own_id)
        creation.shard.drive(creation.commit)
        creation.commit.wait(self._timeout_s)
        return self._handles[name], is_new

    def submit_create(
        self, topic: str, given: dict[str, Any], done: Created, push: Push = push_now
    ) -> None:
        """Create a topic without waiting for the disk: creations share their syncs. `done` is
        called with the topic (or the error) and whether this call created it: at once when the
        topic exists, else on a thread of the log."""
        name = validation.topic_name(topic)
        self._submit_create(name, self.config(name, given), done, push=push)

    def submit_internal(self, wanted: InternalTopic, done: Created) -> None:
        """`internal` by callback, as `submit_create`."""
        self._submit_create(wanted.name, wanted.config, done, wanted.id)

    def _submit_create(
        self,
        name: str,
        config: TopicConfig,
        done: Created,
        own_id: int | None = None,
        push: Push = push_now,
    ) -> None:
        with self._creating_lock:
            self.check_open()
            handle = self._handles.get(name)
            drop = None if handle is None else handle.drop
            if drop is not None:
                if not drop.is_done:
                    again = functools.partial(self._create_after_drop, name, config, done)
                    self._after_drop.setdefault(name, []).append(again)
                    return
                if drop.error is not None:
                    raise drop.error
                handle = self._handles.get(name)
            if handle is None:
                creation, is_new = self._begin_creation(name, config, own_id)
                creation.waiters.append((done, is_new))
        if handle is not None:
            done(handle, False)
        else:
            push(creation)

    def _create_after_drop(
        self, name: str, config: TopicConfig, done: Created, error: PenstockError | None
    ) -> None:
        if error is None:
            try:
                self._submit_create(name, config, done)
            except PenstockError as refusal:
                error = refusal
        if error is not None:
            done(error, False)

    def _begin_creation(
        self, name: str, config: TopicConfig, own_id: int | None
    ) -> tuple[Creation, bool]:
        """Queue the creation, or join the one that is queued. `_creating_lock` is held only for
        this call."""
        known = self._creating.get(name)
        if known is not None:
            return known, False
        if not validation.is_internal(name):
            self._check_count()
        topic_id = self._registry.next_id if own_id is None else own_id
        shard = self._parts.shard_of(topic_id)
        self._parts.failure.check_writable(shard)
        if own_id is None:
            self._registry.next_id = topic_id + 1
        self.journal.create(
            shard,
            topic_id,
            name,
            config,
            reserved=limits.SEQ_RESERVE if config.durability != "fsync" else 0,
            callback=functools.partial(self._end_creation, name),
            steps_of=lambda commit: (
                (self._creating.__setitem__, name, Creation(shard, commit, [])),
            ),
        )
        return self._creating[name], True

    def check_room(self, topics: Iterable[str]) -> None:
        """Check that there is room for those of these topics that are missing, all or none."""
        most = self._parts.settings.max_topics
        missing = {topic for topic in topics if self.find(topic) is None}
        if most and missing and self.count + len(missing) > most:
            raise self._too_many(self.count)

    def _check_count(self) -> None:
        """Check that there may be one more topic, or raise. `_creating_lock` is held."""
        most = self._parts.settings.max_topics
        if not most or len(self._handles) + len(self._creating) < most:
            return
        count = self.count + sum(not validation.is_internal(one) for one in self._creating)
        if count >= most:
            raise self._too_many(count)

    def _too_many(self, count: int) -> Overloaded:
        return Overloaded(
            f"there are {count} topics already (max_topics)",
            retry_after_ms=1000,
            limit=("max_topics", self._parts.settings.max_topics),
        )

    def _end_creation(self, name: str, commit: PendingCommit) -> None:
        with self._creating_lock:
            creation = self._creating.pop(name)
        for done, is_new in creation.waiters:
            done(commit.error or self._handles[name], is_new and commit.error is None)
        self.changed(name)

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
                handle.has_unwritten = True  # until a checkpoint has written them
            self.journal.commit(handle, TopicConfigured(topic.id, topic.name, wanted))
            with handle.lock:
                if handle.wal_positions is not None and current.durability != wanted.durability:
                    handle.wal_positions.clear()  # what was written so far was promised otherwise

    def drop(self, handle: Handle) -> None:
        commit = handle.drop
        if commit is None:
            self._parts.failure.check_writable(handle.shard)
            with handle.lock:
                commit = self.journal.drop(handle, self._end_drop)
        self.journal.wait(handle, commit)
        handle.wake()

    def _end_drop(self, commit: PendingCommit) -> None:
        """The name is free: continue the creations that waited for it."""
        handle: Handle = commit.subject.handle
        with self._creating_lock:
            waiting = self._after_drop.pop(handle.topic.name, ())
        for create in waiting:
            create(commit.error)
        self.changed(handle.topic.name)

    # Control entries.

    def check_writable(self, handle: Handle) -> None:
        """Check that this topic may be changed. Raises the error of the disk, if there is one."""
        self._parts.failure.check_writable(handle.shard)

    def refresh(self, handle: Handle) -> None:
        """Before a read of a topic: copy the pending records of its routers, and expire old
        records."""
        if handle.feeds:
            self.catch_up(handle)
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
            if self._parts.failure.is_troubled or self.is_closed:
                self.journal.apply_unlogged(handle, (entry,))
                return
            commit = self.journal.submit(handle, (entry,), durable=False)
        self.journal.wait(handle, commit)

    def report_unreadable(self, handle: Handle, first: int, last: int) -> None:
        """For `repair`: records first..last cannot be read; report them as lost."""
        self.journal.commit(handle, SeqsLost(handle.id, first, last, Cause.DAMAGE))

    def note_head(self, handle: Handle) -> None:
        """Log the last seq of a RAM-only topic: on replay its seqs count as used and lost."""
        topic = handle.topic
        if topic.head:
            floors = topic.evict_floor, topic.head + 1, topic.expiry_floor
            self.journal.commit(handle, FloorMoved(topic.id, *floors))

    def close(self) -> None:
        """Refuse new writes to every topic; records that already have a seq are still committed."""
        for handle in self.all(internal=True):
            with handle.lock:
                handle.is_closed = True
        if not self._parts.failure.is_troubled:
            for handle in self.all():
                if handle.topic.config.durability == "ephemeral":
                    self.note_head(handle)
