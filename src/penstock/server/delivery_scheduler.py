"""The order in which watchers get new records, and the pressure that this causes.

Topics with new records for their watchers are served by priority, a few at a time, so that one busy
topic does not block the loop. Every 100 ms the governor takes a sample. Its decisions are applied
here and in the log: coalesce deliveries, wait longer for a group commit, defer low priorities,
refuse writes. None of them loses a record, and reads are never deferred.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol

from penstock.clock import Clock
from penstock.runtime.governor import SAMPLE_MS, Governor, Ladder
from penstock.runtime.priority_scheduler import TICK_MS, ReadySet

_log = logging.getLogger("penstock.server")
_TURN_S: Final = 0.002  # of serving, before others on the loop have theirs
_CALM: Final = 0.001  # a pressure that is as good as none


class News(Protocol):
    """A topic with watchers."""

    def __hash__(self) -> int: ...

    def deliver(self) -> None:
        """Notify all streams."""


class DeliveryScheduler:
    """Event loop only."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        busy: Callable[[], tuple[int, float]],
        act: Callable[[Ladder], None],
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._busy = busy  # topics that wait elsewhere, and the share of threads at work
        self._act = act  # what the log has to do of a ladder
        self._ready: ReadySet[News] = ReadySet()
        self._governor = Governor()
        self._turn: asyncio.Handle | None = None
        self._beat: asyncio.Handle | None = None
        self.deliveries_total = 0

    @property
    def ladder(self) -> Ladder:
        return self._governor.ladder

    @property
    def latency_ms(self) -> float:
        """How long topics wait for their turn, smoothed."""
        return self._governor.latency_ms

    def depths(self) -> tuple[int, ...]:
        """Topics that wait, by band from the lowest up."""
        return self._ready.depths()

    @property
    def paused(self) -> int:
        return self._ready.paused

    def mark(self, news: News, priority: int) -> None:
        """This topic has something to deliver."""
        self._ready.mark(news, priority, self._now_ms())
        self.stir()
        if self._turn is None:
            self._schedule(self.ladder.coalesce_ms / 1000)

    def forget(self, news: News) -> None:
        """The topic has no watchers any more."""
        self._ready.forget(news)

    def stir(self) -> None:
        """There is work: take samples from now on."""
        if self._beat is None:
            self._beat = self._loop.call_later(SAMPLE_MS / 1000, self._sample)

    def close(self) -> None:
        for handle in (self._turn, self._beat):
            if handle is not None:
                handle.cancel()

    def _schedule(self, delay_s: float) -> None:
        if delay_s > 0:
            self._turn = self._loop.call_later(delay_s, self._serve)
        else:
            self._turn = self._loop.call_soon(self._serve)

    def _serve(self) -> None:
        self._turn = None
        ready = self._ready
        deadline = self._loop.time() + _TURN_S
        while True:
            news = ready.take(self._now_ms())
            if news is None:
                break
            self._governor.waited(ready.waited_ms(news))
            try:
                news.deliver()
            except Exception:  # noqa: BLE001 - those behind it are other people's
                _log.exception("watchers of a topic could not be notified")
            ready.done(news, self._now_ms())
            self.deliveries_total += 1
            if self._loop.time() >= deadline:
                break
        if len(ready):
            # Deferred topics age, and are checked again later.
            self._schedule(0 if ready.depth else TICK_MS / 1000)

    def _sample(self) -> None:
        self._beat = None
        waiting, busy = self._busy()
        before = self.ladder
        ladder = self._governor.sample(
            self._now_ms(), depth=self._ready.depth + waiting, workers=2, busy=busy
        )
        if ladder is not before:
            self._ready.defer(ladder.is_deferring, self._now_ms())
            self._act(ladder)
            if not ladder.is_deferring and len(self._ready) and self._turn is None:
                self._schedule(0)
        if ladder.pressure > _CALM or len(self._ready) or waiting or busy > 0:
            self.stir()
        elif ladder.pressure:
            self._act(Ladder())  # as good as none: everything as it was

    def _now_ms(self) -> float:
        return self._clock.monotonic() * 1000
