"""Frames of one sender, appended in their order, each once: resent frames are detected by number.

The session reads the next frame only when the one before is in the log's queue. So no frame is in a
topic if an earlier one was refused there: the topic stores the number of the last frame, and treats
all before it as appended.
"""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

from penstock.engine.batch import Batch, from_columns, from_packed
from penstock.errors import (
    Closed,
    InvalidArgument,
    LogFailed,
    Overloaded,
    TopicFull,
    TopicNotFound,
    UsageError,
)
from penstock.server.appends import CREATE_AND_WAIT, Answer
from penstock.server.auth import ApiKey
from penstock.server.errors import ApiError
from penstock.server.http import bodies
from penstock.server.service import Service
from penstock.server.websocket import WebSocket, WebSocketCallbacks
from penstock.topics import idempotency, validation
from penstock.types import Appended, TopicConfig
from penstock.wire import binary_batch as binary
from penstock.wire.sender_protocol import (
    INCARNATION_BYTES,
    Incarnation,
    Reply,
    ReplyStatus,
    encode_reply,
    open_parcel,
)
from penstock.wire.spool_frame import decode_frame

_INCARNATION = msgspec.json.Decoder(Incarnation)
_UNDER_WAY_MAX: Final = 64  # frames
_UNDER_WAY_BYTES_MAX: Final = 16 << 20
_POLICY_VIOLATION, _GOING_AWAY, _TRY_AGAIN = 1008, 1001, 1013


class _Frame:
    """A received frame, until it and all frames before it are answered."""

    __slots__ = ("error", "is_done", "size", "topic")

    def __init__(self, size: int) -> None:
        self.size = size
        self.topic = ""
        self.is_done = False
        self.error: Reply | None = None


