"""Appends to several topics, all or nothing.

Topics may be in different shards, and no single write covers two of them. So the whole batch is
first logged durably as one record of an internal topic, which commits it. Then each part is
appended in the ordinary way. A crash in between leaves the record, and the next opening appends the
missing parts before any other write. During a batch its topics accept no other appends, so its
parts get the seqs that the record names.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from penstock.append_options import NO_OPTIONS, AppendOptions
from penstock.engine.append import Appender, Held
from penstock.engine.batch import Batch
from penstock.engine.batch_intents import promise_of
from penstock.engine.catalogue import Catalogue
from penstock.engine.handle import Handle
from penstock.engine.internal_topics import BATCHES
from penstock.engine.opening import LogContext
from penstock.errors import InvalidArgument, PenstockError
from penstock.storage.wal.pending_commit import PendingCommit
from penstock.types import Appended


@dataclass(frozen=True, slots=True)
class TopicAppend:
    """The part of a batch for one topic."""

    handle: Handle
    batch: Batch
    created: bool = False
    options: AppendOptions = NO_OPTIONS


class AtomicBatches:
    """One batch at a time. Safe from several threads."""

    def __init__(self, parts: LogContext, catalogue: Catalogue, appender: Appender) -> None:
        self._parts = parts
        self._catalogue = catalogue
        self._appender = appender
        self._intents = parts.batch_intents
        self._free = threading.Condition()
        self._deferred: list[Callable[[object], None]] = []

    # For single appends during a batch.

    def stage(
        self,
        handle: Handle,
        batch: Batch,
        options: AppendOptions,
        callback: Callable[[PendingCommit], None] | None = None,
    ) -> PendingCommit | Appended:
        """Stage an append, after the batch in progress, if there is one."""
        while True:
            try:
                return self._appender.stage(handle, batch, callback, options)
            except Held:
                # The batch holds this lock until it is over. An exception from outside may end
                # the wait for a lock anywhere, and for a condition it may not.
                with self._catalogue.changing:
                    pass

    def defer(
        self,
        handle: Handle,
        batch: Batch,
        resolved: Callable[[PendingCommit | Appended | PenstockError], None],
        options: AppendOptions,
    ) -> None:
        """Stage an append when the topic accepts appends again, on the thread that releases the
        topic."""

        def again(holder: object = None) -> None:
            try:
                staged = self._appender.stage(handle, batch, resolved, options, holder)
            except Held:
                self.defer(handle, batch, resolved, options)
            except PenstockError as error:
                resolved(error)
            else:
                if isinstance(staged, Appended):
                    resolved(staged)
                elif not staged.is_done:
                    handle.push()
                elif handle.is_followed:
                    handle.wake()

        with self._free:
            if handle.holder is not None:
                self._deferred.append(again)
                return
        again()

    # The batch.

    def append(self, parts: list[TopicAppend]) -> list[Appended]:
        """All or nothing; durable on return, whatever the topics' classes."""
        ids = {part.handle.topic.id for part in parts}
        if len(ids) < len(parts):
            raise InvalidArgument("a topic occurs twice in one batch: join its records in one part")
        with self._catalogue.changing:  # no topic may go meanwhile
            self._catalogue.check_open()
            for part in parts:
                self._parts.failure.check_writable(part.handle.shard)
            seen = self._seen(parts)
            if seen is not None:
                return seen
            intents = self._catalogue.internal(BATCHES)
            self._hold(parts)
            try:
                return self._append(parts, intents)
            finally:
                self._release(parts)

    # Inside.

    def _append(self, parts: list[TopicAppend], intents: Handle) -> list[Appended]:
        batches = self._intents
        logged = batches.log(intents, [promise_of(part.handle, part.batch) for part in parts])
        answers = [batches.write(part.handle, part.batch, self) for part in parts]
        batches.sync([part.handle for part in parts])
        batches.forget(intents, logged)
        return [
            msgspec.structs.replace(answer, created=part.created)
            for part, answer in zip(parts, answers, strict=True)
        ]

    def _hold(self, parts: list[TopicAppend]) -> None:
        """Hold the topics, then check that every part can be appended."""
        for part in parts:
            with part.handle.lock:
                part.handle.holder = self
        try:
            for part in parts:
                with part.handle.lock:
                    self._appender.check(part.handle, part.batch, part.options)
        except BaseException:
            self._release(parts)
            raise

    def _release(self, parts: list[TopicAppend]) -> None:
        """Release the topics after all waiting appends: later appends must not overtake them."""
        with self._free:
            deferred, self._deferred = self._deferred, []
        for again in deferred:
            again(self)
        with self._free:  # those who came meanwhile are few, and nobody slips in between
            while self._deferred:
                self._deferred.pop(0)(self)
            for part in parts:
                part.handle.holder = None
            self._free.notify_all()

    def _seen(self, parts: list[TopicAppend]) -> list[Appended] | None:
        """The answers of the same batch, sent before. Its keys were stored with its parts, all of
        them or none."""
        answers = []
        for part in parts:
            with part.handle.lock:
                answer = part.batch.key and self._appender.seen(part.handle, part.batch.key)
            if not answer:
                return None
            answers.append(answer)
        return answers
