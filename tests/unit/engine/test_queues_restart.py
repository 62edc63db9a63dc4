"""What a queue still knows after its process ended, by whatever end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.engine import queues
from penstock.engine.engine import Log
from penstock.storage import snapshots
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.crash import VANISH, CrashChoices, PowerLost
from penstock.testing.log import open_memory_log
from penstock.types import QueueCounts
from tests.unit.engine.support import META
from tests.unit.engine.test_queues import LEASE_MS, counts, each_lease, outs, queue, seqs

HOUR_MS = 3_600_000
each_keeper = pytest.mark.parametrize("durability", ["memory", "disk", "fsync"])


def closed(log: Log, clock: FakeClock, **settings: Any) -> Log:
    fs = log.core.parts.fs
    log.close()
    assert isinstance(fs, MemoryFilesystem)
    return open_memory_log(fs, clock, **settings)


def killed(log: Log, clock: FakeClock, **settings: Any) -> Log:
    fs = log.core.parts.fs
    assert isinstance(fs, MemoryFilesystem)
    return open_memory_log(fs.kill(), clock, **settings)


def cut(log: Log, clock: FakeClock, **settings: Any) -> Log:
    """A power cut that took everything that was not synced."""
    fs = log.core.parts.fs
    assert isinstance(fs, MemoryFilesystem)
    return open_memory_log(fs.power_cut(lambda change: VANISH), clock, **settings)


each_end = pytest.mark.parametrize("end", [closed, killed])
End = Callable[..., Log]


def ids(log: Log, node: str, most: int) -> list[int]:
    return [int(job.lease_id.removeprefix("lease_"), 16) for job in log.claim("q", node, most).jobs]


# Every class, with and without durable leases, with a checkpoint anywhere.


def lived(clock: FakeClock, checkpoint: str, **config: Any) -> Log:
    """Jobs 1..6: 1 done, 2 put off for a minute, 3 held by ann, 4 given back, 5 and 6 fresh."""
    log = open_memory_log(clock=clock)

    def check(when: str) -> None:
        if when == checkpoint:
            log.checkpoint(everything=True)

    queue(log, *range(1, 7), **config)
    check("before")
    log.claim("q", "ann", 3)
    check("claimed")
    log.ack("q", "ann", [1])
    log.nack("q", "ann", [2], delay_ms=60_000)
    log.extend("q", "ann", [3], lease_ms=50_000)
    check("between")
    log.nack("q", "bob", log.claim("q", "bob").jobs)
    check("after")
    return log


each_checkpoint = pytest.mark.parametrize(
    "checkpoint", ["never", "before", "claimed", "between", "after"]
)


@each_end
@each_checkpoint
@each_keeper
def test_durable_leases_and_delays_outlive_their_process(
    durability: str, checkpoint: str, end: End
) -> None:
    clock = FakeClock()
    log = lived(clock, checkpoint, durability=durability, leases_durable=True)

    log = end(log, clock)

    assert log.queue_counts("q") == QueueCounts(3, 1, 1, 0)
    assert outs(log.claim("q", "cy", 9)) == {4: 2, 5: 1, 6: 1}
    clock.advance(50_000)
    assert log.extend("q", "ann", [3], ["lease_3"], lease_ms=1_000).done == 1
    clock.advance(10_000)
    assert outs(log.claim("q", "dee", 9)) == {2: 2, 3: 2, 4: 3, 5: 2, 6: 2}


@each_end
@each_checkpoint
@each_keeper
def test_leases_that_are_not_durable_end_and_deliveries_are_counted_on(
    durability: str, checkpoint: str, end: End
) -> None:
    clock = FakeClock()
    log = lived(clock, checkpoint, durability=durability)

    log = end(log, clock)

    assert log.queue_counts("q") == QueueCounts(5, 0, 0, 0)
    assert log.ack("q", "ann", [3, 2]).skipped == [3, 2]
    assert outs(log.claim("q", "cy", 9)) == {2: 2, 3: 2, 4: 2, 5: 1, 6: 1}


@each_end
@each_checkpoint
@each_lease
def test_an_ephemeral_queue_is_empty_afterwards_and_goes_on(
    checkpoint: str, leases_durable: bool, end: End
) -> None:
    clock = FakeClock()
    log = lived(clock, checkpoint, durability="ephemeral", leases_durable=leases_durable)

    log = end(log, clock)

    assert counts(log) == (0, 0, 0)
    seq = log.append("q", ["new"]).first_seq
    assert seq > 6
    assert outs(log.claim("q", "ann", 9)) == {seq: 1}


@each_end
@each_checkpoint
@each_keeper
@each_lease
def test_no_lease_id_is_given_twice(
    durability: str, checkpoint: str, leases_durable: bool, end: End
) -> None:
    clock = FakeClock()
    log = lived(clock, checkpoint, durability=durability, leases_durable=leases_durable)

    for _ in range(2):
        log = end(log, clock)

    assert min(ids(log, "cy", 9)) > 4


@each_end
@pytest.mark.parametrize("is_checkpointed", [False, True])
@each_keeper
@each_lease
def test_a_job_put_off_by_its_sender_is_in_one_hand_at_its_time(
    durability: str, leases_durable: bool, is_checkpointed: bool, end: End
) -> None:
    clock = FakeClock()
    log = open_memory_log(clock=clock)
    queue(log, durability=durability, leases_durable=leases_durable)
    log.append("q", [1], delay_ms=HOUR_MS)
    log.append("q", [2])
    if is_checkpointed:
        log.checkpoint(everything=True)

    log = end(log, clock)
    early = seqs(log.claim("q", "ann", 9))
    log.ack("q", "ann", early)
    log = end(log, clock)
    clock.advance(HOUR_MS)

    assert early == [2]
    assert [(job.seq, job.deliveries) for job in log.claim("q", "ann", 9).jobs] == [(1, 1)]


@each_lease
def test_a_queue_made_durable_keeps_what_it_had(leases_durable: bool) -> None:
    clock = FakeClock()
    log = open_memory_log(clock=clock)
    queue(log, 1, 2, 3, durability="ephemeral", leases_durable=leases_durable)
    log.nack("q", "ann", log.claim("q", "ann", 2).jobs)

    log.create("q", type="queue", durability="disk", leases_durable=leases_durable)
    log = killed(log, clock)

    assert outs(log.claim("q", "bob", 9)) == {1: 2, 2: 2, 3: 1}


# Clocks that are set between two runs.


@each_keeper
def test_a_clock_set_back_makes_no_lease_longer_than_it_was_given(durability: str) -> None:
    clock = FakeClock()
    log = open_memory_log(clock=clock)
    queue(log, 1, durability=durability, leases_durable=True)
    jobs = log.claim("q", "ann").jobs

    clock.jump(-HOUR_MS)
    log = killed(log, clock)
    clock.advance(LEASE_MS)
    held = counts(log)
    clock.advance(1)

    assert held == (0, 1, 0)
    assert outs(log.claim("q", "bob")) == {1: 2}
    assert log.ack("q", "ann", jobs).skipped == [1]


@each_keeper
def test_a_clock_set_back_makes_no_delay_longer_than_it_was_given(durability: str) -> None:
    clock = FakeClock()
    log = open_memory_log(clock=clock)
    queue(log, 1, durability=durability, leases_durable=True)
    log.nack("q", "ann", log.claim("q", "ann").jobs, delay_ms=1_000)

    clock.jump(-HOUR_MS)
    log = killed(log, clock)
    clock.advance(1_001)

    assert outs(log.claim("q", "bob")) == {1: 2}


@each_keeper
@each_lease
def test_a_clock_set_forward_leaves_every_job_claimable(
    durability: str, leases_durable: bool
) -> None:
    clock = FakeClock()
    log = lived(clock, "never", durability=durability, leases_durable=leases_durable)

    clock.jump(HOUR_MS)
    log = killed(log, clock)

    assert outs(log.claim("q", "cy", 9)) == {2: 2, 3: 2, 4: 2, 5: 1, 6: 1}


# Jobs that went under a lease, and a snapshot that was taken before anybody looked.


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Every list of seqs that was read; a claim that never ends is ended."""
    asked: list[list[int]] = []
    real = queues.read_jobs

    def bounded(handle: Any, wanted: list[int], bytes_max: int, decode: Any) -> Any:
        asked.append(wanted)
        assert len(asked) < 100, f"a claim reads {wanted} for ever"
        return real(handle, wanted, bytes_max, decode)

    monkeypatch.setattr(queues, "read_jobs", bounded)
    return asked


