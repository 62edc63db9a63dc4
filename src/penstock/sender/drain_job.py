"""Sends the frames of one spool to a server, for the commands `penstock spool drain` and `redrive`.

It reports the outcome of every frame; the counters of a sender also count resent frames.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

import msgspec

from penstock.clock import Clock, SystemClock
from penstock.sender.connect_string import ConnectOptions
from penstock.sender.delivery_loop import DeliveryLoop
from penstock.sender.error_inbox import ErrorInbox, Handler
from penstock.sender.error_policy import ErrorPolicy, SenderError
from penstock.sender.loss_reports import report_losses
from penstock.sender.opening import open_spool
from penstock.sender.settings import SpoolSettings
from penstock.sender.tls import tls_context
from penstock.storage.fs import Filesystem

_POLL_S: Final = 0.1  # between two progress reports
_CLOSE_S: Final = 5.0
Progress = Callable[[int, int], None]


class Outcome(msgspec.Struct, frozen=True):
    """Numbers of frames by outcome. Frames that were acknowledged before are not counted."""

    acknowledged: int
    refused: int  # they are dead letters
    lost: int  # to damage of the spool
    left: int  # not sent or not acknowledged


class DrainJob:
    """For one thread. `close` releases the slot; after it `outcome` is final."""

    def __init__(
        self,
        settings: SpoolSettings,
        options: ConnectOptions,
        *,
        handler: Handler,
        fs: Filesystem | None = None,
        clock: Clock | None = None,
        roll: Callable[[], float] = random.random,
    ) -> None:
        """`handler` is called for rejected frames; losses are logged."""
        tls_context(options)  # raises if the TLS options are invalid
        self._clock = clock or SystemClock()
        self._handler = handler
        self.spool = open_spool(settings, fs=fs, clock=self._clock)
        self._lost_before = self.spool.frames_lost
        self._waiting = self._left()
        self._inbox = ErrorInbox(options.error_inbox_capacity, self._handle)
        self.delivery_loop = DeliveryLoop(self.spool, options, self._clock, self._inbox, roll)
        report_losses(self.spool, settings.sender_id, self._inbox)
        self._is_started = False

    def run(self, idle_s: float, progress: Progress = lambda done, total: None) -> bool:
        """Wait until all frames are acknowledged or rejected. Returns false when sending has
        halted, or after `idle_s` without progress."""
        spool, delivery_loop = self.spool, self.delivery_loop
        if not self._is_started:
            self._is_started = True
            delivery_loop.start()
        seen, since_s = spool.acked_fsn, self._clock.monotonic()
        while not (self._is_done() or delivery_loop.is_over):
            left_s = since_s + idle_s - self._clock.monotonic()
            if left_s <= 0:
                return False
            delivery_loop.wait(
                lambda: self._is_done() or delivery_loop.is_over, min(_POLL_S, left_s)
            )
            spool.maintain()
            if spool.acked_fsn != seen:
                seen, since_s = spool.acked_fsn, self._clock.monotonic()
            progress(self._waiting - self._left(), self._waiting)
        return self._is_done()

    def close(self) -> None:
        """Unacknowledged frames stay in a spool on disk."""
        if self._is_started:
            self.delivery_loop.stop()
        self._inbox.close(_CLOSE_S)
        self.spool.close()

    @property
    def outcome(self) -> Outcome:
        left, refused = self._left(), self.spool.frames_refused
        lost_since = self.spool.frames_lost - self._lost_before
        acknowledged = self._waiting - left - refused - lost_since
        return Outcome(acknowledged, refused, self.spool.frames_lost, left)

    @property
    def away(self) -> str:
        """Why there is no connection; empty when there is one."""
        return "" if self.delivery_loop.outage is None else self.delivery_loop.outage.why

    def _is_done(self) -> bool:
        return self.spool.acked_fsn >= self.spool.published_fsn

    def _left(self) -> int:
        """The number of intact frames that are not acknowledged."""
        spool = self.spool
        acked = spool.acked_fsn
        gone = sum(one.frames_above(acked) for one in list(spool.damage))
        return spool.published_fsn - acked - gone

    def _handle(self, error: SenderError) -> None:
        if error.act is not ErrorPolicy.LOSE:
            self._handler(error)
