"""Claim, ack, nack and extend for many callers on one loop: cohorts, waits and wake-ups."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from penstock.engine.claim_cohorts import Cohort, Cohorts
from penstock.engine.handle import Handle
from penstock.engine.queues import Claimer
from penstock.server.feeds import Feed
from penstock.server.service import Service
from penstock.types import Claimed, Settled


class Claims:
    """Event loop only."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._loop = asyncio.get_running_loop()
        self._cohorts = Cohorts()
        self._waiting: dict[int, dict[Callable[[], None], None]] = {}  # by topic: who wants jobs

    async def claim(self, handle: Handle, claimer: Claimer) -> Claimed:
        """One claim; on a queue with a window, together with the other claims of the window."""
        jitter_ms = handle.config.claim_jitter_ms
        if not jitter_ms:
            return (await self._claim(handle, [claimer]))[0]
        waiting: asyncio.Future[Claimed | BaseException] = self._loop.create_future()

        def answered(outcome: Claimed | BaseException) -> None:
            if not waiting.done():
                waiting.set_result(outcome)

        cohort = self._cohorts.join(handle.id, claimer, answered)
        if cohort is not None:
            self._loop.call_later(jitter_ms / 1000, self._close_cohort, handle, cohort)
        outcome = await waiting
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def _close_cohort(self, handle: Handle, cohort: Cohort) -> None:
        self._cohorts.close(handle.id)
        self._service.keep(asyncio.ensure_future(self._serve(handle, cohort)))

    async def _serve(self, handle: Handle, cohort: Cohort) -> None:
        outcome: list[Claimed] | BaseException
        try:
            outcome = await self._claim(handle, cohort.claimers)
        except BaseException as error:  # noqa: BLE001 - it is for those who wait
            outcome = error
        cohort.answer(outcome)

    async def _claim(self, handle: Handle, claimers: list[Claimer]) -> list[Claimed]:
        submit = self._service.core.queues.submit_claim
        claimed: list[Claimed] = await self._service.submit(
            submit, handle, claimers, defer=self._defer
        )
        return claimed

    def _defer(self, rest: Callable[[], None]) -> None:
        """A claim that has to read files continues on a thread, and answers from there."""
        self._service.keep(asyncio.ensure_future(self._service.run(rest)))

    async def claim_within(self, handle: Handle, claimer: Claimer, wait_ms: int) -> Claimed:
        """The same, but waits for a job if none is ready."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_ms / 1000
        woken = asyncio.Event()
        watch = JobWatch(self._service, self, handle, woken.set)
        try:
            while True:
                woken.clear()
                claimed = await self.claim(handle, claimer)
                left_s = deadline - loop.time()
                if claimed.jobs or left_s <= 0 or self._service.is_stopping:
                    return claimed
                ripe_ms = self._service.core.queues.next_change_ms(handle)
                pause_s = left_s if ripe_ms is None else min(left_s, ripe_ms / 1000)
                try:
                    async with asyncio.timeout(pause_s):
                        await woken.wait()
                except TimeoutError:
                    continue
        finally:
            watch.close()

    async def settle(
        self, submit: Callable[..., None], handle: Handle, *args: Any, **named: Any
    ) -> Settled:
        """Ack, nack or extend by callback; then the claims that wait for a job try again."""
        settled: Settled = await self._service.submit(submit, handle, *args, **named)
        if settled.done:
            self.wake(handle.id)
        return settled

    def wake(self, topic_id: int) -> None:
        for wake in list(self._waiting.get(topic_id, ())):
            wake()

    def wake_all(self) -> None:
        for topic_id in list(self._waiting):
            self.wake(topic_id)

    def join(self, topic_id: int, wake: Callable[[], None]) -> None:
        self._waiting.setdefault(topic_id, {})[wake] = None

    def leave(self, topic_id: int, wake: Callable[[], None]) -> None:
        waiting = self._waiting.get(topic_id)
        if waiting is not None:
            waiting.pop(wake, None)
            if not waiting:
                del self._waiting[topic_id]


class JobWatch:
    """Calls `wake` when a queue may have a job: after an append, an ack or a nack. Event loop
    only."""

    is_pushed = False

    def __init__(
        self, service: Service, claims: Claims, handle: Handle, wake: Callable[[], None]
    ) -> None:
        self._service = service
        self._claims = claims
        self._topic_id = handle.id
        self._wake = wake
        self._feed: Feed | None = service.feeds.subscribe(handle, self)
        claims.join(self._topic_id, wake)

    def wake(self, feed: Feed) -> None:
        self._wake()

    def close(self) -> None:
        if self._feed is not None:
            feed, self._feed = self._feed, None
            self._service.feeds.unsubscribe(feed, self)
            self._claims.leave(self._topic_id, self._wake)