@each_end
@each_lease
def test_leases_of_evicted_jobs_do_not_come_back_from_a_snapshot(
    leases_durable: bool, end: End
) -> None:
    clock = FakeClock()
    log = open_memory_log(clock=clock)
    queue(log, 1, 2, cap_records=2, leases_durable=leases_durable)
    log.claim("q", "ann", 2)
    log.append("q", [3, 4])
    log.checkpoint(everything=True)

    log = end(log, clock)

    assert log.queue_counts("q") == QueueCounts(2, 0, 0, 0)
    assert outs(log.claim("q", "bob", 9)) == {3: 1, 4: 1}


@each_end
def test_evicted_jobs_are_not_put_aside_for_ever(end: End, watched: list[list[int]]) -> None:
    clock = FakeClock()
    log = open_memory_log(clock=clock)
    queue(log, 1, 2, cap_records=2, max_deliveries=1, dead_letter="dead")
    log.claim("q", "ann", 2)
    log.append("q", [3, 4])
    log.checkpoint(everything=True)

    log = end(log, clock)

    assert outs(log.claim("q", "bob", 9)) == {3: 1, 4: 1}


# Power cuts.


def test_what_was_acknowledged_on_an_fsync_queue_does_not_come_back() -> None:
    fs, clock = MemoryFilesystem(), FakeClock()
    log = open_memory_log(fs, clock)
    queue(log, *range(6), durability="fsync")
    log.ack("q", "ann", log.claim("q", "ann", 3).jobs)
    log.claim("q", "ann", 1)

    states = list(fs.crash_states(64))

    assert len(states) > 1
    for state in states:
        assert seqs(open_memory_log(state, clock).claim("q", "bob", 9)) == [4, 5, 6]


