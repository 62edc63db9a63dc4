"""Claims that arrive together are served together: one pass, dealt out evenly.

The first claimer of a queue with `claim_jitter_ms` opens a cohort and waits for the window;
whoever comes meanwhile joins it. For threads; a server has its own way to wait.
"""

from __future__ import annotations

import threading

from penstock.clock import Clock
from penstock.engine.handle import Handle
from penstock.engine.queues import Claimer, Queues
from penstock.types import Claimed


class _Cohort:
    def __init__(self) -> None:
        self.claimers: list[Claimer] = []
        self.answers: list[Claimed] | None = None
        self.error: BaseException | None = None


class Cohorts:
    """Safe from several threads."""

    def __init__(self, queues: Queues, clock: Clock) -> None:
        self._queues = queues
        self._clock = clock
        self._changed = threading.Condition()
        self._open: dict[int, _Cohort] = {}  # by topic

    def claim_within(self, handle: Handle, claimer: Claimer, wait_s: float) -> Claimed:
        """Claim; when there is nothing, wait for a job for a while."""
        claimed = self.claim(handle, claimer)
        if claimed.jobs or wait_s <= 0:
            return claimed
        until_s = self._clock.monotonic() + wait_s
        woken = threading.Condition()
        calls = 0

        def notify() -> None:
            nonlocal calls
            with woken:
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
                with woken:
                    if calls == seen:
                        self._clock.wait(woken, pause_s)
        finally:
            handle.unlisten(notify)

    def claim(self, handle: Handle, claimer: Claimer) -> Claimed:
        jitter_ms = handle.topic.config.claim_jitter_ms
        if not jitter_ms:
            return self._queues.claim_values(handle, [claimer])[0]
        topic_id = handle.topic.id
        with self._changed:
            cohort = self._open.setdefault(topic_id, _Cohort())
            number = len(cohort.claimers)
            cohort.claimers.append(claimer)
            if number:
                while cohort.answers is None and cohort.error is None:
                    self._clock.wait(self._changed, None)
                return _answer(cohort, number)
        until_s = self._clock.monotonic() + jitter_ms / 1000
        with self._changed:
            while (left_s := until_s - self._clock.monotonic()) > 0:
                self._clock.wait(self._changed, left_s)
            del self._open[topic_id]
        try:
            cohort.answers = self._queues.claim_values(handle, _on_equal_terms(cohort.claimers))
        except BaseException as error:
            cohort.error = error
            raise
        finally:
            with self._changed:
                self._changed.notify_all()
        return cohort.answers[0]


def _answer(cohort: _Cohort, number: int) -> Claimed:
    if cohort.answers is None:
        raise cohort.error or AssertionError("a cohort ended without an answer")
    return cohort.answers[number]


def _on_equal_terms(claimers: list[Claimer]) -> list[Claimer]:
    """The lease of the first holds for all."""
    lease_ms = claimers[0].lease_ms
    return [Claimer(one.node, one.most, lease_ms) for one in claimers]
