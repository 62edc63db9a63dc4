"""Claim, ack, nack and extend on the caller's thread. A thread may wait for a job; claims that
arrive together share one pass.

The thread that opens a cohort (`claim_cohorts`) waits for the window of the queue,
`claim_jitter_ms`, and claims for all; the threads that join it wait for their answers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from penstock.clock import Clock
from penstock.engine.claim_cohorts import Cohorts
from penstock.engine.handle import Handle
from penstock.engine.interruptible_calls import VerbThreads
from penstock.engine.queues import Claimer, Queues
from penstock.types import Claimed

T = TypeVar("T")


class ClaimBatcher:
    """Safe from several threads."""

    def __init__(self, queues: Queues, clock: Clock, verb_threads: VerbThreads) -> None:
        self._queues = queues
        self._clock = clock
        self._verb_threads = verb_threads
        self._changed = threading.Condition()
        self._cohorts = Cohorts()

    def claim_within(self, handle: Handle, claimer: Claimer, wait_s: float) -> Claimed:
        """Claim jobs; if none is ready, wait for one up to the timeout."""
        claimed = self.claim(handle, claimer)
        if claimed.jobs or wait_s <= 0:
            return claimed
        until_s = self._clock.monotonic() + wait_s
        woken_lock = threading.RLock()  # taken as such: see `Shard`
        woken = threading.Condition(woken_lock)
        calls = 0

        def notify() -> None:
            nonlocal calls
            with woken_lock:
                calls += 1
                woken.notify_all()

        handle.listen(notify)
        try:
            while True:
                seen = calls
                # Not under the condition: the thread that notifies also commits our claim.
                claimed = self.claim(handle, claimer)
                left_s = until_s - self._clock.monotonic()
                if claimed.jobs or left_s <= 0:
                    return claimed
                ripe_ms = self._queues.next_change_ms(handle)
                pause_s = left_s if ripe_ms is None else min(left_s, ripe_ms / 1000)
                with woken_lock:
                    if calls == seen:
                        self._clock.wait(woken, pause_s)
        finally:
            handle.unlisten(notify)

    def claim(self, handle: Handle, claimer: Claimer) -> Claimed:
        jitter_ms = handle.topic.config.claim_jitter_ms
        if not jitter_ms:
            return self._claim_all(handle, [claimer])[0]
        topic_id = handle.topic.id
        answers: list[Claimed | BaseException] = []  # one, when there is one
        cohort = self._cohorts.join(topic_id, claimer, answers.append)
        if cohort is None:
            with self._changed:
                while not answers:
                    self._clock.wait(self._changed, None)
        else:
            outcome: list[Claimed] | BaseException
            try:
                try:
                    self._wait_for_window(jitter_ms)
                finally:
                    self._cohorts.close(topic_id)
                claimers = cohort.claimers
                outcome = self._verb_threads.run(
                    lambda: self._queues.claim_values(handle, claimers)
                )
            except BaseException as error:  # noqa: BLE001 - raised below
                outcome = error
            with self._changed:
                cohort.answer(outcome)
                self._changed.notify_all()
        if isinstance(answers[0], BaseException):
            raise answers[0]
        return answers[0]

    def _claim_all(self, handle: Handle, claimers: list[Claimer]) -> list[Claimed]:
        return self.run(handle, lambda: self._queues.claim_values(handle, claimers))

    def run(self, handle: Handle, verb: Callable[[], T]) -> T:
        """Call a verb that changes leases: on this thread if, in this queue, an asynchronous
        exception may safely interrupt it at any point; else on a thread of the log."""
        topic = handle.topic
        config = topic.config
        if (
            config.max_deliveries  # jobs may have to be copied to another topic first
            or config.ttl_ms
            or config.rules.group_by is not None  # a group counts its jobs in several steps
            or topic.queue.crons
        ):
            return self._verb_threads.run(verb)
        self._verb_threads.finish()
        return verb()

    def _wait_for_window(self, jitter_ms: int) -> None:
        until_s = self._clock.monotonic() + jitter_ms / 1000
        with self._changed:
            while (left_s := until_s - self._clock.monotonic()) > 0:
                self._clock.wait(self._changed, left_s)
