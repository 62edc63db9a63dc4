"""A server under sixteen writers and five readers that is killed again and again.

One data directory and its history: `Siege.run` puts everything into it, `judge` says what is
wrong. Between kills some lives end in order, some are killed while they recover, and now and then
the writers hold still until every reader has everything.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

from tests.faults.exchange import Link
from tests.faults.readers import DiffReader, Reader, five
from tests.faults.site import PAUSE_S, Site, until
from tests.faults.victim import DEADLINE_S, Victim
from tests.faults.writers import HttpSender, Writer, sixteen
from tests.support.history import ACKED

FINAL = "final"
LIFE_S_MAX = 0.6
START_S_MAX = 0.2
REPEATS = 12  # acknowledged writes that are sent again after a restart
QUIET_DEADLINE_S = DEADLINE_S  # for readers to come to the end when nobody writes

TOPICS: dict[str, dict[str, Any]] = {
    "fsync-0": {"durability": "fsync"},
    "fsync-1": {"durability": "fsync"},
    "disk-0": {"durability": "disk"},
    "disk-1": {"durability": "disk"},
    "disk-2": {"durability": "disk"},
    "capped": {"durability": "disk", "cap_records": 300},
}


def small_settings(choose: random.Random) -> dict[str, object]:
    """So small that rotation, sealing and checkpoints happen all the time."""
    return {
        "PENSTOCK_WAL_SHARDS": choose.choice((1, 2, 3)),
        "PENSTOCK_WAL_FILE_BYTES": choose.choice((64, 256, 1024)) << 10,
        "PENSTOCK_CHECKPOINT_WAL_BYTES": choose.choice((32, 128, 512)) << 10,
        "PENSTOCK_SEGMENT_MAX_EVENTS": choose.choice((50, 400, 4000)),
        "PENSTOCK_UPKEEP_INTERVAL_MS": choose.choice((5, 20, 100)),
        "PENSTOCK_SYNC_TICK_MS": choose.choice((2, 10, 50)),
    }


class Siege:
    """Stops at the first anomaly that shows before the end."""

    def __init__(
        self,
        home: Path,
        seed: str,
        *,
        mutant: str | None = None,
        quiet_s: float = QUIET_DEADLINE_S,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._seed = seed
        self._quiet_s = quiet_s
        self._choose = random.Random(seed)
        self._victim = Victim(home, mutant=mutant)
        self._site = Site(self._victim.find_address, list(TOPICS))
        self._readers: list[Reader] = []

    @property
    def anomalies(self) -> list[str]:
        return self._site.history.anomalies

    async def run(self, kills: int) -> list[str]:
        """The verdict over `kills` kills."""
        site, choose = self._site, self._choose
        self._readers = five(site, self._seed)
        with self._victim as victim:
            async with asyncio.TaskGroup() as tasks:
                await self._start()
                await self._create_topics()
                works = [work.run() for work in (*sixteen(site, self._seed), *self._readers)]
                under_way = [tasks.create_task(work) for work in works]
                site.is_open.set()
                while self.counts["kills"] < kills and not self.anomalies:
                    await self._live()
                    await self._end(choose.random())
                if victim.find_address() is None:
                    await self._start()
                if not self.anomalies:
                    await self._hold_still()
                for task in under_way:
                    task.cancel()
            heads = await DiffReader(site, FINAL, is_binary=False).read_all()
            self._count(heads)
        return site.history.judge(FINAL)

    # One life.

    async def _start(self) -> None:
        self._victim.configure(small_settings(self._choose))
        self._victim.spawn()
        async with asyncio.timeout(DEADLINE_S):
            while True:
                if await asyncio.to_thread(self._victim.is_ready):
                    return
                await asyncio.sleep(PAUSE_S)

    async def _live(self) -> None:
        """Up to the moment at which it ends."""
        choose, victim = self._choose, self._victim
        if victim.find_address() is None:
            if choose.random() < 0.15:  # recovery is killed, too
                victim.configure(small_settings(choose))
                victim.spawn()
                await asyncio.sleep(choose.uniform(0, START_S_MAX))
                self.counts["kills of a start"] += 1
                return
            await self._start()
            await self._repeat_some()
        await asyncio.sleep(choose.uniform(0.01, LIFE_S_MAX))
        if choose.random() < 0.3:
            await self._hold_still()

    async def _end(self, draw: float) -> None:
        victim = self._victim
        if victim.exit_code is not None:
            self._site.wrong(f"ended: by itself with {victim.exit_code}\n{victim.said()}")
        if draw < 0.08 and victim.find_address() is not None:
            code = await asyncio.to_thread(victim.stop)
            self.counts["stops"] += 1
            if code != 0:
                self._site.wrong(f"ended: with {code} when asked to stop\n{victim.said()}")
        else:
            await asyncio.to_thread(victim.kill)
            self.counts["kills"] += 1

    async def _create_topics(self) -> None:
        link = await Link.open(self._victim.address)
        for name, config in TOPICS.items():
            headers = {"Content-Type": "application/json"}
            body = json.dumps(config).encode()
            reply = await link.request("PUT", f"/v0/topics/{name}", body, headers)
            if reply.status != 201:
                raise AssertionError(f"a topic was answered {reply}")
        link.abort()

    # What is looked at in between.

    async def _repeat_some(self) -> None:
        """A key is remembered over the restart: the same write gets its first answer again."""
        acked = [
            write
            for write in self._site.history.writes[-2000:]
            if write.outcome == ACKED and write.key and not write.is_part
        ]
        chosen = self._choose.sample(acked, min(REPEATS, len(acked)))
        for write in chosen:
            sender = HttpSender(self._choose, self._choose.choice(("json", "binary")))
            writer = Writer(self._site, write.producer, sender, "", has_keys=True)
            await writer.repeat(write)
        self.counts["repeats"] += len(chosen)

    async def _hold_still(self) -> None:
        """Nobody writes: every reader must come to the end, since each was woken."""
        site = self._site
        await site.quiet()
        names = [reader.name for reader in self._readers]
        heads = site.history.heads
        try:
            await until(lambda: not site.history.behind(names, heads), self._quiet_s)
        except TimeoutError:
            site.wrong("asleep: " + "; ".join(site.history.behind(names, heads)))
        self.counts["rests"] += 1
        site.is_open.set()

    def _count(self, heads: dict[str, int]) -> None:
        history = self._site.history
        self.counts["records"] = sum(heads.values())
        self.counts["writes"] = len(history.writes)
        self.counts["unknown"] = sum(write.outcome != ACKED for write in history.writes)
        self.counts.update(history.counts)
