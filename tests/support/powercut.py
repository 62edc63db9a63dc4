"""Lives on a loop device that end with a power cut; see `cuts` for the cut, `oracle` for the
verdict. Used by the power-cut rig and by the mutants that it must catch."""

from __future__ import annotations

import random
import shutil
import threading
from typing import Any

import penstock
from penstock import Settings
from penstock.engine.fsck import check
from tests.support import cuts
from tests.support.oracle import Oracle
from tests.support.zygote import Zygote

LIVES_PER_DIRECTORY = 25
WRITING_S_MAX = 0.060
SYNCS_MAX = 60


class PowerCuts:
    """One disk, one log after another on it, many lives in each.

    Most lives end with a cut: at a random instant, or right before or after a random sync. Some
    end with a plain kill or a clean close, because what a cut finds depends on what came before.
    """

    def __init__(
        self, disk: cuts.LoopDisk, zygote: Zygote, seed: str, *, mutant: str | None = None
    ) -> None:
        self.oracle = Oracle()
        self.cuts = 0
        self._disk = disk
        self._zygote = zygote
        self._seed = seed
        self._mutant = mutant
        self._choose = random.Random(seed)
        self._boot = 1
        self._life = 0
        self._path = disk.mount_point / "log"
        self._settings: dict[str, Any] = {}

    def one(self) -> None:
        choose = self._choose
        if self._life % LIVES_PER_DIRECTORY == 0:
            self._start_afresh()
        self._life += 1
        draw = choose.random()
        if draw < 0.1:
            self._live(close_after_s=choose.uniform(0.001, WRITING_S_MAX))
            self._look(power_cut=False)
        elif draw < 0.2:
            self._live(kill_after_s=choose.uniform(0, WRITING_S_MAX))
            self._look(power_cut=False)
        else:
            flags = choose.choice((cuts.FLUSH_JOURNAL, cuts.FLUSH_NOTHING))
            if choose.random() < 0.05:
                flags = cuts.FLUSH_ALL
            nth = 0 if choose.random() < 0.4 else choose.randrange(1, SYNCS_MAX)
            when = choose.choice(("before", "after"))
            self._cut(flags, nth, when)
            self._look(power_cut=True)

    def _start_afresh(self) -> None:
        # A new name each time: a cut may undo the removal of the old directory.
        shutil.rmtree(self._path, ignore_errors=True)
        self._path = self._disk.mount_point / f"log-{self._life}"
        counts = self.oracle.counts
        self.oracle = Oracle()
        self.oracle.counts = counts
        choose = self._choose
        self._settings = {
            "wal_shards": choose.choice((1, 2)),
            "wal_file_bytes": choose.choice((8, 16, 64)) << 10,
            "checkpoint_wal_bytes": choose.choice((4, 16, 64)) << 10,
            "segment_max_events": choose.choice((8, 40, 200)),
            "upkeep_interval_ms": choose.choice((1, 4, 10)),
            "sync_tick_ms": choose.choice((5, 50)),
        }

    def _order(self) -> dict[str, Any]:
        return {
            "path": str(self._path),
            "seed": self._seed,
            "life": self._life,
            "settings": self._settings,
            "boot": self._boot,
            "mutant": self._mutant,
        }

    def _live(self, *, close_after_s: float | None = None, kill_after_s: float = 0.0) -> None:
        child = self._zygote.spawn("write", {**self._order(), "close_after_s": close_after_s})
        if close_after_s is not None:
            child.wait_for("closed")
        elif child.wait_for("ready"):
            self._wait(kill_after_s)
        child.kill()
        self.oracle.hear(child.end()[1])

    def _wait(self, seconds: float) -> None:
        threading.Event().wait(seconds)

    def _cut(self, flags: int, nth: int, when: cuts.When) -> None:
        """Take the power away: from inside at the nth sync, or from here after a while."""
        mount = str(self._disk.mount_point)
        cut = {"mount": mount, "nth": nth, "flags": flags, "when": when}
        child = self._zygote.spawn("write", {**self._order(), "cut": cut})
        if nth:
            child.wait_for("the end")  # it dies by itself
        else:
            child.wait_for("ready")
            self._wait(self._choose.uniform(0, WRITING_S_MAX))
            cuts.shut_down(mount, flags)
            child.kill()
        _, said = child.end()
        self._disk.after_cut()
        self._boot += 1
        self.cuts += 1
        self.oracle.hear(said)

    def _look(self, *, power_cut: bool) -> None:
        settings = Settings(**{**self._settings, "background": False})
        fs = cuts.CutFilesystem(self._boot)
        try:
            with penstock.open(self._path, settings=settings, fs=fs) as log:
                self.oracle.judge(log, power_cut=power_cut)
                if self._choose.random() < 0.3:
                    self.oracle.retry(log)
        except penstock.PenstockError as error:
            self.oracle.violations.append(f"the log does not open: {error!r}")
            return
        checked = check(fs, str(self._path))
        # A mark that the cut has torn is no loss: it claims nothing, and is written again.
        serious = [problem for problem in checked.problems if problem.kind != "derived"]
        self.oracle.violations += [f"fsck: {problem}" for problem in serious]
