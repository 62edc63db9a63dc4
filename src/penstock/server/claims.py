"""Claims and what ends them, for many callers on one loop: cohorts, waiting, and whom to wake."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from penstock.engine.handle import Handle
from penstock.engine.queues import Claimer
from penstock.server.feeds import Feed
from penstock.server.service import Service
from penstock.types import Claimed, Settled


class _Cohort:
    """Claimers who arrived within one window."""

    __slots__ = ("answers", "claimers")

    def __init__(self, answers: asyncio.Future[list[Claimed]]) -> None:
        self.claimers: list[Claimer] = []
        self.answers = answers


class Claims:
    """Event loop only."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._cohorts: dict[int, _Cohort] = {}  # by topic
        self._waiting: dict[int, dict[Callable[[], None], None]] = {}  # by topic: who wants jobs

    async def claim(self, handle: Handle, claimer: Claimer) -> Claimed:
        """One claim; on a queue with a window, together with those who come within it."""
        jitter_ms = handle.topic.config.claim_jitter_ms
        claim = self._service.log.queues.claim
        if not jitter_ms:
            return (await self._service.run(claim, handle, [claimer]))[0]
        topic_id = handle.topic.id
        cohort = self._cohorts.get(topic_id)
        if cohort is not None:
            number = len(cohort.claimers)
            cohort.claimers.append(Claimer(claimer.node, claimer.most, cohort.claimers[0].lease_ms))
            return (await asyncio.shield(cohort.answers))[number]
        cohort = self._cohorts[topic_id] = _Cohort(asyncio.get_running_loop().create_future())
        cohort.claimers.append(claimer)
        await asyncio.sleep(jitter_ms / 1000)
        del self._cohorts[topic_id]
        try:
            answers = await self._service.run(claim, handle, cohort.claimers)
        except BaseException as error:
            if len(cohort.claimers) > 1:
                cohort.answers.set_exception(error)
            raise
        cohort.answers.set_result(answers)
        return answers[0]

    async def claim_within(self, handle: Handle, claimer: Claimer, wait_ms: int) -> Claimed:
        """The same, waiting for a job for a while if there is none."""
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
                ripe_ms = self._service.log.queues.next_change_ms(handle)
                pause_s = left_s if ripe_ms is None else min(left_s, ripe_ms / 1000)
                try:
                    async with asyncio.timeout(pause_s):
                        await woken.wait()
                except TimeoutError:
                    continue
        finally:
            watch.close()

    async def settle(
        self, verb: Callable[..., Settled], handle: Handle, *args: Any, **named: Any
    ) -> Settled:
        """Ack, nack or extend; then whoever waits for a job may look again."""
        settled = await self._service.run(verb, handle, *args, **named)
        if settled.done:
            self.wake(handle.topic.id)
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
        self._topic_id = handle.topic.id
        self._wake = wake
        self._feed: Feed | None = service.feeds.join(handle, self)
        claims.join(self._topic_id, wake)

    def wake(self, feed: Feed) -> None:
        self._wake()

    def close(self) -> None:
        if self._feed is not None:
            feed, self._feed = self._feed, None
            self._service.feeds.leave(feed, self)
            self._claims.leave(self._topic_id, self._wake)
