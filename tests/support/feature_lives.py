"""Lives of a process that pushes events to feature tables, each ended by a kill or a power cut.

The verdict is told by what the process said: see `feature_worker`. What one reading found is on
disk, because opening a log syncs what it shows; every later one must find it, too.
"""

from __future__ import annotations

import gc
import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import penstock
from penstock import PenstockError, Settings
from penstock.engine.engine import Log
from penstock.features.store import DEDUPE, PART, FeatureStore
from penstock.projections import checkpoint
from penstock.storage.fs import OsFilesystem
from tests.support import cuts, feature_judge, feature_plans
from tests.support.zygote import Child, Zygote

ROLE = "tests.support.feature_worker"
LIVES_PER_DIRECTORY = 10
WRITING_S_MAX = 0.15
SYNCS_MAX = 40
ROWS_SHARE = 0.2


@dataclass(slots=True)
class Known:
    """What is known of one topic."""

    alive: dict[int, str] = field(default_factory=dict)  # by seq: seen in an earlier reading
    head: int = 0  # at the start of this life
    next: int = 0  # no event with this number or a higher one was pushed
    # Of this life:
    acked: set[int] = field(default_factory=set)  # numbers
    safe: set[int] = field(default_factory=set)  # numbers of pushes that were synced
    seqs: set[int] = field(default_factory=set)  # that were given to acknowledged events
    synced: int = 0


