"""The sent and the acknowledged frames of one connection. Pure.

The server counts the frames of a connection from 0; `first_fsn` is the number of the first frame.
Replies are cumulative. In durable mode an OK does not acknowledge a frame: the server sends a
second reply when the frame is synced.
"""

from __future__ import annotations

from penstock.errors import InvalidArgument
from penstock.wire.sender_protocol import Reply, ReplyStatus


class Delivery:
    """The frames of one connection."""

    def __init__(self, first_fsn: int, *, is_durable: bool) -> None:
        self.first_fsn = first_fsn
        self.next_fsn = first_fsn
        self.acked_fsn = first_fsn - 1  # frames up to here may be removed
        self._is_durable = is_durable
        self._ok_fsn = first_fsn - 1

    @property
    def waits_for_sync(self) -> bool:
        """True when the server has accepted frames that it has not synced yet."""
        return self._is_durable and self._ok_fsn > self.acked_fsn

    def record_sent(self, count: int = 1) -> None:
        self.next_fsn += count

    def handle_reply(self, reply: Reply) -> int | None:
        """Returns the number of the rejected frame, or None for an acknowledgement. Raises
        InvalidArgument for a reply to a frame that was not sent."""
        fsn = self.first_fsn + reply.count
        if fsn >= self.next_fsn:
            raise InvalidArgument(f"unexpected reply for frame {fsn}: it was not sent")
        if reply.status == ReplyStatus.OK:
            self._ok_fsn = max(self._ok_fsn, fsn)
            if not self._is_durable:
                self.acked_fsn = max(self.acked_fsn, fsn)
            return None
        if reply.status == ReplyStatus.DURABLE:
            if not self._is_durable:
                raise InvalidArgument(
                    "unexpected durable acknowledgement: request_durable_ack is off"
                )
            self.acked_fsn = max(self.acked_fsn, min(fsn, self._ok_fsn))
            return None
        return fsn


class Poison:
    """Detects a frame that ends every connection on which it is sent."""

    def __init__(self, *, most: int, window_s: float) -> None:
        self._most = most
        self._window_s = window_s
        self._fsn = -1
        self._failures = 0
        self._since_s = 0.0

    def record_failure(self, fsn: int, now_s: float) -> bool:
        """A connection ended before this frame. True when the limit is reached."""
        if fsn != self._fsn:
            self._fsn, self._failures, self._since_s = fsn, 0, now_s
        self._failures += 1
        return self._failures >= self._most and now_s - self._since_s >= self._window_s

    @property
    def failures(self) -> int:
        return self._failures
