"""The intents of batches over several topics: records of an internal topic, each a whole batch.

A batch happens when its intent is durable. Then its parts are appended in the ordinary way, and the
intent is deleted. A crash in between leaves the intent: the next opening of the log appends the
missing parts.
"""

from __future__ import annotations

import msgspec

from penstock import limits
from penstock.engine import read
from penstock.engine.append import Appender
from penstock.engine.batch import Batch, from_columns
from penstock.engine.handle import Handle
from penstock.engine.internal_topics import BATCHES
from penstock.engine.journal import Journal
from penstock.entries import RecordsDeleted
from penstock.errors import BatchTooLarge, Overloaded
from penstock.storage.wal.pending_commit import PendingCommit
from penstock.types import Appended

_encode = msgspec.json.Encoder().encode
_Texts = list[msgspec.Raw]  # `null` where there is none: a Raw may not be optional
_NULL = b"null"


class Promise(msgspec.Struct, array_like=True):
    """A part as it is logged: the records, and the seqs they will have."""

    topic_id: int
    first_seq: int
    key: str
    datas: list[msgspec.Raw]
    metas: _Texts | None = None
    tags: list[str | None] | None = None
    nodes: list[str | None] | None = None
    node: str | None = None


class Intent(msgspec.Struct):
    """The logged batch. `replaces` is the seq of the intent that this one replaces."""

    parts: list[Promise]
    replaces: int = 0


class _Logged(msgspec.Struct):
    seq: int
    data: Intent


_LOGGED = msgspec.json.Decoder(list[_Logged])


class BatchIntents:
    """Writes intents and their parts. The caller ensures that there is one batch at a time."""

    def __init__(
        self, journal: Journal, appender: Appender, handles: dict[str, Handle], timeout_s: float
    ) -> None:
        self._journal = journal
        self._appender = appender
        self._handles = handles
        self._timeout_s = timeout_s

    def finish_interrupted(self) -> int:
        """Append the parts that a crash left out, before any other write. Returns the number of
        batches."""
        intents = self._handles.get(BATCHES.name)
        if intents is None:
            return 0
        logged = _logged(intents)
        replaced = {one.data.replaces for one in logged}
        for one in logged:
            if one.seq not in replaced:
                self._redeem(intents, one)
        for one in _logged(intents):  # the replacements too
            self.forget(intents, one.seq)
        return len(logged)

    def log(self, intents: Handle, parts: list[Promise]) -> int:
        """Log the intent, which commits the batch. Returns the seq of the intent."""
        text = _encode(Intent(parts))
        if len(text) * 2 > limits.SHARD_QUEUE_BYTES_MAX:  # a queue must hold it and its parts
            raise BatchTooLarge(
                f"the batch has {len(text)} bytes, "
                f"at most {limits.SHARD_QUEUE_BYTES_MAX // 2} are allowed"
            )
        return self._log(intents, text)

    def write(self, handle: Handle, batch: Batch, holder: object = None) -> Appended:
        """An ordinary append with unlimited retries: the batch is already committed."""
        while True:
            try:
                if handle.topic.config.durability == "ephemeral":
                    reserved = self._appender.reserve(handle, batch.count)
                    if reserved is not None:
                        self._journal.wait(handle, reserved)
                staged = self._appender.stage(handle, batch, holder=holder)
                break
            except Overloaded:  # the queue is full: nothing was staged
                handle.shard.tick()
        if isinstance(staged, Appended):
            return staged
        if not staged.is_done:
            handle.shard.drive(staged)
            _outlast(staged, self._timeout_s)
        elif handle.is_followed:
            handle.wake()
        return self._appender.answer(staged, created=False, batch=batch)

    def sync(self, handles: list[Handle]) -> None:
        for shard in {handle.shard for handle in handles}:
            shard.sync_all()

    def forget(self, intents: Handle, seq: int) -> None:
        """Not synced: an intent that replay finds again adds nothing."""
        entry = RecordsDeleted(intents.topic.id, None, None, (seq,), seq)
        with intents.lock:
            commit = self._journal.submit(intents, (entry,), durable=False)
        self._journal.wait(intents, commit)

    # Inside.

    def _log(self, intents: Handle, text: bytes) -> int:
        return self.write(intents, Batch([text], len(text))).first_seq

    def _redeem(self, intents: Handle, logged: _Logged) -> None:
        """Append the parts that are missing."""
        due: list[tuple[Handle, Promise]] = []
        by_id = {handle.id: handle for handle in self._handles.values()}
        for promise in logged.data.parts:
            handle = by_id.get(promise.topic_id)
            if handle is None or handle.topic.config.durability == "ephemeral":
                continue  # gone with the process, as all records of a RAM-only topic are
            if not _is_kept(handle, promise):
                due.append((handle, promise))
        if any(promise.first_seq != handle.next_seq for handle, promise in due):
            # The seqs are used up by a loss. Promise others first: a crash in the middle of
            # this must not find the old promise due once more.
            for handle, promise in due:
                promise.first_seq = handle.next_seq
            self._log(intents, _encode(Intent([promise for _, promise in due], logged.seq)))
        for handle, promise in due:
            self.write(handle, _batch(promise))
        self.sync([handle for handle, _ in due])


def _outlast(commit: PendingCommit, timeout_s: float) -> None:
    """Wait for an answer without a timeout."""
    while True:
        try:
            return commit.wait(timeout_s)
        except Overloaded:
            continue


def _logged(intents: Handle) -> list[_Logged]:
    """Every stored intent."""
    found: list[_Logged] = []
    after = 0
    wanted = read.options(100, None, None)
    while True:
        page = read.read_json(intents, after, None, wanted)
        found += _LOGGED.decode(page.records)
        after = page.next_seq
        if page.caught_up:
            return found


def _batch(promise: Promise) -> Batch:
    return from_columns(
        [bytes(data) for data in promise.datas],
        _bytes_of(promise.metas),
        _labels_of(promise.tags),
        _labels_of(promise.nodes),
        node=None if promise.node is None else promise.node.encode(),
        key=bytes.fromhex(promise.key),
        are_valid=True,
    )


def _is_kept(handle: Handle, promise: Promise) -> bool:
    """True if the promised seqs have the promised records, or had them before a cap, a TTL or a
    delete removed them. Only after a loss must the part be appended again."""
    last = promise.first_seq + len(promise.datas) - 1
    with handle.lock:
        topic = handle.topic
        if topic.head < last:
            return False
        return not any(
            loss.first <= last and promise.first_seq <= loss.last for loss in topic.losses
        )


def promise_of(handle: Handle, batch: Batch) -> Promise:
    """The part of an intent for one topic. The topic's lock is held, or the topic accepts no other
    appends."""
    if batch.spans is not None:
        raise AssertionError("a promise holds the texts of its records, one by one")
    return Promise(
        handle.id,
        handle.next_seq,
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
