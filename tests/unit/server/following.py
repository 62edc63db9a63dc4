"""A log, a service, and followers whose sinks the test holds in its hand."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from penstock.engine.engine import Log
from penstock.engine.read import ReadOptions
from penstock.engine.read import options as read_options
from penstock.server.service import Service
from penstock.server.subscription import Cursor, Subscription
from penstock.testing import FakeClock
from penstock.testing.log import open_memory_log
from penstock.types import Gap, JsonPage


def wanted(limit: int = 100, **given: Any) -> ReadOptions:
    return read_options(limit, None, None, is_wire=True, **given)


class Tape:
    """A sink that takes as much as the test lets it."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []
        self.room: int | None = None
        self.cursors: list[str] = []

    @property
    def is_full(self) -> bool:
        return self.room is not None and self.room <= 0

    def _note(self, *event: Any) -> None:
        self.events.append(event)
        if self.room is not None:
            self.room -= 1

    def added(self, cursor: Cursor) -> None:
        self.cursors.append(cursor.name)

    def record(self, cursor: Cursor, after: int, page: JsonPage) -> None:
        datas = [record["data"] for record in json.loads(page.records)]
        assert cursor.seq == page.next_seq
        assert len(datas) == page.count
        self._note("record", cursor.name, after, page.next_seq, *datas)

    def tombstone(self, cursor: Cursor, gap: Gap) -> None:
        self._note("gap", cursor.name, gap.first, gap.last, gap.reason)

    def caught_up(self, cursor: Cursor, head: int) -> None:
        self._note("caught up", cursor.name, head)

    def deleted(self, cursor: Cursor) -> None:
        self._note("deleted", cursor.name)

    def failed(self, error: Exception) -> None:
        self._note("failed", type(error).__name__)

    def datas(self, topic: str) -> list[Any]:
        return [
            data for event in self.events if event[:2] == ("record", topic) for data in event[4:]
        ]


class Stage:
    """A log, a service and those who follow it."""

    def __init__(self, log: Log | None = None) -> None:
        self.log = log or open_memory_log()
        self.service = Service(asyncio.get_running_loop(), FakeClock(), total_bytes_max=0)
        self.service.adopt(self.log.core)

    def follow(
        self,
        *topics: str,
        seq: int = 0,
        tape: Tape | None = None,
        epoch: int | None = None,
        is_strong: bool = False,
        options: ReadOptions | None = None,
    ) -> tuple[Subscription, Tape]:
        tape = tape or Tape()
        subscription = Subscription(self.service, tape, is_strong=is_strong)
        for topic in topics:
            handle = self.service.handle(topic)
            own = handle.topic.epoch if epoch is None else epoch
            subscription.add(Cursor(topic, seq, own, options or wanted()), handle)
        subscription.pump()
        return subscription, tape

    async def close(self) -> None:
        await asyncio.to_thread(self.service.close)
