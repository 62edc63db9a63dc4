"""R1: kill -9 at any instant loses nothing acknowledged, repeats nothing, and opens again."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import Settings
from tests.support import mutants, rig  # noqa: F401
from tests.support.oracle import Oracle
from tests.support.zygote import Zygote

KILLS = 10_000 if rig.IS_FULL else 2_000
SHARES = 2  # so that two processors can take one each
KILLS_PER_DIRECTORY = 50
WRITING_S_MAX = 0.030
OPENING_S_MAX = 0.020


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

    def one(self) -> None:
        """A process opens the log, writes, and is killed; then the log is read."""
        choose = self._choose
        self._life += 1
        if choose.random() < 0.1:  # any shard count reads what any other wrote
            self._settings["wal_shards"] = choose.choice((1, 2, 3))
        closes = choose.random() < 0.04
        child = self._zygote.spawn(
            "write",
            {
                "path": str(self._path),
                "seed": self._seed,
                "life": self._life,
                "settings": self._settings,
                "close_after_s": choose.uniform(0.001, WRITING_S_MAX) if closes else None,
            },
        )
        if closes:
            child.wait_for("closed")
        elif choose.random() < 0.2:  # while it opens, so that recovery is killed too
            time.sleep(choose.uniform(0, OPENING_S_MAX))
        else:
            child.wait_for("ready")
            time.sleep(choose.uniform(0, WRITING_S_MAX))
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
                if self._choose.random() < 0.3:
                    self.oracle.retry(log)
        except penstock.PenstockError as error:
            self.oracle.violations.append(f"the log does not open: {error!r}")


@pytest.mark.parametrize("share", range(SHARES))
def test_kill_at_any_instant_loses_nothing(share: int, tmp_path: Path, report: rig.Report) -> None:
    home = rig.on_disk(tmp_path, "kill")
    seed = rig.new_seed()
    wanted = KILLS // SHARES
    kills = acked = found = vanished = retried = 0
    started = time.monotonic()
    with Zygote() as zygote:
        while kills < wanted:
            directory = home / f"log-{kills}"
            lives = Lives(zygote, directory, f"{seed}.{share}.{kills}")
            oracle = lives.oracle
            for _ in range(min(KILLS_PER_DIRECTORY, wanted - kills)):
                lives.one()
                kills += 1
                assert not oracle.violations, (
                    f"seed {seed}, kill {kills}, {directory}: " + "\n".join(oracle.violations)
                )
            acked += oracle.acked_records
            found += oracle.unacked_found
            vanished += oracle.unacked_vanished
            retried += oracle.retried
            shutil.rmtree(directory)
    took_s = time.monotonic() - started
    report(
        f"R1 kill -9, share {share}: seed {seed}, {kills} kills, {acked} acked records, 0 lost; "
        f"unanswered appends: {found} found, {vanished} vanished, {retried} retried by key; "
        f"{took_s:.0f} s"
    )
