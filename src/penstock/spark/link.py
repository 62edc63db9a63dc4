"""Frames of one task on their way to a server, sent again until they are on its disk."""

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
from penstock.sender.connection import Broken, Connection, Refused
from penstock.sender.delivery import Delivery
from penstock.sender.profile import Host, Profile
from penstock.wire.sending import Incarnation, Reply, Status

_WINDOW_BYTES: Final = 12 << 20  # sent and not on the server's disk
_WINDOW_FRAMES: Final = 48
_PAUSE_S: Final = (0.05, 2.0)  # between two attempts: the first, and the longest
_PING_S: Final = 15.0


class NotTaken(UsageError):
    """The server refuses what a task writes. The text is the server's."""


_AGAIN: Final = (
    ". An epoch or a named write has to have the same rows in the same partitions whenever it is "
    "run: sort them, or set rowOrder=any; verify=false takes its number as proof enough"
)


class _Later(Exception):
    """Not now."""


def profile_of(url: str, token: str, sender_id: str, tls_ca: str = "") -> Profile:
    """How to reach the server, or InvalidArgument."""
    found = address.parse(url)
    if found.prefix:
        raise InvalidArgument(f"{url!r} has a path, and a server is at the root of its host")
    return Profile(
        hosts=(Host(found.host, found.port),),
        is_tls=found.is_tls,
        sender_id=sender_id,
        token=token or None,
        tls_ca=tls_ca or None,
        request_durable_ack=True,
    )


class Link:
    """One thread's. Frames have consecutive numbers from `first_fsn` on."""

    def __init__(
        self,
        profile: Profile,
        incarnation: bytes,
        first_fsn: int,
        *,
        timeout_s: float,
        clock: Clock | None = None,
    ) -> None:
        self._profile = profile
        self._incarnation = Incarnation(incarnation.hex())
        self._next_fsn = first_fsn
        self._timeout_s = timeout_s  # without any progress
        self._clock: Clock = clock or SystemClock()
        self._frames: deque[bytes] = deque()  # not acknowledged, oldest first
        self._bytes = 0
        self._connection: Connection | None = None
        self._delivery = Delivery(first_fsn, is_durable=True)
        self._progress_s = self._clock.monotonic()
        self._pause = threading.Condition()

    def __enter__(self) -> Link:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._hang_up()

    @property
    def next_fsn(self) -> int:
        return self._next_fsn

    def send(self, frame: bytes) -> None:
        """Take the frame with the number `next_fsn`. Waits while too many are under way."""
        self._frames.append(frame)
        self._bytes += len(frame)
        self._next_fsn += 1
        self._until(lambda: self._is_sent)
        self._until(lambda: self._bytes <= _WINDOW_BYTES and len(self._frames) <= _WINDOW_FRAMES)

    def finish(self) -> None:
        """Wait until every frame is past a sync of the server."""
        self._until(lambda: not self._frames)

    @property
    def _is_sent(self) -> bool:
        return self._connection is not None and self._delivery.next_fsn == self._next_fsn

    def _until(self, holds: Callable[[], bool]) -> None:
        """Send and listen until something holds. Raises when nothing has moved for too long."""
        pause_s = _PAUSE_S[0]
        self._progress_s = self._clock.monotonic()  # rows may have been long in coming
        while not holds():
            try:
                self._step()
                continue
            except Refused as error:
                if error.is_final:
                    raise Unauthorized(f"the sink is not let in: {error}") from None
                why = str(error)
            except (Broken, _Later) as error:
                why = str(error)
            self._hang_up()
            waited_s = self._clock.monotonic() - self._progress_s
            if waited_s >= self._timeout_s:
                raise ConnectionFailed(
                    f"nothing was acknowledged for {waited_s:.0f} s: {why}. Is the server up? "
                    "Option timeoutMs says how long to try",
                    retry_after_ms=1000,
                ) from None
            with self._pause:
                self._clock.wait(self._pause, min(pause_s, self._timeout_s))
            pause_s = min(2 * pause_s, _PAUSE_S[1])

    def _step(self) -> None:
        """Connect if need be, send what was not sent, hear what there is to hear."""
        if self._connection is None:
            self._call()
        connection, delivery = self._connection, self._delivery
        if connection is None:
            raise AssertionError("no connection after a call")
        unsent = self._next_fsn - delivery.next_fsn
        for at in range(len(self._frames) - unsent, len(self._frames)):
            connection.send_frame(self._frames[at])
            delivery.sent()
            connection.flush()
        for reply in connection.receive(0 if unsent else _PING_S):
            self._answered(reply)
        if self._clock.monotonic() - self._progress_s > self._timeout_s:
            raise _Later("the server is connected and says nothing")

    def _call(self) -> None:
        first_fsn = self._next_fsn - len(self._frames)
        host = self._profile.hosts[0]
        connection = wires.connect(self._profile, host, first_fsn)
        largest = max((len(frame) for frame in self._frames), default=0)
        if connection.frame_bytes_max and largest > connection.frame_bytes_max:
            connection.close()
            raise NotTaken(
                f"a frame has {largest} bytes, and the server takes {connection.frame_bytes_max}: "
                "set PENSTOCK_MAX_BODY_BYTES there to 4 MiB or more"
            )
        self._connection = connection
        self._delivery = Delivery(first_fsn, is_durable=True)
        connection.send_text(self._incarnation)

    def _answered(self, reply: Reply) -> None:
        delivery = self._delivery
        before = delivery.acked_fsn
        try:
            refused = delivery.answered(reply)
        except InvalidArgument as error:
            raise Broken(str(error)) from None
        for _ in range(delivery.acked_fsn - before):
            self._bytes -= len(self._frames.popleft())
            self._progress_s = self._clock.monotonic()
        if refused is None:
            return
        why = f"the server refuses the write: {reply.text}"
        if reply.status == Status.WRITE:
            raise _Later(why)
        if reply.status == Status.INTERNAL:
            raise ServerError(str(self._profile.hosts[0]), reason=why)
        raise NotTaken(why + (_AGAIN if "comes again" in reply.text else ""))

    def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
