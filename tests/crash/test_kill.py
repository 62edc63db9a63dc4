"""R1: kill -9 at any instant loses nothing acknowledged, repeats nothing, and opens again."""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import penstock
from penstock import Settings
from tests.support import rig
from tests.support.oracle import Oracle
from tests.support.zygote import Zygote

KILLS = 10_000 if rig.IS_FULL else 120
LANES = 4  # directories in use at a time: while one process dies, another one writes
KILLS_PER_DIRECTORY = 50
OPENING_S_MAX = 0.030
WRITING_S_MAX = 0.030
WRITING_S_LONG = 0.150  # now and then, so that checkpoints come to their end


def small_settings(choose: random.Random) -> dict[str, Any]:
    """Everything so small that rotation, sealing and checkpoints happen within milliseconds."""
    return {
        "wal_shards": choose.choice((1, 2, 3)),
        "wal_file_bytes": choose.choice((8, 16, 64)) << 10,
        "checkpoint_wal_bytes": choose.choice((4, 16, 64)) << 10,
        "segment_max_events": choose.choice((8, 40, 200)),
        "upkeep_interval_ms": choose.choice((1, 4, 10)),
        "sync_tick_ms": choose.choice((1, 5, 50)),
    }


class Lives:
    """One data directory and the processes that live and die in it."""

    def __init__(self, zygote: Zygote, home: Path, seed: str) -> None:
        self.oracle = Oracle()
        self._zygote = zygote
        self._path = home
        self._seed = seed
        self._choose = random.Random(seed)
        self._settings = small_settings(self._choose)
        self._life = 0
        self.snapshots = 0

    def one(self) -> None:
        """A process opens the log, writes, and is killed; then the log is read."""
        choose = self._choose
        self._life += 1
        if choose.random() < 0.1:  # any shard count reads what any other wrote
            self._settings["wal_shards"] = choose.choice((1, 2, 3))
        closes = choose.random() < 0.04
        writing_s = choose.uniform(0, WRITING_S_LONG if choose.random() < 0.2 else WRITING_S_MAX)
        child = self._zygote.spawn(
            "write",
            {
                "path": str(self._path),
                "seed": self._seed,
                "life": self._life,
                "settings": self._settings,
                "close_after_s": writing_s + 0.001 if closes else None,
            },
        )
        if closes:
            child.wait_for("closed")
        elif choose.random() < 0.2:  # while it opens, so that recovery is killed too
            time.sleep(choose.uniform(0, OPENING_S_MAX))
        else:
            child.wait_for("ready")
            time.sleep(writing_s)
        child.kill()
        code, said = child.end()
        self.oracle.hear(said)
        if code not in (-9, 0):
            self.oracle.violations.append(f"the process ended by itself with {code}")
        self._look()

    def _look(self) -> None:
        settings = Settings(**{**self._settings, "background": False})
        try:
            with penstock.open(self._path, settings=settings) as log:
                self.oracle.judge(log)
                self.snapshots = log.recovery.snapshot_number
                if self._choose.random() < 0.3:
                    self.oracle.retry(log)
        except penstock.PenstockError as error:
            self.oracle.violations.append(f"the log does not open: {error!r}")


class Lane:
    """A thread's worth of kills, one directory after another. Stops at the first violation."""

    def __init__(self, home: Path, seed: str, kills: int) -> None:
        self.kills = 0
        self.counts: Counter[str] = Counter()
        self.violations: list[str] = []
        self._home = home
        self._seed = seed
        self._wanted = kills

    def run(self) -> None:
        with Zygote() as zygote:
            while self.kills < self._wanted and not self.violations:
                self._use(zygote, self._home / f"log-{self.kills}")

    def _use(self, zygote: Zygote, directory: Path) -> None:
        seed = f"{self._seed}.{self.kills}"
        lives = Lives(zygote, directory, seed)
        oracle = lives.oracle
        for _ in range(min(KILLS_PER_DIRECTORY, self._wanted - self.kills)):
            lives.one()
            self.kills += 1
            if oracle.violations:
                self.violations = [f"{directory}, seed {seed}:", *oracle.violations]
                return
        self.counts += oracle.counts
        self.counts["snapshots"] += lives.snapshots
        shutil.rmtree(directory)


def test_kill_at_any_instant_loses_nothing(tmp_path: Path, report: rig.Report) -> None:
    home = rig.on_disk(tmp_path, "kill")
    seed = rig.new_seed()
    lanes = [Lane(home / str(n), f"{seed}.{n}", KILLS // LANES) for n in range(LANES)]
    started = time.monotonic()

    with ThreadPoolExecutor(LANES) as pool:
        for done in [pool.submit(lane.run) for lane in lanes]:
            done.result()

    kills = sum(lane.kills for lane in lanes)
    counts = sum((lane.counts for lane in lanes), Counter())
    violations = [text for lane in lanes for text in lane.violations]
    figures = ", ".join(f"{counts[name]} {name}" for name in sorted(counts))
    report(
        f"R1 kill -9: seed {seed}, {kills} kills, {len(violations)} violations, {figures}, "
        f"{time.monotonic() - started:.0f} s"
    )
    assert not violations, f"seed {seed}\n" + "\n".join(violations)
