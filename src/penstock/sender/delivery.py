"""Which frames one connection has sent, and what its answers say of them. Pure.

The server counts the frames of a connection from 0; `first_fsn` is what the sender calls the
first. Answers are cumulative. In durable mode an OK alone lets nothing go: what counts is that
the server's disk has it.
"""

from __future__ import annotations

from penstock.errors import InvalidArgument
from penstock.wire.sending import Reply, Status


class Delivery:
    """One connection."""

    def __init__(self, first_fsn: int, *, is_durable: bool) -> None:
        self.first_fsn = first_fsn
        self.next_fsn = first_fsn
        self.acked_fsn = first_fsn - 1  # what may be let go
        self._is_durable = is_durable
        self._ok_fsn = first_fsn - 1

    @property
    def waits_for_sync(self) -> bool:
        """Has the server taken frames that it has not synced yet?"""
        return self._is_durable and self._ok_fsn > self.acked_fsn

    def sent(self, count: int = 1) -> None:
        self.next_fsn += count

    def answered(self, reply: Reply) -> int | None:
        """The frame that was refused, or None: the answer is a good one. An answer about frames
        that were never sent is InvalidArgument."""
        fsn = self.first_fsn + reply.count
        if fsn >= self.next_fsn:
            raise InvalidArgument(f"the server answers for frame {fsn}, which was not sent")
        if reply.status == Status.OK:
            self._ok_fsn = max(self._ok_fsn, fsn)
            if not self._is_durable:
                self.acked_fsn = max(self.acked_fsn, fsn)
            return None
        if reply.status == Status.DURABLE:
            if not self._is_durable:
                raise InvalidArgument("the server answers with a sync that nobody asked for")
            self.acked_fsn = max(self.acked_fsn, min(fsn, self._ok_fsn))
            return None
        return fsn


class Poison:
    """Connections that end again and again before the same frame: something in it kills them."""

    def __init__(self, *, most: int, window_s: float) -> None:
        self._most = most
        self._window_s = window_s
        self._fsn = -1
        self._strikes = 0
        self._since_s = 0.0

    def strike(self, fsn: int, now_s: float) -> bool:
        """Another one; true: that is enough."""
        if fsn != self._fsn:
            self._fsn, self._strikes, self._since_s = fsn, 0, now_s
        self._strikes += 1
        return self._strikes >= self._most and now_s - self._since_s >= self._window_s

    @property
    def strikes(self) -> int:
        return self._strikes
