"""Frames of one sender, in their order: each is appended once, whatever is sent again.

The next frame is taken only when the one before has its place in the log's queue, so that none
can be in a topic while an earlier one was refused there: the topic remembers one number for all
before it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

from penstock.engine.batch import Batch, from_columns, from_laid
from penstock.engine.engine import Outcome
from penstock.engine.handle import Handle
from penstock.errors import (
    Closed,
    InvalidArgument,
    LogFailed,
    Overloaded,
    TopicFull,
    TopicNotFound,
    UsageError,
)
from penstock.server.auth import ApiKey
from penstock.server.errors import ApiError
from penstock.server.http import bodies
from penstock.server.service import Service
from penstock.server.websocket import Peer, WebSocket
from penstock.topics import names, producers
from penstock.types import Appended
from penstock.wire import batch as binary
from penstock.wire.sending import (
    INCARNATION_BYTES,
    Incarnation,
    Reply,
    Status,
    encode_reply,
    open_parcel,
)
from penstock.wire.spool_frame import decode_frame

_INCARNATION = msgspec.json.Decoder(Incarnation)
_UNDER_WAY_MAX: Final = 64  # frames
_UNDER_WAY_BYTES_MAX: Final = 16 << 20
_LOOK_S: Final = 0.002
_LOOK_MAX_S: Final = 0.1
_POLICY_VIOLATION, _GOING_AWAY, _TRY_AGAIN = 1008, 1001, 1013


class _Frame:
    """One that was taken, until everything before it is answered too."""

    __slots__ = ("error", "handle", "is_done", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.handle: Handle | None = None
        self.is_done = False
        self.error: Reply | None = None


class Intake:
    """One connection. Event loop only."""

    def __init__(
        self,
        service: Service,
        socket: WebSocket,
        key: ApiKey,
        first_fsn: int,
        on_end: Callable[[Intake], None],
        *,
        is_durable: bool,
    ) -> None:
        self.key = key
        self._service = service
        self._socket = socket
        self._first_fsn = first_fsn
        self._on_end = on_end
        self._is_durable = is_durable  # is the sender told of syncs?
        self._incarnation = b""
        self._taken = 0
        self._answered = 0
        self._told = 0  # of those, as far as the sender knows
        self._is_telling = False
        self._frames: deque[_Frame] = deque()  # taken and not answered
        self._bytes = 0
        self._is_held = False  # a frame waits for its place
        self._is_over = False
        self._unsynced: set[Handle] = set()  # topics of frames that are answered but not synced
        self._synced = 0
        self._is_syncing = False
        socket.attach(Peer(self._text, self._binary, self._drained, self.end, self._is_busy))

    def end(self) -> None:
        self._is_over = True
        self._on_end(self)

    def finish(self, code: str, message: str) -> None:
        """The server stops: the sender will try again."""
        self._tell()
        self._is_over = True
        self._socket.close(_GOING_AWAY, message)

    # What the sender says.

    def _is_busy(self) -> bool:
        is_full = len(self._frames) >= _UNDER_WAY_MAX or self._bytes >= _UNDER_WAY_BYTES_MAX
        return (is_full or self._is_held) and not self._is_over

    def _drained(self) -> None:
        """Answers are small; nothing waits for room."""

    def _text(self, text: bytes) -> None:
        try:
            incarnation = bytes.fromhex(bodies.parsed(text, _INCARNATION).incarnation)
        except (ApiError, ValueError):
            incarnation = b""
        if len(incarnation) != INCARNATION_BYTES:
            self._leave(_POLICY_VIOLATION, "a text names the incarnation of the frames behind it")
        self._incarnation = incarnation

    def _binary(self, data: bytes) -> None:
        if self._is_over:
            return
        number, self._taken = self._taken, self._taken + 1
        frame = _Frame(len(data))
        self._frames.append(frame)
        self._bytes += frame.size
        try:
            fsn, payload = decode_frame(data)
        except ValueError as error:
            self._refuse(frame, number, Status.PARSE, str(error))
            return
        if fsn != self._first_fsn + number or not self._incarnation:
            self._leave(_POLICY_VIOLATION, f"frame {fsn} is not the next, or is of nobody")
            return
        if not payload:  # stands for a frame that the sender's disk lost
            frame.is_done = True
            self._advance()
            return
        try:
            topic, batch = self._batch(fsn, payload)
            handle = self._service.find(topic)
            if handle is None or not self._place(frame, handle, batch):
                self._is_held = True
                self._service.keep(asyncio.ensure_future(self._wait(frame, number, topic, batch)))
        except Exception as error:  # noqa: BLE001 - the sender gets an answer whatever it is
            self._fail(frame, number, error)

    def _batch(self, fsn: int, payload: bytes) -> tuple[str, Batch]:
        parcel = open_parcel(payload)
        topic = names.topic_name(parcel.topic)
        if not self.key.may_name(topic) or topic.startswith("_"):
            raise ApiError(403, "forbidden", f"this key may not write to topic {topic!r}")
        key = producers.key_of(self._incarnation, fsn, parcel.proof)
        batch = from_laid(payload, parcel.at, parcel.count, key=key)
        if batch is None:
            columns = binary.split_records(payload, parcel.at, parcel.count)
            batch = from_columns(*columns, key=key, are_valid=False)
        return topic, batch

    def _place(self, frame: _Frame, handle: Handle, batch: Batch) -> bool:
        """Give it its place in the log's queue; false when there is none now."""
        if self._is_durable and handle.topic.config.durability == "ephemeral":
            raise InvalidArgument(f"topic {handle.topic.name!r} is in memory alone: no sync comes")

        def resolved(outcome: Outcome) -> None:
            answer = self._service.log.answer(outcome, batch)
            if isinstance(answer, Appended):
                frame.is_done = True
                self._advance()
            else:
                self._fail(frame, self._answered + self._frames.index(frame), answer)

        try:
            self._service.append_in_turn(handle, batch, resolved)
        except Overloaded:
            return False
        frame.handle = handle
        return True

    async def _wait(self, frame: _Frame, number: int, topic: str, batch: Batch) -> None:
        """Make the topic, or wait for room in its queue. Nothing else is taken meanwhile."""
        pause_s = _LOOK_S
        service = self._service
        try:
            while not self._is_over:
                await service.ensure(topic, {})
                handle = service.handle(topic)
                if handle.is_short_of_seqs(batch.count):
                    await service.run(service.log.reserve, handle, batch.count)
                if self._place(frame, handle, batch):
                    break
                await asyncio.sleep(pause_s)
                pause_s = min(_LOOK_MAX_S, 2 * pause_s)
        except Exception as error:  # noqa: BLE001 - as above
            self._fail(frame, number, error)
        if frame.error is None:  # else nothing is taken behind it
            self._is_held = False
            self._socket.go_on()

    # What it is answered.

    def _advance(self) -> None:
        """Answer what is done, up to the first that is not."""
        if self._is_over:
            return
        before = self._answered
        while self._frames and self._frames[0].is_done:
            frame = self._frames.popleft()
            self._bytes -= frame.size
            self._answered += 1
            if self._is_durable and frame.handle is not None:
                self._unsynced.add(frame.handle)
        if self._answered > before:
            if not self._is_telling:  # once for all that are done in this turn of the loop
                self._is_telling = True
                asyncio.get_running_loop().call_soon(self._tell)
            self._socket.go_on()
        if not self._is_syncing:
            self._say_refusal()

    def _tell(self) -> None:
        """How far it has come."""
        self._is_telling = False
        if self._is_over or self._told == self._answered:
            return
        self._told = self._answered
        self._send(Reply(Status.OK, self._told - 1))
        if self._is_durable and not self._is_syncing:
            self._is_syncing = True
            self._service.keep(asyncio.ensure_future(self._sync()))

    def _say_refusal(self) -> None:
        """After everything that is to be said of the frames before it."""
        if self._is_over or not self._frames or self._frames[0].error is None:
            return
        self._tell()
        if not self._is_syncing:
            self._send(self._frames[0].error)
            self._leave(1000, "a frame was refused")

    async def _sync(self) -> None:
        """Tell how far syncs have come, as long as there is something to tell."""
        service = self._service
        try:
            while self._synced < self._told and not self._is_over:
                count, handles = self._told, self._unsynced
                self._unsynced = set()
                for handle in handles:
                    if handle.topic.config.durability != "fsync":
                        await service.run(service.log.harden, handle)
                self._synced = count
                if not self._is_over:
                    self._send(Reply(Status.DURABLE, count - 1))
        except Exception as error:  # noqa: BLE001 - a sender that is told nothing waits for ever
            self._leave(_TRY_AGAIN, str(error))
        finally:
            self._is_syncing = False
        self._say_refusal()

    def _fail(self, frame: _Frame, number: int, error: Exception) -> None:
        match error:
            case LogFailed() | Closed():
                self._leave(_TRY_AGAIN, str(error))
            case TopicFull():
                self._refuse(frame, number, Status.WRITE, str(error))
            case ApiError(status=401 | 403):
                self._refuse(frame, number, Status.SECURITY, str(error))
            case ApiError(status=429 | 507):
                self._refuse(frame, number, Status.WRITE, str(error))
            case TopicNotFound():  # dropped while it was on its way
                self._leave(_TRY_AGAIN, str(error))
            case UsageError() | ApiError():
                self._refuse(frame, number, Status.SCHEMA, str(error))
            case Overloaded():
                self._leave(_TRY_AGAIN, str(error))
            case _:
                self._refuse(frame, number, Status.INTERNAL, f"{type(error).__name__}: {error}")

    def _refuse(self, frame: _Frame, number: int, status: Status, text: str) -> None:
        """For good. What is behind it is not taken: the sender decides how to go on."""
        frame.error = Reply(status, number, text)
        self._is_held = True
        self._advance()

    def _send(self, reply: Reply) -> None:
        self._socket.send_binary(encode_reply(reply))

    def _leave(self, code: int, reason: str) -> None:
        self._tell()
        self._is_over = True
        self._socket.close(code, reason[:100])
