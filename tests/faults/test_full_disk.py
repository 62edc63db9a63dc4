"""R8 over HTTP: a full disk is said, reads go on, and nothing acknowledged is lost."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.faults.full import MIB, WRITERS, FullDisk
from tests.support import rig

pytestmark = pytest.mark.root

MUTANT_TRIES = 4


@pytest.mark.parametrize(
    ("first", "end"),
    [
        ("upkeep", "stop"),
        ("wal", "kill"),
        pytest.param("upkeep", "kill", marks=pytest.mark.crash),
        pytest.param("wal", "stop", marks=pytest.mark.crash),
    ],
)
def test_a_full_disk_is_said_and_loses_nothing(
    first: str, end: str, tmp_path: Path, report: rig.Report
) -> None:
    home = rig.on_disk(tmp_path, "full")
    seed = rig.new_seed()
    started = time.monotonic()

    found = FullDisk(home, seed, first).run(kills=end == "kill")

    anomalies = found.history.anomalies
    report(
        f"R8 full disk met by {first}, then {end}: seed {seed}, "
        f"{found.acked_bytes // MIB} MiB acknowledged, {found.refusals} writers answered 507, "
        f"health {found.health}, {found.repeated} repeated, "
        f"{len(anomalies)} anomalies, {time.monotonic() - started:.0f} s"
    )
    assert not anomalies, f"seed {seed}\n" + "\n".join(anomalies[:20])
    assert found.refusals == WRITERS
    assert set(found.later) == {507}
    assert found.health == 507
    assert found.health_after == 200


def test_a_server_that_shrugs_at_a_full_disk_is_caught(tmp_path: Path, report: rig.Report) -> None:
    home = rig.on_disk(tmp_path, "full")
    for seed in rig.new_seeds(MUTANT_TRIES):
        disk = FullDisk(home / str(seed), seed, "wal", mutant="full-disk-shrugged-off")
        try:
            anomalies = disk.run(kills=True).history.anomalies
        except AssertionError as error:  # what is left of the log cannot be read
            anomalies = [str(error)]
        if anomalies:
            break

    assert anomalies, f"seed {seed}: survived {disk.outcome}"
    report(f"R8 full-disk-shrugged-off: seed {seed}, caught: {anomalies[0][:100]}")
