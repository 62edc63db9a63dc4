"""What writers and readers of one besieged server share: where it is, what happened, when to stop.

Event loop only.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from tests.faults.victim import DEADLINE_S, Address
from tests.support.history import History

T = TypeVar("T")

PAUSE_S = 0.01
ANSWER_DEADLINE_S = DEADLINE_S  # a server that runs answers; whoever waits longer is stuck


async def until(probe: Callable[[], T], deadline_s: float | None = ANSWER_DEADLINE_S) -> T:
    """Ask until the answer is true. TimeoutError when it never is."""
    async with asyncio.timeout(deadline_s):
        while True:
            found = probe()
            if found:
                return found
            await asyncio.sleep(PAUSE_S)


class Site:
    """`is_open` lets writers begin; `busy` counts those that have not heard back yet."""

    def __init__(
        self,
        find: Callable[[], Address | None],
        topics: Sequence[str],
        *,
        answer_s: float = ANSWER_DEADLINE_S,
        may_be_late: bool = False,
    ) -> None:
        self.topics = list(topics)
        self.history = History()
        self.is_open = asyncio.Event()
        self.busy = 0
        self.answer_s = answer_s
        self.may_be_late = may_be_late  # the network swallows answers: no answer is no anomaly
        self.find = find

    async def address(self) -> Address:
        """Where a server listens now, whenever that is."""
        found = await until(self.find, None)
        if found is None:
            raise AssertionError("no address")
        return found

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """One write, from its decision to its last answer."""
        await self.is_open.wait()
        self.busy += 1
        try:
            yield
        finally:
            self.busy -= 1

    async def quiet(self) -> None:
        """Let no new writes begin, and wait for the answers of the others."""
        self.is_open.clear()
        await until(lambda: self.busy == 0)

    def wrong(self, what: str) -> None:
        self.history.anomalies.append(what)
