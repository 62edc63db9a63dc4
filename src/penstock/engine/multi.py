"""Appends to several topics, all or nothing.

Topics lie in different shards, and no single write covers two of them. So the whole batch is
first logged as one record of an internal topic, durably: that is the moment it happens. Then
each part is appended in the ordinary way. A crash in between leaves the record, and the next
opening finishes what it says before anyone else may write. While a batch is under way its
topics take no other appends, so the seqs that its record names are the ones its parts get.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from penstock import limits
from penstock.engine import read
from penstock.engine.append import Appender, Held
from penstock.engine.batch import Batch, from_columns
from penstock.engine.catalogue import INTENTS, Catalogue
from penstock.engine.handle import Handle
from penstock.engine.opening import Parts
from penstock.errors import BatchTooLarge, InvalidArgument, Overloaded, PenstockError
from penstock.storage.wal.ticket import Ticket
from penstock.types import Appended, RecordsDeleted, TopicConfig

_INTENT = TopicConfig(durability="fsync", durable=True)
_encode = msgspec.json.Encoder().encode
_Texts = list[msgspec.Raw]  # `null` where there is none: a Raw may not be optional
_NULL = b"null"


@dataclass(frozen=True, slots=True)
class Part:
    """What goes to one topic."""

    handle: Handle
    batch: Batch
    created: bool = False
    expected_seq: int | None = None


class _Promise(msgspec.Struct, array_like=True):
    """A part as it is logged: the records, and the seqs they will have."""

    topic_id: int
    first_seq: int
    key: str
    datas: list[msgspec.Raw]
    metas: _Texts | None = None
    tags: list[str | None] | None = None
    nodes: list[str | None] | None = None
    node: str | None = None


class _Intent(msgspec.Struct):
    """The logged batch. `replaces` is the seq of an intent that this one stands in for."""

    parts: list[_Promise]
    replaces: int = 0


class _Logged(msgspec.Struct):
    seq: int
    data: _Intent


_LOGGED = msgspec.json.Decoder(list[_Logged])


class MultiAppender:
    """One batch at a time. Safe from several threads."""

    def __init__(self, parts: Parts, catalogue: Catalogue, appender: Appender) -> None:
        self._parts = parts
        self._catalogue = catalogue
        self._appender = appender
        self._timeout_s = parts.settings.append_timeout_s
        self._free = threading.Condition()
        self._deferred: list[Callable[[object], None]] = []

    # For single appends that meet a batch under way.

    def stage(self, handle: Handle, batch: Batch, expected_seq: int | None) -> Ticket | Appended:
        """Stage an append, after the batch that is under way, if there is one."""
        while True:
            try:
                return self._appender.stage(handle, batch, None, expected_seq)
            except Held:
                with self._free:
                    if handle.holder is not None:
                        self._parts.clock.wait(self._free, self._timeout_s)

    def defer(
        self,
        handle: Handle,
        batch: Batch,
        resolved: Callable[[Ticket | Appended | PenstockError], None],
        expected_seq: int | None,
    ) -> None:
        """Stage an append when the topic takes them again, on the thread that lets it go."""

        def again(holder: object = None) -> None:
            try:
                staged = self._appender.stage(handle, batch, resolved, expected_seq, holder)
            except Held:
                self.defer(handle, batch, resolved, expected_seq)
            except PenstockError as error:
                resolved(error)
            else:
                if isinstance(staged, Appended):
                    resolved(staged)
                elif not staged.is_done:
                    handle.push()
                elif handle.listeners:
                    handle.wake()

        with self._free:
            if handle.holder is not None:
                self._deferred.append(again)
                return
        again()

    # The batch.

    def append(self, parts: list[Part]) -> list[Appended]:
        """Everything or nothing; durable on return, whatever the topics' classes."""
        ids = {part.handle.topic.id for part in parts}
        if len(ids) < len(parts):
            raise InvalidArgument("a batch names each topic once")
        with self._catalogue.changing:  # no topic may go meanwhile
            self._catalogue.check_open()
            for part in parts:
                self._parts.check_writable(part.handle.shard)
            seen = self._seen(parts)
            if seen is not None:
                return seen
            intents = self._intents()
            self._hold(parts)
            try:
                return self._append(parts, intents)
            finally:
                self._release(parts)

    def finish_interrupted(self) -> int:
        """Complete what a crash cut short; before anyone may write. How many batches."""
        intents = self._parts.handles.get(INTENTS)
        if intents is None or self._parts.is_troubled:
            return 0
        logged = _logged(intents)
        replaced = {one.data.replaces for one in logged}
        for one in logged:
            if one.seq not in replaced:
                self._redeem(intents, one)
        for one in _logged(intents):  # and those that stood in for some of them
            self._forget(intents, one.seq)
        return len(logged)

    # Inside.

    def _append(self, parts: list[Part], intents: Handle) -> list[Appended]:
        text = _encode(_Intent([_promise(part) for part in parts]))
        if len(text) * 2 > limits.SHARD_QUEUE_BYTES_MAX:  # a queue must hold it and its parts
            raise BatchTooLarge(
                f"the batch has {len(text)} bytes, "
                f"at most {limits.SHARD_QUEUE_BYTES_MAX // 2} are allowed"
            )
        logged = self._log(intents, text)
        answers = [self._write(part.handle, part.batch) for part in parts]
        self._sync([part.handle for part in parts])
        self._forget(intents, logged)
        return [
            msgspec.structs.replace(answer, created=part.created)
            for part, answer in zip(parts, answers, strict=True)
        ]

    def _log(self, intents: Handle, text: bytes) -> int:
        return self._write(intents, Batch([text], len(text))).first_seq

    def _redeem(self, intents: Handle, logged: _Logged) -> None:
        """Append the parts that are missing."""
        due: list[tuple[Handle, _Promise]] = []
        for promise in logged.data.parts:
            topic = self._parts.registry.by_id(promise.topic_id)
            handle = None if topic is None else self._parts.handles.get(topic.name)
            if handle is None or handle.topic.config.durability == "ephemeral":
                continue  # gone with the process, as all records of a RAM-only topic are
            if not _is_kept(handle, promise):
                due.append((handle, promise))
        if any(promise.first_seq != handle.next_seq for handle, promise in due):
            # The seqs are used up by a loss. Promise others first: a crash in the middle of
            # this must not find the old promise due once more.
            for handle, promise in due:
                promise.first_seq = handle.next_seq
            self._log(intents, _encode(_Intent([promise for _, promise in due], logged.seq)))
        for handle, promise in due:
            self._write(handle, _batch(promise))
        self._sync([handle for handle, _ in due])

    def _sync(self, handles: list[Handle]) -> None:
        for shard in {handle.shard for handle in handles}:
            shard.harden()

    def _write(self, handle: Handle, batch: Batch) -> Appended:
        """An ordinary append that does not give up: it is promised already."""
        while True:
            try:
                if handle.topic.config.durability == "ephemeral":
                    reserved = self._appender.reserve(handle, batch.count)
                    if reserved is not None:
                        self._catalogue.finish(handle, reserved)
                staged = self._appender.stage(handle, batch, holder=self)
                break
            except Overloaded:  # the queue is full: nothing was staged
                handle.shard.tick()
        if isinstance(staged, Appended):
            return staged
        if not staged.is_done:
            handle.shard.drive(staged)
            _outlast(staged, self._timeout_s)
        elif handle.listeners:
            handle.wake()
        return self._appender.answer(staged, created=False, batch=batch)

    def _hold(self, parts: list[Part]) -> None:
        """Keep other appends out, then look whether every part can be appended."""
        for part in parts:
            with part.handle.lock:
                part.handle.holder = self
        try:
            for part in parts:
                with part.handle.lock:
                    self._appender.check(part.handle, part.batch, part.expected_seq)
        except BaseException:
            self._release(parts)
            raise

    def _release(self, parts: list[Part]) -> None:
        """Let the topics go when all who wait have had their turn: whoever comes later must not
        overtake them."""
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

    def _seen(self, parts: list[Part]) -> list[Appended] | None:
        """The answers of the same batch sent before. Its keys were remembered with its parts,
        all of them or none."""
        answers = []
        for part in parts:
            with part.handle.lock:
                answer = part.batch.key and self._appender.seen(part.handle, part.batch.key)
            if not answer:
                return None
            answers.append(answer)
        return answers

    def _intents(self) -> Handle:
        return self._parts.handles.get(INTENTS) or self._catalogue.create(INTENTS, _INTENT)

    def _forget(self, intents: Handle, seq: int) -> None:
        """Not synced: a promise that is found again has been kept already."""
        entry = RecordsDeleted(intents.topic.id, None, None, (seq,), seq)
        with intents.lock:
            ticket = self._catalogue.stage(intents, entry, durable=False)
        self._catalogue.finish(intents, ticket)


