"""R4: a power cut takes nothing that was synced, and tells of everything it took."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support import cuts, rig
from tests.support.powercut import PowerCuts
from tests.support.zygote import Zygote

CUTS = 2_000 if rig.IS_FULL else 80
LANES = 2

pytestmark = pytest.mark.root


class Lane:
    """A thread with a disk of its own. Stops at the first violation."""

    def __init__(self, home: Path, seed: str, wanted: int) -> None:
        self.cuts = 0
        self.counts: Counter[str] = Counter()
        self.violations: list[str] = []
        self._home = home
        self._seed = seed
        self._wanted = wanted

    def run(self) -> None:
        with cuts.LoopDisk(self._home) as disk, Zygote() as zygote:
            lives = PowerCuts(disk, zygote, self._seed)
            while lives.cuts < self._wanted and not lives.oracle.violations:
                lives.one()
            self.violations = lives.oracle.violations
            self.counts = lives.oracle.counts
            self.cuts = lives.cuts
            disk.unmount()
            complaint = disk.fsck()
            if complaint:
                self.violations.append(f"fsck: {complaint}")


def test_power_cut_takes_nothing_that_was_synced(tmp_path: Path, report: rig.Report) -> None:
    home = rig.on_disk(tmp_path, "cut")
    seed = rig.new_seed()
    lanes = [Lane(home / str(n), f"{seed}.{n}", CUTS // LANES) for n in range(LANES)]
    started = time.monotonic()

    with ThreadPoolExecutor(LANES) as pool:
        for done in [pool.submit(lane.run) for lane in lanes]:
            done.result()

    counts = sum((lane.counts for lane in lanes), Counter())
    violations = [text for lane in lanes for text in lane.violations]
    figures = ", ".join(f"{counts[name]} {name}" for name in sorted(counts))
    report(
        f"R4 power cuts: seed {seed}, {sum(lane.cuts for lane in lanes)} cuts, "
        f"{len(violations)} violations, {figures}, {time.monotonic() - started:.0f} s"
    )
    assert not violations, f"seed {seed}\n" + "\n".join(violations)