class SenderSession:
    """One connection. Event loop only."""

    def __init__(
        self,
        service: Service,
        socket: WebSocket,
        key: ApiKey,
        first_fsn: int,
        on_end: Callable[[SenderSession], None],
        *,
        is_durable: bool,
    ) -> None:
        self.key = key
        self._service = service
        self._socket = socket
        self._first_fsn = first_fsn
        self._on_end = on_end
        self._is_durable = is_durable  # does the sender want acknowledgements of syncs?
        self._incarnation = b""
        self._received = 0
        self._answered = 0
        self._acknowledged = 0  # of those, as far as the sender knows
        self._is_acknowledging = False
        self._frames: deque[_Frame] = deque()  # taken and not answered
        self._bytes = 0
        self._is_held = False  # a frame waits for its place
        self._is_over = False
        self._unsynced: set[str] = set()  # topics of frames that are answered but not synced
        self._synced = 0
        self._is_syncing = False
        socket.attach(
            WebSocketCallbacks(self._text, self._binary, self._drained, self.end, self._is_busy)
        )

    def end(self) -> None:
        self._is_over = True
        self._on_end(self)

    def finish(self, code: str, message: str) -> None:
        """The server stops: the sender will reconnect."""
        self._acknowledge()
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
            self._disconnect(
                _POLICY_VIOLATION, "invalid text message: expected the incarnation of frames"
            )
        self._incarnation = incarnation

    def _binary(self, data: bytes) -> None:
        if self._is_over:
            return
        number, self._received = self._received, self._received + 1
        frame = _Frame(len(data))
        self._frames.append(frame)
        self._bytes += frame.size
        try:
            fsn, payload = decode_frame(data)
        except ValueError as error:
            self._refuse(frame, number, ReplyStatus.PARSE, str(error))
            return
        if fsn != self._first_fsn + number or not self._incarnation:
            self._disconnect(_POLICY_VIOLATION, self._unexpected(fsn, self._first_fsn + number))
            return
        if not payload:  # replaces a frame that the sender's disk lost
            frame.is_done = True
            self._advance()
            return
        try:
            frame.topic, batch = self._batch(fsn, payload)
            self._is_held = not self._service.append(
                frame.topic,
                batch,
                CREATE_AND_WAIT,
                functools.partial(self._appended, frame),
                placed=self._placed,
                check=functools.partial(self._check, frame.topic),
            )
        except Exception as error:  # noqa: BLE001 - the sender gets an answer whatever it is
            self._fail(frame, number, error)

    def _batch(self, fsn: int, payload: bytes) -> tuple[str, Batch]:
        parcel = open_parcel(payload)
        topic = validation.topic_name(parcel.topic)
        if not self.key.may_name(topic) or validation.is_internal(topic):
            raise ApiError(403, "forbidden", f"this key may not write to topic {topic!r}")
        key = idempotency.key_of(self._incarnation, fsn, parcel.proof)
        batch = from_packed(payload, parcel.at, parcel.count, key=key)
        if batch is None:
            columns = binary.split_records(payload, parcel.at, parcel.count)
            batch = from_columns(*columns, key=key, are_valid=False)
        return topic, batch

    def _unexpected(self, fsn: int, expected: int) -> str:
        if not self._incarnation:
            return f"frame {fsn} has no incarnation: send the incarnation first"
        return f"unexpected frame number {fsn}: expected {expected}"

    def _check(self, topic: str, config: TopicConfig) -> None:
        """Check that a frame may be appended to this topic now."""
        if self._is_over:
            raise Closed("the sender has disconnected")
        if self._is_durable and config.durability == "ephemeral":
            raise InvalidArgument(f"topic {topic!r} is kept in RAM only and never synced")

    def _placed(self) -> None:
        """The frame that waited is in the log's queue: read the next one."""
        self._is_held = False
        self._socket.go_on()

    def _appended(self, frame: _Frame, answer: Answer) -> None:
        if self._is_over:
            self._is_held = False
        elif isinstance(answer, Appended):
            frame.is_done = True
            self._advance()
        else:
            self._fail(frame, self._answered + self._frames.index(frame), answer)

    # Answers.

    def _advance(self) -> None:
        """Answer the frames that are done, up to the first that is not."""
        if self._is_over:
            return
        before = self._answered
        while self._frames and self._frames[0].is_done:
            frame = self._frames.popleft()
            self._bytes -= frame.size
            self._answered += 1
            if self._is_durable and frame.topic:
                self._unsynced.add(frame.topic)
        if self._answered > before:
            if not self._is_acknowledging:  # once for all that are done in this turn of the loop
                self._is_acknowledging = True
                asyncio.get_running_loop().call_soon(self._acknowledge)
            self._socket.go_on()
        if not self._is_syncing:
            self._send_refusal()

    def _acknowledge(self) -> None:
        """Acknowledge the progress."""
        self._is_acknowledging = False
        if self._is_over or self._acknowledged == self._answered:
            return
        self._acknowledged = self._answered
        self._send(Reply(ReplyStatus.OK, self._acknowledged - 1))
        if self._is_durable and not self._is_syncing:
            self._is_syncing = True
            self._service.keep(asyncio.ensure_future(self._sync()))

    def _send_refusal(self) -> None:
        """Refuse a frame, after the answers to all frames before it."""
        if self._is_over or not self._frames or self._frames[0].error is None:
            return
        self._acknowledge()
        if not self._is_syncing:
            self._send(self._frames[0].error)
            self._disconnect(1000, "a frame was refused")

    async def _sync(self) -> None:
        """Report the progress of syncs, as long as there are frames to report."""
        try:
            while self._synced < self._acknowledged and not self._is_over:
                count, topics = self._acknowledged, self._unsynced
                self._unsynced = set()
                await self._service.sync(topics)
                self._synced = count
                if not self._is_over:
                    self._send(Reply(ReplyStatus.DURABLE, count - 1))
        except Exception as error:  # noqa: BLE001 - a sender that is told nothing waits for ever
            self._disconnect(_TRY_AGAIN, str(error))
        finally:
            self._is_syncing = False
        self._send_refusal()

    def _fail(self, frame: _Frame, number: int, error: Exception) -> None:
        match error:
            case LogFailed() | Closed():
                self._disconnect(_TRY_AGAIN, str(error))
            case TopicFull():
                self._refuse(frame, number, ReplyStatus.WRITE, str(error))
            case ApiError(status=401 | 403):
                self._refuse(frame, number, ReplyStatus.SECURITY, str(error))
            case ApiError(status=429 | 507):
                self._refuse(frame, number, ReplyStatus.WRITE, str(error))
            case TopicNotFound():  # dropped while it was on its way
                self._disconnect(_TRY_AGAIN, str(error))
            case UsageError() | ApiError():
                self._refuse(frame, number, ReplyStatus.SCHEMA, str(error))
            case Overloaded():
                self._disconnect(_TRY_AGAIN, str(error))
            case _:
                self._refuse(
                    frame, number, ReplyStatus.INTERNAL, f"{type(error).__name__}: {error}"
                )

    def _refuse(self, frame: _Frame, number: int, status: ReplyStatus, text: str) -> None:
        """Refuse a frame permanently. Later frames are not accepted: the sender decides how to
        continue."""
        frame.error = Reply(status, number, text)
        self._is_held = True
        self._advance()

    def _send(self, reply: Reply) -> None:
        self._socket.send_binary(encode_reply(reply))

    def _disconnect(self, code: int, reason: str) -> None:
        self._acknowledge()
        self._is_over = True
        self._socket.close(code, reason[:100])
