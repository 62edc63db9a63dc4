"""R16: through a network that cuts, delays, repeats and swallows, each record arrives exactly once
and in its producer's order."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults import rough
from tests.faults.rough_async import by_async_client
from tests.support import rig

APPENDS = 10_000 if rig.IS_FULL else 1_200
RESETS_MIN = 1_000 if rig.IS_FULL else 120


RUNS: dict[str, Callable[[Path, int, int], rough.Outcome]] = {
    "raw": rough.raw,
    "client": rough.by_client,
    "async-client": by_async_client,
}


@pytest.mark.parametrize("name", RUNS)
def test_appends_through_a_rough_network_arrive_exactly_once(
    name: str, tmp_path: Path, report: rig.Report
) -> None:
    home = rig.on_disk(tmp_path, "rough")
    seed = rig.new_seed()
    started = time.monotonic()

    outcome = RUNS[name](home, seed, APPENDS)

    report(f"R16 {name}: seed {seed}, {outcome}, {time.monotonic() - started:.0f} s")
    anomalies = outcome.history.anomalies
    assert len(outcome.history.writes) == APPENDS
    assert outcome.proxy.resets >= RESETS_MIN
    assert not anomalies, f"seed {seed}\n" + "\n".join(anomalies[:20])


def test_a_server_that_ignores_keys_is_caught(tmp_path: Path, report: rig.Report) -> None:
    home = rig.on_disk(tmp_path, "rough")
    seed = rig.new_seed()

    outcome = rough.raw(home, seed, 800, mutant="keys-ignored")

    kinds = {anomaly.partition(":")[0] for anomaly in outcome.history.anomalies}
    assert "duplicated" in kinds, f"seed {seed}: keys-ignored survived {outcome}"
    report(f"R16 keys-ignored: seed {seed}, caught: {outcome.history.anomalies[0][:100]}")
