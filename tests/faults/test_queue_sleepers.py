"""R18: workers that sleep past their leases, and a time of the day that jumps by an hour: what
comes late does not count, no job is stuck, each is done once or dead after so many deliveries."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.faults.victim import DEADLINE_S, eventually
from tests.support import rig
from tests.support.queue_history import Hand
from tests.support.queue_rig import QueueRig, stop_process

ROUNDS = 100 if rig.IS_FULL else 12
MUTANT_ROUNDS_MAX = 40
MUTANT_TRIES = 3
HOUR_MS = 3_600_000
LEASE_MS = 600
STUCK_S = DEADLINE_S  # for what should take one lease; a slow machine is no anomaly
MUTANT_STUCK_S = 6.0  # long enough for ten of them
JOBS = 15  # of a round
SLEEP_ATTEMPTS = 30
POISON = 9
DELIVERIES_MAX = 4
NODES = ("twin", "twin", "single")  # two processes with one name: only leases tell them apart

QUEUES: dict[str, dict[str, Any]] = {
    "jobs": {
        "durability": "fsync",
        "lease_ms": LEASE_MS,
        "max_deliveries": DELIVERIES_MAX,
        "dead_letter": "dead",
    }
}


class Dormitory:
    """Rounds of: jobs come, the clock jumps, a worker that has jobs sleeps until others have them,
    and wakes up."""

    def __init__(
        self, home: Path, seed: int, *, mutant: str | None = None, stuck_s: float = STUCK_S
    ) -> None:
        self.rig = QueueRig(
            home, str(seed), QUEUES, NODES, mutant=mutant, poison=POISON, work_s=0.15
        )
        self._stuck_s = stuck_s
        self._pause = threading.Event()
        self.longest = 0.0  # in leases, from when a sleeper had a job until another got it

    def run(self, rounds: int) -> list[str]:
        """What is wrong, as soon as something is."""
        with self.rig as field:
            field.open()
            for _ in range(rounds):
                field.produce("jobs", JOBS)
                stuck = self._round()
                if found := field.catch_up().judge() + stuck:
                    return found
            anomalies = field.drain(self._stuck_s)
            field.counts["dead"] = len(field.dead_of("jobs"))
            return anomalies

    def _round(self) -> list[str]:
        field, choose = self.rig, self.rig.choose
        self._jump()
        name = choose.choice(sorted(field.workers))
        pid = field.workers[name]
        hands = self._put_to_sleep(name, pid)
        try:
            if choose.random() < 0.7:
                self._pause.wait(choose.uniform(0, LEASE_MS / 1000))
                self._jump()
            stuck = self._wait_for_others(hands)
        finally:
            os.kill(pid, signal.SIGCONT)
        if stuck:
            return [f"stuck: jobs:{hand.seq} is nobody's after {hand}" for hand in stuck]
        eventually(lambda: self._has_settled(hands), "what a worker does when it wakes up")
        field.counts["late acks skipped"] += sum(
            call.verb == "ack" and hand.seq in call.skipped
            for hand in hands
            for call in hand.settles
        )
        return []

    def _jump(self) -> None:
        self.rig.victim.set_clock(self.rig.choose.choice((-HOUR_MS, 0, HOUR_MS)))
        self.rig.counts["jumps"] += 1

    def _put_to_sleep(self, name: str, pid: int) -> list[Hand]:
        """Stop it while it has jobs that it is going to settle: those."""
        for _ in range(SLEEP_ATTEMPTS):
            with suppress(AssertionError):  # the others were quicker: more jobs
                eventually(lambda: self._holding(name), f"{name} with a job", 2.0)
                stop_process(pid)
                if hands := self._holding(name):
                    self.rig.counts["sleeps"] += 1
                    return hands
                os.kill(pid, signal.SIGCONT)
            self.rig.produce("jobs", JOBS)
        raise AssertionError(f"{name} never had a job")

    def _holding(self, name: str) -> list[Hand]:
        return self.rig.catch_up().held_by(name)

    def _wait_for_others(self, hands: list[Hand]) -> list[Hand]:
        """Those of a sleeper's jobs that nobody else gets, nor the dead letters."""
        left = [*hands]

        def others_have_them() -> bool:
            self.rig.catch_up()
            may_be_dead = any(hand.deliveries == DELIVERIES_MAX for hand in left)
            dead = set(self.rig.dead_of("jobs")) if may_be_dead else set()
            left[:] = [hand for hand in left if hand.seq not in dead and self._next(hand) is None]
            return not left

        try:
            eventually(others_have_them, "another worker", self._stuck_s)
        except AssertionError:
            return left
        for hand in hands:
            if (other := self._next(hand)) is not None:
                late_s = other.given_at - hand.held_until(LEASE_MS / 1000)
                self.longest = max(self.longest, 1 + late_s * 1000 / LEASE_MS)
        return []

    def _next(self, hand: Hand) -> Hand | None:
        """Who got the job then."""
        hands = self.rig.history.hands["jobs", hand.seq]
        newer = [other for other in hands if other.lease > hand.lease]
        return min(newer, key=lambda other: other.lease, default=None)

    def _has_settled(self, hands: list[Hand]) -> bool:
        """Has it gone on to its next claim? What it meant to do with these is done by then."""
        last = hands[0].call
        return any(
            call.worker == last.worker and call.verb == "claim" and call.t0 > last.t0
            for call in self.rig.catch_up().calls.values()
        )


