"""Appends that wait: in the order of their topic, whatever they wait for, and not for ever."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.engine.batch import Batch
from penstock.errors import Overloaded, TopicNotFound
from penstock.server.admission_queue import AdmissionQueue, Obstacle, PendingAppend
from penstock.server.appends import CREATE_AND_WAIT
from tests.unit.server.support import PATIENCE_S, on_loop, settled, until


class Stage:
    """A log with room for so many, and topics with obstacles."""

    def __init__(self, timeout_s: float = PATIENCE_S) -> None:
        self.room = 0
        self.error: Exception | None = None
        self.obstacles: dict[str, Obstacle] = {}
        self.overcome_error: Exception | None = None
        self.may_overcome = asyncio.Event()
        self.taken: list[bytes] = []
        self.told: list[tuple[bytes, Any]] = []
        loop = asyncio.get_running_loop()
        self.queue = AdmissionQueue(loop, self._submit, self._overcome, loop.call_soon, timeout_s)

    def _submit(self, append: PendingAppend) -> Obstacle | None:
        if self.error is not None:
            raise self.error
        if append.topic in self.obstacles:
            return self.obstacles[append.topic]
        if not self.room:
            raise Overloaded("the write queue is full", retry_after_ms=100)
        self.room -= 1
        self.taken.append(append.batch.datas[0])
        append.done(append.waited_s)  # type: ignore[arg-type]
        return None

    def _overcome(self, append: PendingAppend, obstacle: Obstacle, then: Any) -> None:
        async def work() -> None:
            await self.may_overcome.wait()
            if self.overcome_error is None:
                del self.obstacles[append.topic]
            then(self.overcome_error)

        self.working = asyncio.ensure_future(work())

    def add(self, topic: str, data: bytes, obstacle: Obstacle | None = None, **more: Any) -> None:
        def done(answer: Any) -> None:
            self.told.append((data, answer))

        batch = Batch([data], len(data))
        self.queue.add(PendingAppend(topic, batch, CREATE_AND_WAIT, done, **more), obstacle)


@on_loop
async def test_they_are_submitted_in_their_order_when_there_is_room() -> None:
    stage = Stage()
    for data in (b"1", b"2", b"3"):
        stage.add("t", data)
    await asyncio.sleep(0.01)
    assert stage.taken == []
    assert stage.queue.has("t")
    assert not stage.queue.has("u")
    assert stage.queue.waiting_bytes == 3

    stage.room = 2
    await until(lambda: len(stage.taken) == 2)
    assert len(stage.queue) == 1
    stage.room = 5
    await until(lambda: len(stage.taken) == 3)

    assert stage.taken == [b"1", b"2", b"3"]
    assert [data for data, _ in stage.told] == [b"1", b"2", b"3"]
    assert all(waited_s > 0 for _, waited_s in stage.told)
    assert not stage.queue.has("t")


@on_loop
async def test_nobody_waits_for_ever() -> None:
    stage = Stage(timeout_s=0.02)
    stage.add("t", b"1")

    await until(lambda: stage.told)

    assert isinstance(stage.told[0][1], Overloaded)
    assert len(stage.queue) == 0


@on_loop
async def test_one_that_must_keep_its_place_waits_until_it_is_told_not_to() -> None:
    stage = Stage(timeout_s=0.0)
    placed: list[int] = []
    stage.add("t", b"1", placed=lambda: placed.append(1))
    await asyncio.sleep(0.01)
    assert not stage.told

    stage.room = 1
    await until(lambda: placed)

    assert stage.taken == [b"1"]


@on_loop
async def test_what_goes_wrong_meanwhile_is_told_to_whom_it_concerns() -> None:
    stage = Stage()
    stage.add("t", b"1")
    stage.add("u", b"2")
    stage.error = TopicNotFound("t")

    await until(lambda: len(stage.told) == 2)

    assert all(isinstance(answer, TopicNotFound) for _, answer in stage.told)


@pytest.mark.parametrize("obstacle", list(Obstacle))
@on_loop
async def test_those_behind_an_obstacle_wait_and_other_topics_do_not(obstacle: Obstacle) -> None:
    stage = Stage()
    stage.room = 10
    stage.obstacles["t"] = obstacle
    stage.add("t", b"1", obstacle)
    stage.add("t", b"2")
    stage.add("u", b"3")
    await until(lambda: stage.taken == [b"3"])

    stage.may_overcome.set()
    await until(lambda: len(stage.taken) == 3)

    assert stage.taken == [b"3", b"1", b"2"]
    assert [waited_s for data, waited_s in stage.told if data != b"3"] == [0.0, 0.0]


@on_loop
async def test_an_obstacle_that_stays_is_an_answer_for_each() -> None:
    stage = Stage()
    stage.obstacles["t"] = Obstacle.TOPIC_MISSING
    stage.overcome_error = Overloaded("too many topics", retry_after_ms=1)
    stage.may_overcome.set()
    stage.add("t", b"1", Obstacle.TOPIC_MISSING)
    stage.add("t", b"2")

    await until(lambda: len(stage.told) == 2)

    assert [answer for _, answer in stage.told] == [stage.overcome_error] * 2
    assert not stage.queue.has("t")


# Holds.


@on_loop
async def test_a_hold_waits_for_those_before_it_and_keeps_out_those_behind() -> None:
    stage = Stage()
    stage.add("t", b"1")
    waiting = asyncio.ensure_future(stage.queue.hold(["t", "u"]))
    await settled()
    stage.add("u", b"2")
    assert not waiting.done()

    stage.room = 5
    hold = await waiting
    assert stage.taken == [b"1"]
    stage.queue.release(hold)

    await until(lambda: stage.taken == [b"1", b"2"])
    assert len(stage.queue) == 0


@on_loop
async def test_holds_that_share_topics_follow_each_other() -> None:
    stage = Stage()
    order: list[int] = []

    async def batch(number: int, *topics: str) -> None:
        hold = await stage.queue.hold(topics)
        order.append(number)
        await settled()
        order.append(number)
        stage.queue.release(hold)

    await asyncio.gather(batch(1, "a", "b"), batch(2, "b", "c"), batch(3, "c", "a"), batch(4, "d"))

    shared = [number for number in order if number != 4]
    assert shared == [1, 1, 2, 2, 3, 3]
    assert len(stage.queue) == 0


@on_loop
async def test_a_hold_that_is_given_up_leaves_nothing_behind() -> None:
    stage = Stage()
    first = await stage.queue.hold(["a"])
    second = asyncio.ensure_future(stage.queue.hold(["b", "a"]))
    await settled()
    second.cancel()
    await settled()
    stage.room = 1
    stage.add("a", b"1")
    stage.queue.release(first)

    await until(lambda: stage.taken == [b"1"])

    assert len(stage.queue) == 0
    assert not stage.queue.has("b")
