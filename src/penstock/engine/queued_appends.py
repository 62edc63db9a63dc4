"""Appends in two steps: one gives them their place in the topic, the other waits for the disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from penstock.append_options import NO_OPTIONS
from penstock.engine.append import Appender
from penstock.engine.atomic_batches import AtomicBatches
from penstock.engine.batch import Batch
from penstock.engine.catalogue import Catalogue
from penstock.engine.handle import Handle
from penstock.engine.interruptible_calls import VerbThreads
from penstock.engine.opening import LogContext
from penstock.errors import TopicNotFound
from penstock.storage.wal.pending_commit import PendingCommit
from penstock.types import Appended

Resolved = Callable[[PendingCommit], None]


class CheckRoom(Protocol):
    """Admits an append, or waits, or raises Overloaded."""

    def __call__(self, handle: Handle, count: int, *, may_wait: bool) -> None: ...


class QueuedAppend:
    """An append that has its place in the topic. Any thread may look; one waits."""

    def __init__(
        self,
        handle: Handle,
        batch: Batch,
        commit: PendingCommit,
        appender: Appender,
        timeout_s: float,
        *,
        created: bool,
    ) -> None:
        self.first_seq: int = commit.subject[1].first_seq
        self._handle = handle
        self._batch = batch
        self._commit = commit
        self._appender = appender
        self._timeout_s = timeout_s
        self._created = created

    @property
    def is_done(self) -> bool:
        """True if its records can be read, or it has failed."""
        return self._commit.is_done

    def wait(self) -> Appended:
        """Return when the topic's class is met; raise why it is not."""
        commit = self._commit
        if not commit.is_done:
            self._handle.shard.drive(commit)
        commit.wait(self._timeout_s)
        return self._appender.answer(commit, created=self._created, batch=self._batch)


class QueuedAppends:
    """Safe from several threads."""

    def __init__(
        self,
        parts: LogContext,
        catalogue: Catalogue,
        atomic_batches: AtomicBatches,
        check_room: CheckRoom,
        verb_threads: VerbThreads,
    ) -> None:
        self._appender = parts.appender
        self._timeout_s = parts.settings.append_timeout_s
        self._catalogue = catalogue
        self._atomic_batches = atomic_batches
        self._check_room = check_room
        self._verb_threads = verb_threads

    def queue(self, topic: str, batch: Batch, resolved: Resolved | None = None) -> QueuedAppend:
        """Give a checked batch without options and key its place in the topic, which is created if
        it is missing. With `resolved` nobody waits for the append: its shard is started, and calls
        back."""
        self._verb_threads.finish()
        while True:
            handle, created = self._catalogue.get_or_create(topic)
            try:
                self._check_room(handle, batch.count, may_wait=True)
                staged = self._atomic_batches.stage(handle, batch, NO_OPTIONS, resolved)
                break
            except TopicNotFound:  # dropped in between
                if not handle.is_dropped:
                    raise
        if isinstance(staged, Appended):
            raise TypeError("a batch with an idempotency key is appended in one step")
        if staged.is_done:  # kept in memory: nothing else notifies the followers
            if handle.is_followed:
                handle.wake()
        elif resolved is not None:
            handle.push()
        return QueuedAppend(handle, batch, staged, self._appender, self._timeout_s, created=created)

    def flush(self, topic: str, resolved: Resolved | None = None) -> bool:
        """Return when the appends that are queued can be read, or have failed. With `resolved`
        return at once; it is called then. False: there is no such topic."""
        handle = self._catalogue.find(topic)
        if handle is None:
            return False
        journal = self._catalogue.journal
        with handle.lock:
            if handle.is_dropped:
                return False
            commit = journal.submit(handle, (), durable=False, frames=b"", callback=resolved)
        if resolved is None:
            journal.wait(handle, commit)
        else:
            handle.push()
        return True