@pytest.mark.timeout(3600)
def test_sleepers_and_a_wrong_clock_neither_keep_nor_repeat_a_job(
    tmp_path: Path, report: rig.Report
) -> None:
    home = rig.on_disk(tmp_path, "dormitory")
    seed = rig.new_seed()
    started = time.monotonic()
    dormitory = Dormitory(home, seed)

    anomalies = dormitory.run(ROUNDS)

    report(
        f"R18 sleepers: seed {seed}, {len(anomalies)} anomalies, {dormitory.rig.figures()}, "
        f"handed on within {dormitory.longest:.2f} leases, {time.monotonic() - started:.0f} s"
    )
    assert not anomalies, f"seed {seed}, {home}\n" + "\n".join(anomalies[:20])
    assert dormitory.rig.counts["late acks skipped"], f"seed {seed}: nobody came late"
    assert dormitory.rig.counts["dead"], f"seed {seed}: nothing was out too often"


@pytest.mark.parametrize(
    ("mutant", "kinds"),
    [
        ("ack-not-fenced", {"unfenced"}),
        ("claim-not-marked", {"two-hands", "holder-refused"}),
        ("expiry-by-wall-clock", {"stuck", "two-hands", "holder-refused"}),
        ("never-expires", {"stuck"}),
        ("deliveries-not-counted", {"recounted"}),
    ],
)
def test_a_broken_promise_is_noticed(
    mutant: str, kinds: set[str], tmp_path: Path, report: rig.Report
) -> None:
    started = time.monotonic()
    # Only a mutant that keeps jobs is given up on soon: a busy machine may be as slow by itself.
    stuck_s = MUTANT_STUCK_S if "stuck" in kinds else STUCK_S
    for seed in rig.new_seeds(MUTANT_TRIES):
        home = rig.on_disk(tmp_path, f"{mutant}-{seed}")
        dormitory = Dormitory(home, seed, mutant=mutant, stuck_s=stuck_s)
        anomalies = dormitory.run(MUTANT_ROUNDS_MAX)
        found = {anomaly.partition(":")[0] for anomaly in anomalies}
        if found & kinds:
            break

    assert found & kinds, f"seed {seed}: {mutant} survived {dormitory.rig.counts}, {anomalies[:3]}"
    report(
        f"R18 {mutant}: seed {seed}, caught after {dormitory.rig.counts['sleeps']} sleeps, "
        f"{time.monotonic() - started:.0f} s: {anomalies[0][:100]}"
    )


@pytest.mark.parametrize("jump_ms", [-HOUR_MS, HOUR_MS])
@pytest.mark.parametrize("put_aside", ["claim", "nack"])
def test_a_restart_with_another_time_of_the_day_keeps_no_job(
    tmp_path: Path, jump_ms: int, put_aside: str
) -> None:
    """Leases that hold over a restart, and delays."""
    config = QUEUES["jobs"] | {"leases_durable": True}
    home = rig.on_disk(tmp_path, "restart")
    with QueueRig(home, "0", {"jobs": config}, ()) as field:
        field.open()
        field.produce("jobs", 1)
        first = field.ask(lambda client: client.claim("jobs", "a"))
        if put_aside == "nack":
            field.ask(lambda client: client.nack("jobs", "a", first.jobs, delay_ms=LEASE_MS))

        field.victim.kill()
        field.victim.set_clock(jump_ms)
        field.start()

        def again() -> list[int]:
            claimed = field.ask(lambda client: client.claim("jobs", "b", wait_s=1.0))
            return [job.deliveries for job in claimed.jobs]

        assert eventually(again, "the job, for another worker") == [2]
