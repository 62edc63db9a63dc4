"""Syncs that are shared by those who wait for one."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from penstock.engine.handle import Handle
from penstock.server.sync_turns import SyncTurns
from tests.unit.server.support import on_loop, settled


class FakeHandle:
    """A topic, as far as its syncs go."""

    def __init__(self, sync_group: str) -> None:
        self.sync_group = sync_group


class Disk:
    """Each sync lasts until it is ended."""

    def __init__(self) -> None:
        self.begun: list[Handle] = []
        self.ends: list[asyncio.Future[None]] = []
        self.turns = SyncTurns(self.sync_all)

    async def sync_all(self, handle: Handle) -> None:
        self.begun.append(handle)
        end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.ends.append(end)
        await end

    def ask(self, *handles: FakeHandle) -> list[asyncio.Future[None]]:
        return [asyncio.ensure_future(self.turns.sync(cast("Any", one))) for one in handles]


@on_loop
async def test_those_who_come_during_a_sync_share_the_next_one() -> None:
    disk = Disk()
    one = FakeHandle("a")
    early = disk.ask(one, one)
    await settled()
    late = disk.ask(*[one] * 100)
    await settled()
    assert len(disk.begun) == 1

    disk.ends[0].set_result(None)
    await settled()
    assert [all(task.done() for task in tasks) for tasks in (early, late)] == [True, False]

    disk.ends[1].set_result(None)
    await settled()
    assert all(task.done() for task in late)
    assert len(disk.begun) == 2
    third = disk.ask(one)
    await settled()
    assert len(disk.begun) == 3
    disk.ends[2].set_result(None)
    await asyncio.gather(*third)


@on_loop
async def test_groups_are_synced_beside_each_other() -> None:
    disk = Disk()
    tasks = disk.ask(FakeHandle("a"), FakeHandle("b"), FakeHandle("a"))
    await settled()

    assert len(disk.begun) == 2
    for end in disk.ends:
        end.set_result(None)
    await asyncio.gather(*tasks)


@on_loop
async def test_a_sync_that_fails_fails_all_who_wait_for_it_and_nobody_else() -> None:
    disk = Disk()
    one = FakeHandle("a")
    early = disk.ask(one, one)
    await settled()
    late = disk.ask(one)
    await settled()
    disk.ends[0].set_exception(OSError("for the test"))
    await settled()
    disk.ends[1].set_result(None)

    for task in early:
        with pytest.raises(OSError, match="for the test"):
            await task
    await asyncio.gather(*late)


@on_loop
async def test_one_who_gives_up_does_not_end_the_sync_of_the_others() -> None:
    disk = Disk()
    one = FakeHandle("a")
    first, second = disk.ask(one, one)
    await settled()
    first.cancel()
    await settled()
    assert not second.done()

    disk.ends[0].set_result(None)
    await second
