"""A server whose disk runs full for real: a small file system on a loop device.

One run: writers until each was told that nothing can be written; then what still works; then
space, a restart, and everything that was acknowledged.
"""

from __future__ import annotations

import asyncio
import http.client
import os
import random
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.exchange import linked
from tests.faults.readers import DiffReader
from tests.faults.site import Site
from tests.faults.victim import DEADLINE_S, Victim
from tests.faults.writers import Full, HttpSender, Writer
from tests.support.cuts import LoopDisk
from tests.support.history import ACKED, History

KIB, MIB = 1 << 10, 1 << 20
BALLAST_BYTES = 48 * MIB  # what is freed later: the next checkpoint needs room for all there is
BULK_BYTES = 15 * KIB  # per record
WRITERS = 6
WRITES_MAX = 600  # of each writer: together far more than fits
TOPICS = {"fsync-0": "fsync", "fsync-1": "fsync", "disk-0": "disk", "disk-1": "disk"}
DURING, FINAL = "during", "final"
# Who meets the full disk first: checkpoints, or the WAL that is never absorbed.
SETTINGS: dict[str, dict[str, object]] = {
    "upkeep": {
        "PENSTOCK_WAL_SHARDS": 2,
        "PENSTOCK_WAL_FILE_BYTES": 2 * MIB,
        "PENSTOCK_CHECKPOINT_WAL_BYTES": 4 * MIB,
        "PENSTOCK_SEGMENT_MAX_BYTES": 4 * MIB,
        "PENSTOCK_UPKEEP_INTERVAL_MS": 20,
    },
    "wal": {
        "PENSTOCK_WAL_SHARDS": 2,
        "PENSTOCK_WAL_FILE_BYTES": 2 * MIB,
        "PENSTOCK_CHECKPOINT_WAL_BYTES": 1024 * MIB,
        "PENSTOCK_SEGMENT_MAX_BYTES": 1024 * MIB,
    },
}


@dataclass
class Outcome:
    history: History = field(default_factory=History)
    acked_bytes: int = 0
    refusals: int = 0  # 507 to writers
    later: list[int] = field(default_factory=list)  # statuses of further writes while full
    health: int = 0
    health_after: int = 0
    repeated: int = 0


class FullDisk:
    """One file system, one server."""

    def __init__(self, home: Path, seed: int, first: str, *, mutant: str | None = None) -> None:
        self._home = home
        self._seed = seed
        self._settings = SETTINGS[first]
        self._mutant = mutant
        self.outcome = Outcome()

    def run(self, *, kills: bool) -> Outcome:
        """With a kill -9 as the end of the full server, or with SIGTERM."""
        with LoopDisk(self._home) as disk:
            ballast = disk.mount_point / "ballast"
            with open(ballast, "wb") as file:
                os.posix_fallocate(file.fileno(), 0, BALLAST_BYTES)
            victim = Victim(
                self._home / "rig",
                data_dir=disk.mount_point / "data",
                mutant=self._mutant,
                env=self._settings,
            )
            with victim.start():
                asyncio.run(self._fill(victim))
                if kills:
                    victim.kill()
                else:
                    victim.stop()
                ballast.unlink()
                victim.start()
                asyncio.run(self._resume(victim))
                self.outcome.health_after = health(victim)
                victim.stop()
        self.outcome.history.judge(FINAL)
        return self.outcome

    def _site(self, victim: Victim) -> Site:
        site = Site(victim.find_address, list(TOPICS))
        site.history = self.outcome.history
        site.is_open.set()
        return site

    def _writer(self, site: Site, number: int) -> Writer:
        sender = HttpSender(random.Random(f"{self._seed}.{number}"), "json", bulk=BULK_BYTES)
        name = f"w{number}"
        return Writer(site, name, sender, f"{self._seed}.{name}", has_keys=number % 2 == 0)

    async def _fill(self, victim: Victim) -> None:
        site, outcome = self._site(victim), self.outcome
        async with linked(victim.address) as link:
            for name, durability in TOPICS.items():
                body = f'{{"durability":"{durability}"}}'.encode()
                json_type = {"Content-Type": "application/json"}
                await link.request("PUT", f"/v0/topics/{name}", body, json_type)
        is_told = asyncio.Event()

        async def write(number: int) -> None:
            try:
                await self._writer(site, number).run_some(WRITES_MAX)
            except Full:
                outcome.refusals += 1
                is_told.set()

        async with asyncio.TaskGroup() as tasks:
            looking = tasks.create_task(self._look_at_health(victim, is_told))
            await asyncio.gather(*(write(number) for number in range(WRITERS)))
            if not is_told.is_set():
                looking.cancel()
        async with linked(victim.address) as link:
            for name in TOPICS:
                body = {"records": [{"data": 1}]}
                outcome.later.append((await link.post(f"/v0/topics/{name}", body)).status)
        await DiffReader(site, DURING, is_binary=False).read_all()

    async def _look_at_health(self, victim: Victim, is_told: asyncio.Event) -> None:
        """Once, right after the first writer was refused: no request later may say that all is
        well."""
        await is_told.wait()
        self.outcome.health = await asyncio.to_thread(health, victim)

    async def _resume(self, victim: Victim) -> None:
        """What was left unknown and has a key is sent again; more is written; all is read."""
        site = self._site(victim)
        for write in list(site.history.writes):
            if write.outcome != ACKED and write.key:
                await self._writer(site, int(write.producer[1:])).repeat(write)
                self.outcome.repeated += 1
        await self._writer(site, WRITERS).run_some(20)
        await DiffReader(site, FINAL, is_binary=False).read_all()
        records = sum(len(write.numbers) for write in site.history.writes if write.outcome == ACKED)
        self.outcome.acked_bytes = records * BULK_BYTES


def health(victim: Victim) -> int:
    link = http.client.HTTPConnection(*victim.address, timeout=DEADLINE_S)
    try:
        link.request("GET", "/v0/health")
        return link.getresponse().status
    finally:
        link.close()
