"""One spool carried to a server while somebody waits for it: for commands, not for producers.

It tells what became of every frame: a producer's counters also count what was sent twice.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

import msgspec

from penstock.clock import Clock, SystemClock
from penstock.sender.courier import Courier
from penstock.sender.inbox import Handler, Inbox
from penstock.sender.losses import tell_losses
from penstock.sender.opening import open_spool
from penstock.sender.profile import Profile
from penstock.sender.settings import SpoolSettings
from penstock.sender.tls import tls_context
from penstock.sender.verdicts import Act, SenderError
from penstock.storage.fs import Filesystem

_BEAT_S: Final = 0.1  # between two looks at how far it is
_CLOSE_S: Final = 5.0
Progress = Callable[[int, int], None]


class Outcome(msgspec.Struct, frozen=True):
    """Frames by what became of them. Those that were acknowledged before count nowhere."""

    acknowledged: int
    refused: int  # they are dead letters now
    lost: int  # to damage of the spool
    left: int  # still to be sent


class Errand:
    """One thread has it; `close` gives the slot back, and `outcome` is final from then on."""

    def __init__(
        self,
        settings: SpoolSettings,
        profile: Profile,
        *,
        handler: Handler,
        fs: Filesystem | None = None,
        clock: Clock | None = None,
        roll: Callable[[], float] = random.random,
    ) -> None:
        """`handler` hears of refusals; losses are logged."""
        tls_context(profile)  # what is wrong with it is better known now
        self._clock = clock or SystemClock()
        self._handler = handler
        self.spool = open_spool(settings, fs=fs, clock=self._clock)
        self._lost_before = self.spool.frames_lost
        self._waiting = self._left()
        self._inbox = Inbox(profile.error_inbox_capacity, self._hear)
        self.courier = Courier(self.spool, profile, self._clock, self._inbox, roll)
        tell_losses(self.spool, settings.sender_id, self._inbox)
        self.courier.start()

    def run(self, idle_s: float, progress: Progress = lambda done, total: None) -> bool:
        """Until everything is acknowledged or refused, and that is true; false when sending has
        halted, or when nothing came of it for `idle_s`."""
        spool, courier = self.spool, self.courier
        seen, since_s = spool.acked_fsn, self._clock.monotonic()
        while not (self._is_done() or courier.is_over):
            left_s = since_s + idle_s - self._clock.monotonic()
            if left_s <= 0:
                return False
            courier.wait(lambda: self._is_done() or courier.is_over, min(_BEAT_S, left_s))
            spool.upkeep()
            if spool.acked_fsn != seen:
                seen, since_s = spool.acked_fsn, self._clock.monotonic()
            progress(self._waiting - self._left(), self._waiting)
        return self._is_done()

    def close(self) -> None:
        """What is not answered stays in the spool, if that is on disk."""
        self.courier.stop()
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
        """Why there is no server; empty when there is one."""
        return "" if self.courier.outage is None else self.courier.outage.why

    def _is_done(self) -> bool:
        return self.spool.acked_fsn >= self.spool.published_fsn

    def _left(self) -> int:
        """Frames that are whole and wait."""
        spool = self.spool
        acked = spool.acked_fsn
        gone = sum(one.frames_above(acked) for one in list(spool.damage))
        return spool.published_fsn - acked - gone

    def _hear(self, error: SenderError) -> None:
        if error.act is not Act.LOSE:
            self._handler(error)