class FeatureLives:
    """One directory after another, with several lives in each. `disk` is what the power is taken
    from; without one every life ends with a kill."""

    def __init__(
        self,
        zygote: Zygote,
        home: Path,
        seed: str,
        *,
        disk: cuts.LoopDisk | None = None,
        mutant: str | None = None,
    ) -> None:
        self.violations: list[str] = []
        self.counts: Counter[str] = Counter()
        self.life = 0
        self._zygote = zygote
        self._home = home
        self._seed = seed
        self._disk = disk
        self._mutant = mutant
        self._choose = Random(seed)
        self._boot = 1
        self._path = home
        self._settings: dict[str, Any] = {}
        self._known: dict[str, Known] = {}

    def one(self) -> None:
        """One life, and the look at what it left."""
        if self.life % LIVES_PER_DIRECTORY == 0:
            self._start_afresh()
        self.life += 1
        for known in self._known.values():
            known.acked, known.safe, known.seqs, known.synced = set(), set(), set(), 0
        if self._disk is None:
            child = self._spawn()
            self._let_work(child)
            child.kill()
            self._end(child)
            self._look(is_cut=False)
        else:
            self._cut(self._disk)
            self._look(is_cut=True)
            gc.collect()  # a closed log in a cycle holds unnamed files: the disk would be busy

    def _start_afresh(self) -> None:
        # A new name each time: a cut may undo the removal of the old directory.
        self._path = self._home / f"log-{self.life}"
        self._known = {event: Known() for event in feature_plans.EVENTS}
        choose = self._choose
        self._settings = {
            "wal_file_bytes": choose.choice((64, 256)) << 10,
            "checkpoint_wal_bytes": choose.choice((16, 128)) << 10,
            "segment_max_events": choose.choice((40, 400)),
            "upkeep_interval_ms": choose.choice((1, 10)),
            "sync_tick_ms": choose.choice((5, 50)),
            "projection_interval_ms": choose.choice((1, 20, 100)),
        }

    # Dying.

    def _spawn(self, **more: Any) -> Child:
        order = {
            "path": str(self._path),
            "seed": self._seed,
            "life": self.life,
            "settings": self._settings,
            "next": {event: known.next for event, known in self._known.items()},
            "mutant": self._mutant,
        }
        if self._disk is not None:
            order["boot"] = self._boot
        return self._zygote.spawn(ROLE, {**order, **more})

    def _let_work(self, child: Child) -> None:
        """Sometimes it does not even come to begin."""
        if self._choose.random() > 0.1:
            child.wait_for("pushed" if self._choose.random() < 0.8 else "ready")
        threading.Event().wait(self._choose.uniform(0, WRITING_S_MAX))

    def _cut(self, disk: cuts.LoopDisk) -> None:
        """Take the power away: from inside at the nth sync, or from here after a while."""
        choose = self._choose
        flags = choose.choice((cuts.FLUSH_JOURNAL, cuts.FLUSH_NOTHING))
        nth = 0 if choose.random() < 0.6 else choose.randrange(1, SYNCS_MAX)
        mount = str(disk.mount_point)
        when = choose.choice(("before", "after"))
        child = self._spawn(cut={"mount": mount, "nth": nth, "flags": flags, "when": when})
        if nth:
            child.wait_for("the end")  # it dies by itself
        else:
            self._let_work(child)
            cuts.shut_down(mount, flags)
            child.kill()
        self._end(child)
        disk.after_cut()
        self._boot += 1

    def _end(self, child: Child) -> None:
        code, said = child.end()
        self._hear(said)
        if code not in (-9, 3):
            self.violations.append(f"the process ended by itself with {code}")

    def _hear(self, messages: Iterable[list[Any]]) -> None:
        for kind, *rest in messages:
            if kind == "failed":
                self.violations.append(f"the process failed: {rest[0]}")
            elif kind == "synced":
                known = self._known[rest[0]]
                known.synced = max(known.synced, rest[1])
            elif kind == "push":
                known = self._known[rest[0]]
                known.next = max(known.next, rest[2])
            elif kind == "pushed":
                event, first, stop, is_safe, first_seq, last_seq = rest
                known, numbers = self._known[event], range(first, stop)
                known.acked.update(numbers)
                known.safe.update(numbers if is_safe else ())
                known.seqs.update(range(first_seq, last_seq + 1))
                self.counts["acknowledged pushes"] += 1

    # Judging.

    def _look(self, *, is_cut: bool) -> None:
        fs = OsFilesystem() if self._disk is None else cuts.CutFilesystem(self._boot)
        for file in sorted(self._path.glob("projections/*/state.bin")):
            if why := checkpoint.check(OsFilesystem(), str(file)):
                self.violations.append(f"{file.name} is damaged: {why}")
        settings = Settings(**{**self._settings, "background": False})
        try:
            with (
                feature_plans.small_memory(),
                penstock.open(self._path, settings=settings, fs=fs) as log,
            ):
                self._judge(log, is_cut=is_cut)
        except PenstockError as error:
            self.violations.append(f"the log does not open: {error!r}")
        if self.violations:
            self.violations.append(f"life {self.life} in {self._path}, {self._settings}")

    def _judge(self, log: Log, *, is_cut: bool) -> None:
        for error in log.damage:
            self.violations.append(f"damage: {error}")
        for event, topic in feature_plans.EVENTS.items():
            self._judge_records(log, event, topic, is_cut=is_cut)
        store: FeatureStore = log.core.features.store
        if store.version == 0:
            if any(known.acked for known in self._known.values()):
                self.violations.append("the registration is lost")
            return
        for held in (*log.projections.all(PART), *log.projections.all(DEDUPE)):
            held.runner.restore()
            self.counts["states from a file"] += held.runner.applied is not None
            if held.runner.counts.discarded:
                why = held.runner.counts.discard_reason
                self.violations.append(f"a state was thrown away: {why}")
        self.violations += feature_judge.judge_projections(log, store)
        if self._choose.random() < ROWS_SHARE:
            self.violations += feature_judge.judge_rows(store)

    def _judge_records(self, log: Log, event: str, topic: str, *, is_cut: bool) -> None:
        known, found = self._known[event], feature_judge.ids_of(log, topic)
        wrong = feature_judge.judge_ids(found.values(), topic)
        if gone := known.alive.items() - found.items():
            wrong.append(f"{topic}: {sorted(gone)[:5]} were there before and are lost")
        if gone := set(range(known.head + 1, known.synced + 1)) - found.keys():
            wrong.append(f"{topic}: seqs {sorted(gone)[:5]} were synced and are lost")
        numbers = {int(one[len(event) :]) for one in found.values()}
        if missing := (known.safe if is_cut else known.acked) - numbers:
            wrong.append(f"{topic}: {sorted(missing)[:5]} were acknowledged and are lost")
        self.counts["unsynced events lost"] += len(known.acked - numbers)
        lost = known.seqs - found.keys()
        if lost and max(found, default=0) > min(lost):
            wrong.append(f"{topic}: seq {min(lost)} is lost, and {max(found)} behind it is not")
        self.violations += wrong
        known.alive = found
        known.head = next((t.head_seq for t in log.topics() if t.name == topic), 0)
