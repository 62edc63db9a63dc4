"""Queues over a server need none of its threads: their commits are answered on the loop."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from penstock.engine.queues import Claimer
from penstock.server.service import _THREADS
from tests.unit.server.bench import threaded_log
from tests.unit.server.support import Answer, Site, on_loop, until

LEASE_MS = 86_400_000  # no lease ends while a busy machine keeps a test waiting


class BusySite:
    """A server with every one of its threads taken, and a queue."""

    def __init__(self, **config: Any) -> None:
        self._end = threading.Event()
        self.site = Site()
        self.site.log.close()
        self.site.log = threaded_log()
        self.site.log.create("q", type="queue", **config)
        self.site.log.append("q", list(range(10)))
        self.site.service.adopt(self.site.log.core)

    async def __aenter__(self) -> BusySite:
        self._taken = [
            asyncio.ensure_future(self.site.service.run(self._end.wait)) for _ in range(_THREADS)
        ]
        await until(lambda: self.site.service._running == _THREADS)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._end.set()
        await asyncio.gather(*self._taken)
        await self.site.close()

    async def post(self, verb: str, **body: Any) -> Answer:
        return await self.site.call("POST", f"/v0/topics/q/{verb}", {"node": "ann"} | body)


@pytest.mark.parametrize("durability", ["ephemeral", "memory", "disk", "fsync"])
@pytest.mark.parametrize("leases_durable", [False, True])
@on_loop
async def test_no_verb_of_a_queue_needs_a_thread(durability: str, leases_durable: bool) -> None:
    async with BusySite(durability=durability, leases_durable=leases_durable) as busy:
        claimed = await busy.post("claim", max=4, lease_ms=LEASE_MS)
        acked = await busy.post("ack", seqs=[1, 2])
        nacked = await busy.post("nack", seqs=[3])
        extended = await busy.post("extend", seqs=[4, 5], lease_ms=LEASE_MS)

    assert [job["$seq"] for job in claimed.json["claimed"]] == [1, 2, 3, 4]
    assert (acked.json["acked"], nacked.json["nacked"], extended.json["extended"]) == (2, 1, 1)
    assert extended.json["skipped"] == [5]


@on_loop
async def test_a_cohort_needs_no_thread() -> None:
    async with BusySite(claim_jitter_ms=50) as busy:
        answers = await asyncio.gather(*(busy.post("claim", max=5) for _ in range(2)))

    found = [job["$seq"] for answer in answers for job in answer.json["claimed"]]
    assert sorted(found) == list(range(1, 11))


@on_loop
async def test_jobs_in_a_file_wait_for_a_thread() -> None:
    busy = BusySite()
    busy.site.log.compact()
    async with busy:
        waiting = asyncio.ensure_future(busy.post("claim", max=4))
        await until(lambda: busy.site.service._running == _THREADS + 1)
        was_done = waiting.done()
        busy._end.set()
        claimed = await waiting

    assert not was_done
    assert [job["$seq"] for job in claimed.json["claimed"]] == [1, 2, 3, 4]


@on_loop
async def test_a_claimer_that_went_away_leaves_its_cohort_to_the_others() -> None:
    async with BusySite(claim_jitter_ms=50) as busy:
        claims = busy.site.server._claims
        handle = busy.site.handle("q")
        from_both = [
            asyncio.ensure_future(claims.claim(handle, claimer))
            for claimer in (Claimer("gone", 2), Claimer("here", 2))
        ]
        await asyncio.sleep(0)
        from_both[0].cancel()
        claimed = await from_both[1]

    assert claimed.jobs
    assert from_both[0].cancelled()
