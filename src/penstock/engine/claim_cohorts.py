"""Cohorts: claims of one queue that arrive within one window and are served by one pass.

This module decides which claims join, on which terms, and which answer each claim gets. The caller
waits for the window: a thread in `claim_batching`, an event loop in `server/claims.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from penstock.engine.queues import Claimer
from penstock.types import Claimed

Answered = Callable[[Claimed | BaseException], None]
"""Called with the answer to one claim of a cohort, or with the error."""


class Cohort:
    """Guarded by the lock of its `Cohorts` until it is closed; after that only one thread uses
    it."""

    def __init__(self) -> None:
        self._members: list[tuple[Claimer, Answered]] = []

    def add(self, claimer: Claimer, answered: Answered) -> None:
        self._members.append((claimer, answered))

    @property
    def claimers(self) -> list[Claimer]:
        """All claims of a cohort get the lease duration of the first."""
        lease_ms = self._members[0][0].lease_ms
        return [Claimer(one.node, one.most, lease_ms) for one, _ in self._members]

    def answer(self, outcome: Sequence[Claimed] | BaseException) -> None:
        """Each claim gets its own answer; an error goes to all of them."""
        for number, (_, answered) in enumerate(self._members):
            answered(outcome if isinstance(outcome, BaseException) else outcome[number])


class Cohorts:
    """The open cohort of each queue. Safe from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[int, Cohort] = {}  # by topic

    def join(self, topic_id: int, claimer: Claimer, answered: Answered) -> Cohort | None:
        """Join the queue's cohort. The first caller gets the cohort: it closes it after the window
        and answers it. The others get None."""
        with self._lock:
            cohort = self._open.get(topic_id)
            is_first = cohort is None
            if cohort is None:
                cohort = self._open[topic_id] = Cohort()
            cohort.add(claimer, answered)
        return cohort if is_first else None

    def close(self, topic_id: int) -> None:
        """Close the cohort; the next claim opens another."""
        with self._lock:
            del self._open[topic_id]
