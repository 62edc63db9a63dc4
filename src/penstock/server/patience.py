"""Writes that would rather wait than be refused: they are submitted when there is room again."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from typing import Final, NamedTuple

from penstock.engine.batch import Batch
from penstock.engine.engine import Outcome
from penstock.engine.handle import Handle
from penstock.errors import Overloaded, PenstockError

_LOOK_S: Final = 0.002
Submit = Callable[[Handle, Batch, Callable[[Outcome], None], int | None], None]


class _Waiting(NamedTuple):
    handle: Handle
    batch: Batch
    resolved: Callable[[Outcome], None]
    expected_seq: int | None
    since_s: float


class Patience:
    """Event loop only. First come, first served: whoever comes to a topic that others wait for
    waits behind them."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        submit: Submit,
        note: Callable[[Outcome, float], None],
        timeout_s: float = 30.0,
    ) -> None:
        self._note = note  # how long a write waited
        self._loop = loop
        self._submit = submit
        self._timeout_s = timeout_s
        self._waiting: deque[_Waiting] = deque()
        self._topics: Counter[int] = Counter()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def has(self, handle: Handle) -> bool:
        """Does somebody wait for room in this topic's shard?"""
        return bool(self._topics) and handle.topic.id in self._topics

    def wait(
        self,
        handle: Handle,
        batch: Batch,
        resolved: Callable[[Outcome], None],
        expected_seq: int | None,
    ) -> None:
        self._waiting.append(_Waiting(handle, batch, resolved, expected_seq, self._loop.time()))
        self._topics[handle.topic.id] += 1
        if self._timer is None:
            self._timer = self._loop.call_later(_LOOK_S, self._look)

    def _look(self) -> None:
        self._timer = None
        while self._waiting:
            one = self._waiting[0]
            waited_s = self._loop.time() - one.since_s
            try:
                self._submit(
                    one.handle, one.batch, self._timed(one.resolved, waited_s), one.expected_seq
                )
            except Overloaded as error:
                if waited_s < self._timeout_s:
                    self._timer = self._loop.call_later(_LOOK_S, self._look)
                    return
                self._leave()
                one.resolved(error)
            except PenstockError as error:
                self._leave()
                one.resolved(error)
            else:
                self._leave()

    def _leave(self) -> None:
        topic_id = self._waiting.popleft().handle.topic.id
        self._topics[topic_id] -= 1
        if not self._topics[topic_id]:
            del self._topics[topic_id]

    def _timed(
        self, resolved: Callable[[Outcome], None], waited_s: float
    ) -> Callable[[Outcome], None]:
        def told(outcome: Outcome) -> None:
            self._note(outcome, waited_s)
            resolved(outcome)

        return told
