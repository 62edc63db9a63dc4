"""Pushes of features by many callers on one loop: they wait for the disk together."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest

from penstock.errors import LogFailed
from penstock.feature_types import Pushed
from penstock.server.features import FeatureService
from penstock.testing.fs import MemoryFile, MemoryFilesystem
from tests.unit.server.bench import Bench, threaded_log
from tests.unit.server.support import PATIENCE_S, on_loop, until

CALLERS = 40  # more than a server has threads
PAY: dict[str, Any] = {
    "name": "Pay",
    "fields": {"id": "str"},
    "dedupe": {"field": "id", "window": "1d"},
}


class SlowDisk:
    """A server whose next sync lasts until it is ended. Nothing is synced by the way."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, event: dict[str, Any]) -> None:
        self.fs = MemoryFilesystem()
        self.bench = Bench(threaded_log(self.fs, wal_shards=1, sync_tick_ms=60_000))
        self.log = self.bench.log
        self.log.features.register({"events": [event]})
        self.log.features.push("Pay", {"id": "first"}, sync="per_event")  # seqs are reserved
        self.features = FeatureService(self.bench.service)
        self.begun = threading.Event()
        self.ended = threading.Event()
        self.threads: set[threading.Thread] = set()  # that have synced
        self._is_armed = False
        sync = MemoryFile.sync

        def slow(file: MemoryFile) -> None:
            self.threads.add(threading.current_thread())
            if self._is_armed:
                self._is_armed = False
                self.begun.set()
                assert self.ended.wait(PATIENCE_S)
            sync(file)

        monkeypatch.setattr(MemoryFile, "sync", slow)

    def push(self, *ids: str) -> asyncio.Task[Pushed]:
        texts = [json.dumps({"id": one}).encode() for one in ids]
        return asyncio.ensure_future(self.features.push("Pay", texts, "per_event"))

    async def hold(self) -> asyncio.Task[Pushed]:
        """Begin a sync."""
        self._is_armed = True
        held = self.push("held")
        await until(self.begun.is_set)
        return held

    @property
    def queued(self) -> int:
        """The last seq that an append has."""
        return self.log.core.catalogue.get("Pay").next_seq - 1

    @property
    def syncs(self) -> int:
        return self.log.stats().wal_syncs_total


@pytest.mark.parametrize("sync", ["periodic", "per_event"])
@pytest.mark.parametrize("dedupe", [PAY["dedupe"], None])
@on_loop
async def test_any_number_of_pushes_shares_a_sync(
    monkeypatch: pytest.MonkeyPatch, sync: str, dedupe: Any
) -> None:
    disk = SlowDisk(monkeypatch, PAY | {"sync": sync, "dedupe": dedupe})
    held = await disk.hold()
    before = disk.syncs

    pushes = [disk.push(str(number)) for number in range(CALLERS)]
    await until(lambda: disk.queued == CALLERS + 2)
    assert not any(push.done() for push in pushes)
    disk.ended.set()
    answers = await asyncio.gather(held, *pushes)

    assert [(one.count, one.deduped) for one in answers] == [(1, 0)] * (CALLERS + 1)
    assert disk.syncs <= before + 3  # the one that was held is among them
    assert threading.current_thread() not in disk.threads
    await disk.bench.close()


@pytest.mark.parametrize("sync", ["periodic", "per_event"])
@on_loop
async def test_a_duplicate_of_an_event_that_waits_for_its_sync_waits_too(
    monkeypatch: pytest.MonkeyPatch, sync: str
) -> None:
    disk = SlowDisk(monkeypatch, PAY | {"sync": sync})
    held = await disk.hold()

    pushes = [disk.push("held", "held") for _ in range(CALLERS)]
    both = disk.push("held", "new")
    await until(lambda: disk.queued == 3)
    assert not any(push.done() for push in (*pushes, both))
    disk.ended.set()
    answers = await asyncio.gather(*pushes)

    assert {(one.count, one.deduped, one.first_seq, one.last_seq) for one in answers} == {
        (0, 2, 2, 2)
    }
    assert ((await both).count, (await both).deduped) == (1, 1)
    assert (await held).first_seq == 2
    assert disk.log.topic("Pay").head_seq == 3
    await disk.bench.close()


@pytest.mark.parametrize("sync", ["periodic", "per_event"])
@on_loop
async def test_a_sync_that_fails_fails_all_who_wait_for_it(
    monkeypatch: pytest.MonkeyPatch, sync: str
) -> None:
    disk = SlowDisk(monkeypatch, PAY | {"sync": sync})
    held = await disk.hold()
    others = [disk.push("held"), disk.push("held", "new")]
    await until(lambda: disk.queued == 3)
    disk.fs.fail("sync", persistent=True)
    disk.ended.set()

    for push in (held, *others):
        with pytest.raises(LogFailed):
            await push
    await disk.bench.close()
