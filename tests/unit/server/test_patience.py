"""Writes that wait for room: in their order, told how long, and not for ever."""

from __future__ import annotations

import asyncio
from typing import Any

from penstock.engine.batch import Batch
from penstock.errors import Overloaded, TopicNotFound
from penstock.server.patience import Patience
from penstock.storage.wal.ticket import Ticket
from tests.unit.server.support import PATIENCE_S, on_loop, until


class Topic:
    def __init__(self, topic_id: int) -> None:
        self.id = topic_id


class Handle:
    def __init__(self, topic_id: int) -> None:
        self.topic = Topic(topic_id)


class Stage:
    """A log with room for so many."""

    def __init__(self, timeout_s: float = PATIENCE_S) -> None:
        self.room = 0
        self.error: Exception | None = None
        self.taken: list[bytes] = []
        self.told: list[tuple[bytes, Any]] = []
        self.handles = {number: Handle(number) for number in (1, 2)}
        self.patience = Patience(asyncio.get_running_loop(), self._submit, self._note, timeout_s)

    def _note(self, outcome: Any, waited_s: float) -> None:
        if isinstance(outcome, Ticket):
            outcome.throttle_s += waited_s

    def _submit(self, handle: Any, batch: Batch, resolved: Any, expected_seq: int | None) -> None:
        if self.error is not None:
            raise self.error
        if not self.room:
            raise Overloaded("the write queue is full", retry_after_ms=100)
        self.room -= 1
        self.taken.append(batch.datas[0])
        resolved(Ticket(b"", None, False))

    def wait(self, topic: int, data: bytes) -> None:
        handle: Any = self.handles[topic]
        self.patience.wait(
            handle, Batch([data], 1), lambda outcome: self.told.append((data, outcome)), None
        )


@on_loop
async def test_they_are_taken_in_their_order_when_there_is_room() -> None:
    stage = Stage()
    for data in (b"1", b"2", b"3"):
        stage.wait(1, data)
    await asyncio.sleep(0.01)
    assert stage.taken == []
    assert stage.patience.has(stage.handles[1])  # type: ignore[arg-type]
    assert not stage.patience.has(stage.handles[2])  # type: ignore[arg-type]

    stage.room = 2
    await until(lambda: len(stage.taken) == 2)
    assert len(stage.patience) == 1
    stage.room = 5
    await until(lambda: len(stage.taken) == 3)

    assert stage.taken == [b"1", b"2", b"3"]
    assert [data for data, _ in stage.told] == [b"1", b"2", b"3"]
    assert all(outcome.throttle_s > 0 for _, outcome in stage.told)
    assert not stage.patience.has(stage.handles[1])  # type: ignore[arg-type]


@on_loop
async def test_nobody_waits_for_ever() -> None:
    stage = Stage(timeout_s=0.02)
    stage.wait(1, b"1")

    await until(lambda: stage.told)

    assert isinstance(stage.told[0][1], Overloaded)
    assert len(stage.patience) == 0


@on_loop
async def test_what_goes_wrong_meanwhile_is_told_to_whom_it_concerns() -> None:
    stage = Stage()
    stage.wait(1, b"1")
    stage.wait(2, b"2")
    stage.error = TopicNotFound("t")

    await until(lambda: len(stage.told) == 2)

    assert all(isinstance(outcome, TopicNotFound) for _, outcome in stage.told)
