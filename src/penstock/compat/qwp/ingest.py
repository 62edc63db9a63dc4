"""The session of one QWP client: appends its messages in order and answers in the same order.

Answers are cumulative, and are sent when the commit class of every topic is met. After a refusal
nothing is accepted or answered: the client reconnects and resends from there.
A temporary error is not a refusal: see `full_topics`.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final

from penstock import limits
from penstock.compat.qwp import replies
from penstock.compat.qwp.byte_reader import QwpError, QwpStatus
from penstock.compat.qwp.codec import Message, QwpDecoder, QwpTable
from penstock.compat.qwp.full_topics import DelayedClose, may_pass
from penstock.compat.qwp.groups import Entry, Group, rounds
from penstock.compat.qwp.keys import Keys, MessageNumber, digest_of
from penstock.compat.qwp.resend_detection import Receipts
from penstock.errors import (
    BatchTooLarge,
    InvalidArgument,
    PenstockError,
    RecordTooLarge,
    StorageError,
)
from penstock.server.adapters import (
    CREATE_AND_WAIT,
    Answer,
    ApiKey,
    Batch,
    Service,
    TopicWrite,
    WebSocket,
    WebSocketCallbacks,
    api_error,
    batch_of_texts,
    topic_name,
)
from penstock.types import Appended

_log = logging.getLogger("penstock.server")
_INLINE_BYTES: Final = 32 * limits.KIB  # longer messages are decoded on a thread
_INFLIGHT_MAX: Final = 32  # messages of one client on their way to the disk
_INFLIGHT_BYTES: Final = 8 * limits.MIB

# The first that fits decides. A client stops for good at SCHEMA, PARSE and SECURITY, and tries
# a few times more after all others: what can never be taken must not look as if it could.
_STATUSES: Final[tuple[tuple[type[PenstockError], QwpStatus], ...]] = (
    (RecordTooLarge, QwpStatus.PARSE),
    (BatchTooLarge, QwpStatus.PARSE),
    (InvalidArgument, QwpStatus.SCHEMA),
    (StorageError, QwpStatus.WRITE),
)


class Ingest:
    """Event loop only."""

    def __init__(
        self,
        service: Service,
        socket: WebSocket,
        key: ApiKey,
        on_end: Callable[[], None],
        receipts: Receipts,
        *,
        is_durable: bool,
    ) -> None:
        self._service = service
        self._socket = socket
        self._key = key
        self._on_end = on_end
        self._is_durable = is_durable  # the client wants to hear of syncs
        self._decoder = QwpDecoder()
        self._seq = 0
        self._entries: deque[Entry] = deque()
        self._group = Group()
        self._task: asyncio.Task[None] | None = None
        self._in_flight = 0
        self._in_flight_bytes = 0
        self._quiet = asyncio.Event()  # nothing is in flight
        self._quiet.set()
        now_s = asyncio.get_running_loop().time
        self._told = receipts.open(lambda: socket.delivered_bytes, now_s)
        self._keys = Keys(receipts, self._told)
        self._unsynced: dict[str, int] = {}
        self._syncing: asyncio.Task[None] | None = None
        self._is_refusing = False  # a message failed
        self._delayed_close = DelayedClose(socket)
        self._is_overrun = False  # a message was too long: the connection ends with its refusal
        self._is_over = False
        self._is_answering = False
        socket.attach(
            WebSocketCallbacks(
                self._text, self._binary, _nothing, self._closed, self._is_busy, self._overlong
            )
        )

    # What the socket tells.

    def _text(self, text: bytes) -> None:
        self._socket.close(1003, "expected a binary message")

    def _closed(self) -> None:
        """Complete messages are still committed; an incomplete group is not."""
        if not self._is_over:
            self._is_over = True
            self._delayed_close.cancel()
            self._told.end(is_clean=not self._socket.was_reset)
            self._on_end()

    def _is_busy(self) -> bool:
        return (
            self._task is not None
            or self._delayed_close.is_pending
            or self._in_flight >= _INFLIGHT_MAX
            or self._in_flight_bytes >= _INFLIGHT_BYTES
        )

    def _binary(self, data: bytes) -> None:
        if self._is_refusing or self._is_over:
            return
        entry = Entry(self._seq)
        self._seq += 1
        self._entries.append(entry)
        if len(data) > _INLINE_BYTES:
            self._start(entry, self._decode_first(entry, data))
            return
        try:
            message = self._decoder.decode(data)
            if not self._append_directly(entry, message):
                self._start(entry, self._add_to_group(entry, message))
        except Exception as error:  # noqa: BLE001 - the client hears of it, whatever it is
            self._fail(entry, error)

    def _overlong(self) -> None:
        """Refuse a message that was not read, after the answers to earlier ones."""
        self._is_overrun = True
        if self._is_refusing or self._is_over:
            self._answer_soon()
            return
        entry = Entry(self._seq)
        self._entries.append(entry)
        reason = f"a message has more than {self._socket.bytes_max} bytes"
        self._fail(entry, QwpError(reason))

    # One message.

    def _start(self, entry: Entry, work: Coroutine[Any, Any, None]) -> None:
        async def guarded() -> None:
            try:
                await work
            except Exception as error:  # noqa: BLE001 - the client hears of it, whatever it is
                self._fail(entry, error)
            finally:
                self._task = None
                self._socket.go_on()

        self._task = asyncio.ensure_future(guarded())
        self._service.keep(self._task)

    async def _decode_first(self, entry: Entry, data: bytes) -> None:
        message = await self._service.run(self._decoder.decode, data)
        if not self._append_directly(entry, message):
            await self._add_to_group(entry, message)

    def _append_directly(self, entry: Entry, message: Message) -> bool:
        """The fast path for most messages: a few rows for one existing topic."""
        for table in message.tables:
            self._check_name(table.name)
        if message.is_deferred or self._group.entries:
            return False
        tables = [table for table in message.tables if table.rows]
        if not tables:
            self._done([entry], {})
            return True
        if len(tables) > 1 or len(tables[0].rows) > limits.BATCH_RECORDS_MAX:
            return False
        name, rows, is_timed = tables[0]
        mark = None
        if is_timed:
            mark = self._mark(entry, name, digest_of(self._key.digest, name, rows))
        self._submit(entry, name, _batch(rows, mark))
        return True

    def _check_name(self, table: str) -> None:
        topic_name(table, "table")
        if not self._key.may_name(table):
            raise QwpError("the key may not use this name", QwpStatus.SECURITY)

    def _submit(self, entry: Entry, topic: str, batch: Batch) -> None:
        def done(answer: Answer) -> None:
            self._end(batch)
            if isinstance(answer, Appended):
                self._done([entry], {answer.topic: answer.last_seq})
            else:
                self._fail(entry, answer)
            self._socket.go_on()

        self._begin(batch)
        try:
            self._service.append(topic, batch, CREATE_AND_WAIT, done)
        except BaseException:
            self._end(batch)
            raise

    def _begin(self, batch: Batch) -> None:
        self._in_flight += 1
        self._in_flight_bytes += batch.payload_bytes
        self._quiet.clear()

    def _end(self, batch: Batch) -> None:
        self._in_flight -= 1
        self._in_flight_bytes -= batch.payload_bytes
        if not self._in_flight:
            self._quiet.set()

    # Groups: deferred messages, several tables, many rows, new topics.

    async def _add_to_group(self, entry: Entry, message: Message) -> None:
        if not self._group.has_room_for(message):
            await self._commit()
        self._group.add(entry, message)
        if not message.is_deferred:
            await self._commit()

    async def _commit(self) -> None:
        await self._quiet.wait()  # nobody overtakes
        group, self._group = self._group, Group()
        if self._is_refusing:
            return  # one before it failed after all: the client sends both again
        heads: dict[str, int] = {}
        steps = rounds(group.tables)
        if len(steps) > 1:
            self._check_caps(group.tables)
        for round_ in steps:
            parts = [await self._part(group.entries[-1], table) for table in round_]
            for answer in await self._append(parts):
                _raise(heads, {answer.topic: answer.last_seq})
        self._done(group.entries, heads)

    def _check_caps(self, tables: list[QwpTable]) -> None:
        """Refuse a group that can never fit before its first append, instead of retrying for
        ever."""
        rows: Counter[str] = Counter()
        sizes: Counter[str] = Counter()
        for table in tables:
            rows[table.name] += len(table.rows)
            sizes[table.name] += sum(map(len, table.rows))
        for name, count in rows.items():
            config = self._service.config_of(name)
            if config is None or config.discard != "reject":
                continue
            caps = (config.cap_records, count), (config.cap_bytes, sizes[name])
            if any(cap and size > cap for cap, size in caps):
                raise RecordTooLarge(
                    f"{count} rows of {sizes[name]} bytes can never fit topic {name!r} "
                    f"(cap_records={config.cap_records}, cap_bytes={config.cap_bytes})"
                )

    async def _part(self, entry: Entry, table: QwpTable) -> TopicWrite:
        name, rows, is_timed = table
        mark = None
        if is_timed:
            digest = await self._service.run(digest_of, self._key.digest, name, rows)
            mark = self._mark(entry, name, digest)
        return TopicWrite(name, await self._service.run(_batch, rows, mark))  # it may be long

    async def _append(self, parts: list[TopicWrite]) -> list[Appended]:
        """Everything or nothing."""
        if len(parts) > 1:
            return await self._service.append_batch(parts)
        (part,) = parts
        waiting: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def done(answer: Answer) -> None:
            if not waiting.done():
                waiting.set_result(answer)

        self._service.append(part.topic, part.batch, part.options, done)
        answer = await waiting
        if not isinstance(answer, Appended):
            raise answer
        return [answer]

    def _mark(self, entry: Entry, topic: str, digest: bytes) -> MessageNumber:
        mark = self._keys.mark(digest, functools.partial(self._service.has_key, topic))
        entry.marks.append(mark)
        return mark

    # Answers.

    def _done(self, entries: list[Entry], heads: dict[str, int]) -> None:
        for entry in entries:
            entry.is_done = True
        if entries:
            entries[-1].tables = heads
        self._answer_soon()

    def _fail(self, entry: Entry, error: Exception) -> None:
        if not isinstance(error, PenstockError) and not self._service.is_stopping:
            _log.error("a QWP message failed", exc_info=error)
        entry.error = error
        self._is_refusing = True
        self._answer_soon()

    def _answer_soon(self) -> None:
        """Answer once per turn of the loop."""
        if not self._is_answering and not self._is_over:
            self._is_answering = True
            asyncio.get_running_loop().call_soon(self._answer)

    def _answer(self) -> None:
        self._is_answering = False
        last, heads, marks = -1, dict[str, int](), list[MessageNumber]()
        entries = self._entries
        while entries and (entries[0].is_done or self._is_lost(entries[0])):
            entry = entries.popleft()
            if entry.is_done:
                last = entry.seq
                _raise(heads, entry.tables)
                marks += entry.marks
        if last >= 0:
            self._told.confirm_old()
            is_open = self._socket.is_open
            self._send(replies.ok(last, heads))
            if is_open:
                self._told.add(marks, self._socket.written_bytes)
            self._sync_soon(heads)
        if entries and entries[0].error is not None:
            entry, error = entries[0], entries[0].error
            entries.clear()
            self._refuse(entry, error)
        if self._is_overrun and not entries:
            self._socket.close(1009, "a message is too long")

    def _refuse(self, entry: Entry, error: Exception) -> None:
        if may_pass(error):
            self._delayed_close.start(_reason_of(error))
        else:
            self._send(replies.error(_status_of(error), entry.seq, _reason_of(error)))

    def _is_lost(self, entry: Entry) -> bool:
        """True for a deferred message whose group will never be committed."""
        return self._is_refusing and entry.is_deferred and entry.error is None

    def _send(self, data: bytes) -> None:
        self._socket.write(self._socket.framed(data, is_binary=True))

    # Syncs.

    def _sync_soon(self, heads: dict[str, int]) -> None:
        if self._is_durable and heads:
            _raise(self._unsynced, heads)
            if self._syncing is None:
                self._syncing = asyncio.ensure_future(self._sync())
                self._service.keep(self._syncing)

    async def _sync(self) -> None:
        """Report synced rows, as long as there are more."""
        try:
            while self._unsynced and not self._is_over:
                heads, self._unsynced = self._unsynced, {}
                await self._sync_topics(heads)
                self._send(replies.durable(heads))
        except Exception as error:  # noqa: BLE001 - nothing more can be promised here
            _log.error("a sync for a QWP client failed: %s", error)
            self._socket.close(1011, "the log cannot be synced")
        finally:
            self._syncing = None

    async def _sync_topics(self, topics: Iterable[str]) -> None:
        await self._service.sync(topics)


def _batch(rows: list[bytes], mark: MessageNumber | None) -> Batch:
    key = b"" if mark is None else mark.key
    return batch_of_texts(rows, key)


def _raise(heads: dict[str, int], more: Mapping[str, int]) -> None:
    """Keep the highest seq: repeated rows are answered with their old seqs."""
    for topic, seq in more.items():
        heads[topic] = max(seq, heads.get(topic, 0))


def _nothing() -> None:
    """Answers are small: what the peer does not read stops us reading."""


def _status_of(error: Exception) -> QwpStatus:
    if isinstance(error, QwpError):
        return error.status
    for kind, status in _STATUSES:
        if isinstance(error, kind):
            return status
    return QwpStatus.INTERNAL


def _reason_of(error: Exception) -> str:
    """The message as other callers get it: no paths, no tracebacks."""
    return str(error) if isinstance(error, QwpError) else api_error(error).message