@pytest.mark.parametrize("durability", ["disk", "fsync"])
def test_a_durable_lease_holds_after_a_power_cut(durability: str) -> None:
    fs, clock = MemoryFilesystem(), FakeClock()
    log = open_memory_log(fs, clock)
    queue(log, 1, 2, durability=durability, leases_durable=True)
    jobs = log.claim("q", "ann").jobs

    for state in fs.crash_states(64):
        again = open_memory_log(state, clock)

        assert outs(again.claim("q", "bob", 9)) == {2: 1}
        assert again.ack("q", "ann", jobs).done == 1


@pytest.mark.parametrize("seed", range(40))
@each_keeper
def test_a_power_cut_anywhere_leaves_every_job_to_be_claimed_or_done(
    durability: str, seed: int
) -> None:
    fs, clock = MemoryFilesystem(), FakeClock()
    log = open_memory_log(fs, clock)
    queue(log, *range(8), durability=durability, leases_durable=bool(seed % 2))
    log.sync()
    fs.stop_before(fs.operations + seed // 2)
    asked: set[int] = set()
    done: set[int] = set()
    try:
        for _ in range(4):
            jobs = log.claim("q", "ann", 2).jobs
            log.nack("q", "ann", jobs[:1])
            asked |= {job.seq for job in jobs[1:]}
            log.ack("q", "ann", jobs[1:])
            done |= asked
            log.checkpoint()
    except PowerLost:
        pass
    survivor = fs.power_cut(CrashChoices(seed))

    log = open_memory_log(survivor, clock)
    clock.advance(LEASE_MS + 1)
    left = set(seqs(log.claim("q", "bob", 99)))

    assert left | asked == set(range(1, 9))
    assert log.damage == []
    if durability == "fsync":
        assert not left & done


def test_a_lease_id_that_a_power_cut_took_back_is_not_given_again() -> None:
    clock = FakeClock()
    log = open_memory_log(clock=clock)
    queue(log, *range(4), durability="disk")
    log.sync()
    lost = ids(log, "ann", 2)

    log = cut(log, clock)

    assert not set(lost) & set(ids(log, "ann", 2))


@each_end
def test_nor_is_it_after_a_run_in_which_nobody_claimed(end: End) -> None:
    clock = FakeClock()
    log = open_memory_log(clock=clock)
    queue(log, *range(4), durability="disk")
    log.sync()
    lost = ids(log, "ann", 2)

    log = cut(log, clock)
    log = end(log, clock)

    assert not set(lost) & set(ids(log, "ann", 2))


def test_nor_after_every_snapshot_was_lost() -> None:
    fs, clock = MemoryFilesystem(), FakeClock()
    log = open_memory_log(fs, clock)
    queue(log, *range(4), durability="fsync")
    lost = ids(log, "ann", 2)
    for _ in range(3):
        log.checkpoint(everything=True)
    log.close()
    for number in snapshots.numbers(fs, META):
        fs.corrupt(snapshots.path_of(META, number), 80)

    log = open_memory_log(fs, clock)
    log.create("q", type="queue", durability="fsync")

    assert not set(lost) & set(ids(log, "ann", 2))
