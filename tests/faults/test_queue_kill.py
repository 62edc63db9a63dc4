"""R18, killed: kill -9 of a server and of its workers loses no job, does none twice and forgets
neither who has one nor how often it was out."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support import rig
from tests.support.queue_rig import Producer, QueueRig

ROUNDS = 200 if rig.IS_FULL else 20
MUTANT_ROUNDS_MAX = 40
MUTANT_TRIES = 3
LIFE_S_MAX = 0.5
START_S_MAX = 0.2
LOOK_EVERY = 10  # rounds
NODES = ("twin", "twin", "single")  # two processes with one name: only leases tell them apart

LEASE_MS = 800
# Of mutants that take a job from somebody who still has it: a restart is over long before the
# lease is, on any machine.
LONG_LEASE_MS = 60_000


def queues(lease_ms: int) -> dict[str, dict[str, Any]]:
    common = {"durability": "fsync", "lease_ms": lease_ms, "max_deliveries": 1000}
    return {
        "brief": common | {"leases_durable": False, "dead_letter": "dead-brief"},
        "lasting": common | {"leases_durable": True, "dead_letter": "dead-lasting"},
    }


class Slaughter:
    """Rounds of: live a while, kill a worker and the server in either order, start both."""

    def __init__(
        self, home: Path, seed: int, *, mutant: str | None = None, lease_ms: int = LEASE_MS
    ) -> None:
        self.rig = QueueRig(home, str(seed), queues(lease_ms), NODES, mutant=mutant)
        self._seed = seed
        self._look_every = 1 if mutant else LOOK_EVERY
        self._pause = threading.Event()

    def run(self, rounds: int) -> list[str]:
        """What is wrong; of a mutant as soon as something is."""
        with self.rig as field:
            field.open()
            with Producer(field, f"{self._seed}.producer", 0.02) as producer:
                for number in range(1, rounds + 1):
                    self._round()
                    if number % self._look_every == 0 and (found := field.catch_up().judge()):
                        return found
                producer.stop()
            return field.drain()

    def _round(self) -> None:
        field = self.rig
        choose = field.choose
        self._pause.wait(choose.uniform(0.02, LIFE_S_MAX))
        victims = [self._end_server, self._end_worker]
        choose.shuffle(victims)
        for end in victims:
            end()
            self._pause.wait(choose.choice((0, 0, choose.uniform(0, 0.1))))
        if choose.random() < 0.15:  # recovery is killed, too
            field.victim.spawn()
            self._pause.wait(choose.uniform(0, START_S_MAX))
            field.victim.kill()
            field.counts["kills of a start"] += 1
        field.start()

    def _end_server(self) -> None:
        if self.rig.choose.random() < 0.1:
            code = self.rig.victim.stop()
            self.rig.counts["stops"] += 1
            assert code == 0, f"ended with {code}\n{self.rig.victim.said()}"
            return
        code_now = self.rig.victim.exit_code
        assert code_now is None, f"ended by itself with {code_now}\n{self.rig.victim.said()}"
        self.rig.victim.kill()
        self.rig.counts["kills"] += 1

    def _end_worker(self) -> None:
        name = self.rig.choose.choice(sorted(self.rig.workers))
        self.rig.end_worker(name)
        self.rig.counts["kills of a worker"] += 1
        self.rig.start_worker(name)


@pytest.mark.timeout(3600)
def test_kills_under_work_lose_no_job_and_do_none_twice(tmp_path: Path, report: rig.Report) -> None:
    home = rig.on_disk(tmp_path, "slaughter")
    seed = rig.new_seed()
    started = time.monotonic()
    slaughter = Slaughter(home, seed)

    anomalies = slaughter.run(ROUNDS)

    report(
        f"R18 kill -9: seed {seed}, {len(anomalies)} anomalies, {slaughter.rig.figures()}, "
        f"{time.monotonic() - started:.0f} s"
    )
    assert not anomalies, f"seed {seed}, {home}\n" + "\n".join(anomalies[:20])


@pytest.mark.parametrize(
    ("mutant", "kinds"),
    [
        ("ack-not-logged", {"resurrected"}),
        ("ack-takes-the-next", {"lost", "holder-refused"}),
        ("claim-not-marked", {"two-hands", "holder-refused"}),
        ("claim-not-logged", {"lease-twice", "recounted"}),
        ("leases-end-at-restart", {"two-hands", "holder-refused"}),
        ("deliveries-not-counted", {"recounted"}),
    ],
)
def test_a_broken_promise_is_noticed(
    mutant: str, kinds: set[str], tmp_path: Path, report: rig.Report
) -> None:
    started = time.monotonic()
    for seed in rig.new_seeds(MUTANT_TRIES):
        home = rig.on_disk(tmp_path, f"{mutant}-{seed}")
        lease_ms = LONG_LEASE_MS if "two-hands" in kinds else LEASE_MS
        slaughter = Slaughter(home, seed, mutant=mutant, lease_ms=lease_ms)
        anomalies = slaughter.run(MUTANT_ROUNDS_MAX)
        found = {anomaly.partition(":")[0] for anomaly in anomalies}
        if found & kinds:
            break

    assert found & kinds, f"seed {seed}: {mutant} survived {slaughter.rig.counts}, {anomalies[:3]}"
    report(
        f"R18 {mutant}: seed {seed}, caught after {slaughter.rig.counts['kills']} kills, "
        f"{time.monotonic() - started:.0f} s: {anomalies[0][:100]}"
    )