def _outlast(ticket: Ticket, timeout_s: float) -> None:
    """Wait for an answer, however long the disk takes."""
    while True:
        try:
            return ticket.wait(timeout_s)
        except Overloaded:
            continue


def _logged(intents: Handle) -> list[_Logged]:
    """Every intent that is still there."""
    found: list[_Logged] = []
    after = 0
    wanted = read.options(100, None, None)
    while True:
        page = read.read_json(intents, after, None, wanted)
        found += _LOGGED.decode(page.records)
        after = page.next_seq
        if page.caught_up:
            return found


def _batch(promise: _Promise) -> Batch:
    return from_columns(
        [bytes(data) for data in promise.datas],
        _bytes_of(promise.metas),
        _labels_of(promise.tags),
        _labels_of(promise.nodes),
        node=None if promise.node is None else promise.node.encode(),
        key=bytes.fromhex(promise.key),
        are_valid=True,
    )


def _is_kept(handle: Handle, promise: _Promise) -> bool:
    """Are the promised seqs the promised records? They may also have been let go again since,
    by a cap, a TTL or somebody's delete; only a loss makes the promise due once more."""
    last = promise.first_seq + len(promise.datas) - 1
    with handle.lock:
        topic = handle.topic
        if topic.head < last:
            return False
        return not any(
            loss.first <= last and promise.first_seq <= loss.last for loss in topic.losses
        )


def _promise(part: Part) -> _Promise:
    batch = part.batch
    if batch.laid is not None:
        raise AssertionError("a promise holds the texts of its records, one by one")
    return _Promise(
        part.handle.topic.id,
        part.handle.next_seq,
        batch.key.hex(),
        [msgspec.Raw(data) for data in batch.datas],
        None
        if batch.metas is None
        else [msgspec.Raw(_NULL if meta is None else meta) for meta in batch.metas],
        _texts_of(batch.tags),
        _texts_of(batch.nodes),
        None if batch.node is None else batch.node.decode(),
    )


def _texts_of(column: list[bytes | None] | None) -> list[str | None] | None:
    return None if column is None else [one and one.decode() for one in column]  # type: ignore[misc]


def _labels_of(column: list[str | None] | None) -> list[bytes | None] | None:
    return None if column is None else [one and one.encode() for one in column]  # type: ignore[misc]


def _bytes_of(column: _Texts | None) -> list[bytes | None] | None:
    return (
        None if column is None else [None if text == _NULL else text for text in map(bytes, column)]
    )
