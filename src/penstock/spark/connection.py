"""Sends the frames of one task to a server, and resends them until the server has synced them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Final

from penstock.client import address
from penstock.clock import Clock, SystemClock
from penstock.errors import ConnectionFailed, InvalidArgument, ServerError, Unauthorized, UsageError
from penstock.sender import connection as wires
from penstock.sender.connect_string import ConnectOptions, Endpoint
from penstock.sender.connection import Broken, Refused, SenderConnection
from penstock.sender.delivery import Delivery
from penstock.wire.sender_protocol import Incarnation, Reply, ReplyStatus

_WINDOW_BYTES: Final = 12 << 20  # sent and not yet acknowledged as durable
_WINDOW_FRAMES: Final = 48
_PAUSE_S: Final = (0.05, 2.0)  # between two attempts: the first, and the longest
_PING_S: Final = 15.0


class WriteRefused(UsageError):
    """The server refuses the rows of a task. The text is the server's."""


_SAME_ROWS_HINT: Final = (
    ". An epoch or a named write must have the same rows in the same partitions each time it runs: "
    "sort the rows, or set rowOrder=any. verify=false checks only the numbers of frames"
)


class _RetryLater(Exception):
    """A transient failure: reconnect and resend."""


def connect_options(url: str, token: str, sender_id: str, tls_ca: str = "") -> ConnectOptions:
    """Connect options for the server, or InvalidArgument."""
    found = address.parse(url)
    if found.prefix:
        raise InvalidArgument(f"{url!r} has a path: the URL of a server has none")
    return ConnectOptions(
        hosts=(Endpoint(found.host, found.port),),
        is_tls=found.is_tls,
        sender_id=sender_id,
        token=token or None,
        tls_ca=tls_ca or None,
        request_durable_ack=True,
    )


class SinkConnection:
    """Used by one thread. Frames are numbered consecutively from `first_fsn`."""

    def __init__(
        self,
        options: ConnectOptions,
        incarnation: bytes,
        first_fsn: int,
        *,
        timeout_s: float,
        clock: Clock | None = None,
    ) -> None:
        self._options = options
        self._incarnation = Incarnation(incarnation.hex())
        self._next_fsn = first_fsn
        self._timeout_s = timeout_s  # without an acknowledgement
        self._clock: Clock = clock or SystemClock()
        self._frames: deque[bytes] = deque()  # not acknowledged, oldest first
        self._bytes = 0
        self._connection: SenderConnection | None = None
        self._delivery = Delivery(first_fsn, is_durable=True)
        self._progress_s = self._clock.monotonic()
        self._pause = threading.Condition()

    def __enter__(self) -> SinkConnection:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._disconnect()

    @property
    def next_fsn(self) -> int:
        return self._next_fsn

    def send(self, frame: bytes) -> None:
        """Send the frame with the number `next_fsn`. Waits while the window is full."""
        self._frames.append(frame)
        self._bytes += len(frame)
        self._next_fsn += 1
        self._until(lambda: self._is_sent)
        self._until(lambda: self._bytes <= _WINDOW_BYTES and len(self._frames) <= _WINDOW_FRAMES)

    def finish(self) -> None:
        """Wait until the server has synced all frames."""
        self._until(lambda: not self._frames)

    @property
    def _is_sent(self) -> bool:
        return self._connection is not None and self._delivery.next_fsn == self._next_fsn

    def _until(self, holds: Callable[[], bool]) -> None:
        """Send and receive until `holds`. ConnectionFailed after `timeout_s` without progress."""
        pause_s = _PAUSE_S[0]
        self._progress_s = self._clock.monotonic()  # the time Spark took for rows does not count
        while not holds():
            try:
                self._step()
                continue
            except Refused as error:
                if error.is_final:
                    raise Unauthorized(f"the server rejects the sink: {error}") from None
                why = str(error)
            except (Broken, _RetryLater) as error:
                why = str(error)
            self._disconnect()
            waited_s = self._clock.monotonic() - self._progress_s
            if waited_s >= self._timeout_s:
                raise ConnectionFailed(
                    f"no acknowledgement for {waited_s:.0f} s: {why}. Check that the server runs; "
                    "option timeoutMs sets how long to try",
                    retry_after_ms=1000,
                ) from None
            with self._pause:
                self._clock.wait(self._pause, min(pause_s, self._timeout_s))
            pause_s = min(2 * pause_s, _PAUSE_S[1])

    def _step(self) -> None:
        """Connect if necessary, send unsent frames, handle replies."""
        if self._connection is None:
            self._connect()
        connection, delivery = self._connection, self._delivery
        if connection is None:
            raise AssertionError("no connection after connecting")
        unsent = self._next_fsn - delivery.next_fsn
        for at in range(len(self._frames) - unsent, len(self._frames)):
            connection.send_frame(self._frames[at])
            delivery.record_sent()
            connection.flush()
        for reply in connection.receive(0 if unsent else _PING_S):
            self._handle_reply(reply)
        if self._clock.monotonic() - self._progress_s > self._timeout_s:
            raise _RetryLater("the server is connected and does not answer")

    def _connect(self) -> None:
        first_fsn = self._next_fsn - len(self._frames)
        host = self._options.hosts[0]
        connection = wires.connect(self._options, host, first_fsn)
        largest = max((len(frame) for frame in self._frames), default=0)
        if connection.frame_bytes_max and largest > connection.frame_bytes_max:
            connection.close()
            raise WriteRefused(
                f"a frame has {largest} bytes, and the server accepts at most "
                f"{connection.frame_bytes_max}: set PENSTOCK_MAX_BODY_BYTES of the server to 4 MiB "
                "or more"
            )
        self._connection = connection
        self._delivery = Delivery(first_fsn, is_durable=True)
        connection.send_text(self._incarnation)

    def _handle_reply(self, reply: Reply) -> None:
        delivery = self._delivery
        before = delivery.acked_fsn
        try:
            refused = delivery.handle_reply(reply)
        except InvalidArgument as error:
            raise Broken(str(error)) from None
        for _ in range(delivery.acked_fsn - before):
            self._bytes -= len(self._frames.popleft())
            self._progress_s = self._clock.monotonic()
        if refused is None:
            return
        why = f"the server refuses the write: {reply.text}"
        if reply.status == ReplyStatus.WRITE:
            raise _RetryLater(why)
        if reply.status == ReplyStatus.INTERNAL:
            raise ServerError(str(self._options.hosts[0]), reason=why)
        raise WriteRefused(why + (_SAME_ROWS_HINT if "comes again" in reply.text else ""))

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
