"""What pressure does to writes and to the log; and that reads never feel it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.engine import batch as batches
from penstock.errors import Overloaded
from penstock.runtime.governor import Ladder, ladder_of
from penstock.server.service import Service
from penstock.storage.wal.shard import Shard
from penstock.testing import FakeClock
from penstock.testing.log import open_memory_log
from penstock.wire.models import WriteOptions
from tests.unit.server.support import PATIENCE_S, on_loop, until

TOP = ladder_of(1.0, is_deferring=True)


class Stage:
    def __init__(self) -> None:
        self.log = open_memory_log()
        self.log.create("t")
        self.log.create_router("r", "t", "copy")
        self.service = Service(asyncio.get_running_loop(), FakeClock(), total_bytes_max=0)
        self.service.adopt(self.log.core)
        self.service._admission_queue._timeout_s = PATIENCE_S
        self.told: list[Any] = []

    def press(self, ladder: Ladder = TOP) -> None:
        self.service.delivery._governor.ladder = ladder
        self.service._throttle(ladder)

    def append(self, value: int, *, is_patient: bool = False) -> None:
        batch = batches.prepare([value], tag=None, node=None, key=None)
        options = WriteOptions(disable_backpressure=is_patient)
        self.service.append("t", batch, options, self.told.append)


@pytest.fixture
def depth(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How long the queue of every shard is said to be."""
    said = [0]
    monkeypatch.setattr(Shard, "queue_depth", property(lambda shard: said[0]))
    return said


def test_writes_are_refused_at_the_top_when_their_queue_is_long(depth: list[int]) -> None:
    @on_loop
    async def story() -> None:
        stage = Stage()
        depth[0] = 2000
        stage.append(1)  # a long queue alone is nothing
        stage.press()
        with pytest.raises(Overloaded) as refused:
            stage.append(2)
        assert refused.value.retry_after_ms == 1000
        depth[0] = 10
        stage.append(3)  # nor is pressure without one
        await until(lambda: len(stage.told) == 2)
        assert stage.service.writes_throttled == 1
        assert [record.data for record in stage.log.read("t").records] == [1, 3]

    story()


def test_a_patient_write_waits_and_says_so(
    depth: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    @on_loop
    async def story() -> None:
        stage = Stage()
        stage.press()
        depth[0] = 2000
        is_full = True
        submit = stage.log.core.submit_to

        def full(*args: Any) -> None:
            if is_full:
                raise Overloaded("the write queue is full", retry_after_ms=100)
            submit(*args)

        monkeypatch.setattr(stage.log.core, "submit_to", full)
        stage.append(1, is_patient=True)
        stage.append(2, is_patient=True)
        await asyncio.sleep(0.02)
        assert stage.told == []
        stage.append(3)  # behind those who wait, as it came after them
        is_full = False
        await until(lambda: len(stage.told) == 3)

        assert [record.data for record in stage.log.read("t").records] == [1, 2, 3]
        assert all(answer.throttle_wait_ms > 0 for answer in stage.told)
        assert stage.service.writes_throttled == 0

    story()


@on_loop
async def test_the_log_is_told_to_gather_commits_and_to_put_routers_off() -> None:
    stage = Stage()
    stage.press()

    assert all(shard._window.widened_s == 0.01 for shard in stage.log.core.parts.shards)

    stage.press(Ladder())
    assert all(shard._window.widened_s is None for shard in stage.log.core.parts.shards)


@on_loop
async def test_reads_and_copies_are_never_put_off() -> None:
    stage = Stage()
    stage.press()
    stage.append(1)
    await until(lambda: stage.told)

    assert [record.data for record in stage.log.read("copy").records] == [1]
