"""The path of a job on a real log: claimed, then done, given back, or late."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import limits
from penstock.engine import job_offers
from penstock.engine.engine import Log
from penstock.engine.lease_options import lease_number
from penstock.errors import (
    BatchTooLarge,
    Closed,
    InvalidArgument,
    LogFailed,
    NotAQueue,
    Overloaded,
    TopicNotFound,
)
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.log import open_memory_log
from penstock.topics.leases import Queue
from penstock.types import Claimed, Job, QueueCounts, Record
from tests.unit.engine.support import killed

HOUR_MS = 3_600_000
LEASE_MS = 30_000  # when nobody says otherwise
each_class = pytest.mark.parametrize("durability", ["ephemeral", "memory", "disk", "fsync"])
each_lease = pytest.mark.parametrize("leases_durable", [False, True])


def queue(log: Log, *jobs: Any, **config: Any) -> None:
    """A queue named q with these jobs."""
    log.create("q", type="queue", **config)
    if jobs:
        log.append("q", jobs)


def seqs(claimed: Claimed) -> list[int]:
    return [job.seq for job in claimed.jobs]


def outs(claimed: Claimed) -> dict[int, int]:
    """How often each was handed out."""
    return {job.seq: job.deliveries for job in claimed.jobs}


def counts(log: Log) -> tuple[int, int, int]:
    found = log.queue_counts("q")
    return found.ready, found.in_flight, found.delayed


# Claiming.


def test_a_cleanup_of_deleted_jobs_that_was_interrupted_is_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(self: Queue, is_live: Callable[[int], bool]) -> None:
        raise KeyboardInterrupt

    with open_memory_log(MemoryFilesystem(), FakeClock()) as log:
        queue(log, 1, 2, 3)
        log.nack("q", "ann", log.claim("q", "ann", 2).jobs)
        log.delete("q", before_seq=2)
        handle = log.core.catalogue.get("q")
        with monkeypatch.context() as patch:
            patch.setattr(Queue, "prune", interrupted)
            with pytest.raises(KeyboardInterrupt):
                job_offers.prune(handle)
        is_known_before = 1 in handle.topic.queue.deliveries

        job_offers.prune(handle)

        assert is_known_before
        assert 1 not in handle.topic.queue.deliveries
        assert seqs(log.claim("q", "bob", 3)) == [2, 3]


def test_a_job_has_what_was_sent_and_the_terms_of_its_lease(
    memory_log: Log, penstock_clock: FakeClock
) -> None:
    queue(memory_log)
    sent_ms = penstock_clock.now_ms()
    memory_log.append("q", [Record({"a": [1.0, "é"]}, tag="x", node="sender", meta={"m": 1})])
    penstock_clock.advance(5)

    claimed = memory_log.claim("q", "ann")

    deadline = penstock_clock.now_ms() + LEASE_MS
    assert claimed == Claimed(
        "q", [Job(1, "lease_1", deadline, sent_ms, 1, {"a": [1.0, "é"]}, "x", {"m": 1})], 0
    )


def test_jobs_come_in_their_order_and_each_once(memory_log: Log) -> None:
    queue(memory_log, *range(7))

    first, second = memory_log.claim("q", "ann", 3), memory_log.claim("q", "bob", 9)

    assert (seqs(first), first.ready) == ([1, 2, 3], 4)
    assert (seqs(second), second.ready) == ([4, 5, 6, 7], 0)
    assert memory_log.claim("q", "ann", 5) == Claimed("q", [], 0)


@pytest.mark.parametrize(
    ("asked", "given"), [(0, 1), (-3, 1), (1, 1), (1_000, 1_000), (5_000, 1_000)]
)
def test_a_claim_is_for_at_least_one_job_and_at_most_a_thousand(
    memory_log: Log, asked: int, given: int
) -> None:
    queue(memory_log, *range(1_001))

    assert len(memory_log.claim("q", "ann", asked).jobs) == given


@pytest.mark.parametrize(
    ("asked", "given"), [(None, 5_000), (700, 700), (1, 100), (1 << 60, 86_400_000)]
)
def test_a_lease_is_as_long_as_the_queue_or_the_claimer_says_within_bounds(
    memory_log: Log, penstock_clock: FakeClock, asked: int | None, given: int
) -> None:
    queue(memory_log, 1, lease_ms=5_000)

    [job] = memory_log.claim("q", "ann", lease_ms=asked).jobs

    assert job.deadline == penstock_clock.now_ms() + given


def test_a_big_claim_is_cut_to_what_fits_one_answer_and_the_rest_stays_ready(
    memory_log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.engine.queues.READ_BYTES_MAX", 500)
    queue(memory_log, *["x" * 200] * 6)

    first = memory_log.claim("q", "ann", 6)
    rest = [seq for _ in range(6) for seq in seqs(memory_log.claim("q", "ann", 6))]

    assert 1 <= len(first.jobs) < 6
    assert first.ready == 6 - len(first.jobs)
    assert [*seqs(first), *rest] == [1, 2, 3, 4, 5, 6]


# Done.


@each_class
@each_lease
def test_a_job_that_is_done_is_deleted(durability: str, leases_durable: bool) -> None:
    log = open_memory_log()
    queue(log, *"abc", durability=durability, leases_durable=leases_durable)
    jobs = log.claim("q", "ann", 2).jobs

    settled = log.ack("q", "ann", jobs)

    assert (settled.topic, settled.done, settled.skipped) == ("q", 2, [])
    assert (settled.ready, settled.in_flight) == (1, 0)
    assert log.topic("q").count == 1
    assert [record.data for record in log.read("q").records] == ["c"]
    assert log.queue_counts("q") == QueueCounts(1, 0, 0, 0)
    assert log.ack("q", "ann", jobs).skipped == [1, 2]


def test_many_jobs_are_done_with_one_sync() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    queue(log, *range(50), durability="fsync")
    jobs = log.claim("q", "ann", 50).jobs
    before = fs.counts["sync"]

    assert log.ack("q", "ann", jobs).done == 50

    assert fs.counts["sync"] == before + 1


def test_jobs_that_the_caller_does_not_hold_are_skipped_in_their_order(memory_log: Log) -> None:
    queue(memory_log, *range(5))
    memory_log.claim("q", "ann", 2)
    memory_log.claim("q", "bob", 1)

    settled = memory_log.ack("q", "ann", [9, 4, 2, 3, 2, 1])

    assert (settled.done, settled.skipped) == (2, [9, 4, 3, 2])
    assert (settled.ready, settled.in_flight) == (2, 1)


@pytest.mark.parametrize("verb", ["ack", "nack", "extend"])
def test_a_lease_that_is_over_settles_nothing_though_its_worker_has_the_job_again(
    memory_log: Log, penstock_clock: FakeClock, verb: str
) -> None:
    more = {"lease_ms": 1_000} if verb == "extend" else {}
    queue(memory_log, 1)
    old = memory_log.claim("q", "ann").jobs
    penstock_clock.advance(LEASE_MS + 1)
    new = memory_log.claim("q", "ann").jobs

    late = getattr(memory_log, verb)("q", "ann", old, **more)
    by_seq = getattr(memory_log, verb)("q", "bob", [1], **more)

    assert (late.done, late.skipped) == (0, [1])
    assert (by_seq.done, by_seq.skipped) == (0, [1])
    assert memory_log.ack("q", "ann", new).done == 1


def test_lease_ids_stand_beside_seqs_and_an_empty_one_is_no_fence(memory_log: Log) -> None:
    queue(memory_log, *range(3))
    memory_log.claim("q", "ann", 3)

    settled = memory_log.ack("q", "ann", [1, 2, 3], ["lease_1", "lease_1", ""])

    assert (settled.done, settled.skipped) == (2, [2])


@pytest.mark.parametrize(
    "wrong", ["1", "lease_", "lease_G", "lease_-1", "lease_ 1", "Lease_1", "lease_" + "0" * 17]
)
def test_what_is_no_lease_id_is_refused_and_nothing_is_settled(memory_log: Log, wrong: str) -> None:
    queue(memory_log, 1, 2)
    memory_log.claim("q", "ann", 2)

    with pytest.raises(InvalidArgument, match="lease id"):
        memory_log.ack("q", "ann", [1, 2], ["lease_1", wrong])
    with pytest.raises(InvalidArgument, match="expected one each"):
        memory_log.ack("q", "ann", [1, 2], ["lease_1"])

    assert counts(memory_log) == (0, 2, 0)


def test_there_is_no_lease_nought(memory_log: Log) -> None:
    queue(memory_log, 1)
    memory_log.claim("q", "ann")

    assert memory_log.ack("q", "ann", [1], ["lease_0"]).skipped == [1]
    assert (lease_number("lease_1f"), lease_number("")) == (31, 0)


def test_nothing_settled_is_no_error(memory_log: Log) -> None:
    queue(memory_log, 1)

    settled = memory_log.ack("q", "ann", [])

    assert (settled.done, settled.skipped, settled.ready) == (0, [], 1)


# Not done.


def test_a_job_given_back_goes_before_the_fresh_ones(memory_log: Log) -> None:
    queue(memory_log, *range(5))
    jobs = memory_log.claim("q", "ann", 3).jobs

    settled = memory_log.nack("q", "ann", [jobs[2], jobs[0]])

    assert (settled.done, settled.ready, settled.in_flight) == (2, 4, 1)
    assert outs(memory_log.claim("q", "bob", 9)) == {1: 2, 3: 2, 4: 1, 5: 1}


def test_a_job_put_off_is_neither_ready_nor_in_flight_until_its_time(
    memory_log: Log, penstock_clock: FakeClock
) -> None:
    queue(memory_log, 1, 2)
    settled = memory_log.nack("q", "ann", memory_log.claim("q", "ann").jobs, delay_ms=700)
    assert (settled.ready, settled.in_flight) == (1, 0)
    assert counts(memory_log) == (1, 0, 1)

    penstock_clock.advance(699)
    early = memory_log.claim("q", "bob", 5)
    penstock_clock.advance(1)

    assert seqs(early) == [2]
    assert outs(memory_log.claim("q", "bob", 5)) == {1: 2}


def test_a_job_comes_back_a_millisecond_after_its_deadline(
    memory_log: Log, penstock_clock: FakeClock
) -> None:
    queue(memory_log, 1)
    [job] = memory_log.claim("q", "ann").jobs

    penstock_clock.advance(job.deadline - penstock_clock.now_ms())
    at_the_deadline = memory_log.claim("q", "bob")
    penstock_clock.advance(1)

    assert at_the_deadline.jobs == []
    assert outs(memory_log.claim("q", "bob")) == {1: 2}
    assert memory_log.ack("q", "ann", [job]).skipped == [1]


def test_an_extended_lease_ends_so_long_from_now(
    memory_log: Log, penstock_clock: FakeClock
) -> None:
    queue(memory_log, 1, 2)
    jobs = memory_log.claim("q", "ann", 2).jobs
    penstock_clock.advance(LEASE_MS)

    settled = memory_log.extend("q", "ann", [*jobs, 7], lease_ms=4_000)

    deadline = penstock_clock.now_ms() + 4_000
    assert (settled.done, settled.skipped) == (2, [7])
    assert settled.deadlines == {1: deadline, 2: deadline}
    penstock_clock.advance(4_000)
    assert memory_log.ack("q", "ann", jobs[:1]).done == 1
    penstock_clock.advance(1)
    assert outs(memory_log.claim("q", "bob", 2)) == {2: 2}


# Not yet.


@pytest.mark.parametrize("is_looked_for", [False, True])
@each_class
def test_a_job_put_off_by_its_sender_is_in_one_hand_at_its_time(
    durability: str, is_looked_for: bool
) -> None:
    clock = FakeClock()
    log = open_memory_log(clock=clock)
    queue(log, 1, durability=durability)
    log.append("q", [2, 3], delay_ms=1_000)
    log.append("q", [4], deliver_at=clock.now_ms() + 1_000)
    assert counts(log) == (1, 0, 3)
    if is_looked_for:
        assert seqs(log.claim("q", "ann", 9)) == [1]

    clock.advance(999)
    early = counts(log)
    clock.advance(1)
    found = seqs(log.claim("q", "ann", 9))

    assert early[2] == 3
    assert sorted(found) == ([2, 3, 4] if is_looked_for else [1, 2, 3, 4])
    assert counts(log) == (0, 4, 0)


# What they refuse.


@pytest.mark.parametrize("verb", ["claim", "ack", "nack", "extend"])
def test_only_queues_have_jobs(memory_log: Log, verb: str) -> None:
    memory_log.create("log")
    given: dict[str, Any] = {} if verb == "claim" else {"jobs": [1]}
    given |= {"lease_ms": 100} if verb == "extend" else {}

    with pytest.raises(NotAQueue):
        getattr(memory_log, verb)("log", "ann", **given)
    with pytest.raises(TopicNotFound):
        getattr(memory_log, verb)("nope", "ann", **given)
    assert memory_log.core.catalogue.names() == ["log"]


@pytest.mark.parametrize("node", ["", "x" * 129, None, 5])
def test_a_worker_has_a_name(memory_log: Log, node: Any) -> None:
    queue(memory_log, 1)

    for call in (memory_log.claim, lambda *given: memory_log.ack(*given, [1])):
        with pytest.raises(InvalidArgument, match="node"):
            call("q", node)


@pytest.mark.parametrize("seq", [-1, 1 << 64, "1", None, True])
def test_a_senseless_seq_is_refused(memory_log: Log, seq: Any) -> None:
    queue(memory_log, 1)

    with pytest.raises(InvalidArgument):
        memory_log.ack("q", "ann", [seq])


def test_one_call_settles_a_thousand_jobs_and_no_more(memory_log: Log) -> None:
    queue(memory_log, 1)

    with pytest.raises(BatchTooLarge):
        memory_log.ack("q", "ann", range(1, 1_002))


def test_a_closed_log_gives_no_job(memory_log: Log) -> None:
    queue(memory_log, 1)
    memory_log.close()

    with pytest.raises(Closed):
        memory_log.claim("q", "ann")


# Jobs that go by themselves.

WAYS_TO_GO: dict[str, tuple[dict[str, Any], Callable[[Log, FakeClock], object]]] = {
    "delete": ({}, lambda log, clock: log.delete("q", seqs=[1, 2])),
    "cap": ({"cap_records": 2}, lambda log, clock: log.append("q", [3, 4])),
    "age": (
        {"ttl_ms": 50},
        lambda log, clock: (
            clock.advance(51),
            log.core.catalogue.refresh(log.core.catalogue.find("q")),
        ),
    ),
    "drop": ({}, lambda log, clock: (log.drop("q"), queue(log, 1, 2))),
}


@pytest.mark.parametrize("way", WAYS_TO_GO)
@each_class
def test_a_lease_goes_with_its_job(durability: str, way: str) -> None:
    clock = FakeClock()
    log = open_memory_log(clock=clock)
    config, go = WAYS_TO_GO[way]
    queue(log, 1, 2, durability=durability, **config)
    jobs = log.claim("q", "ann").jobs

    go(log, clock)

    assert log.ack("q", "ann", jobs).skipped == [1]
    live = [record.seq for record in log.read("q").records]
    assert counts(log) == (len(live), 0, 0)
    assert outs(log.claim("q", "bob", 9)) == dict.fromkeys(live, 1)


def test_a_job_past_its_age_is_not_counted(memory_log: Log, penstock_clock: FakeClock) -> None:
    queue(memory_log, 1, 2, ttl_ms=50)
    memory_log.claim("q", "ann")

    penstock_clock.advance(51)

    assert counts(memory_log) == (0, 0, 0)


def test_jobs_deleted_while_they_are_handed_out_are_not_handed_out(
    memory_log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue(memory_log, *range(4))
    real = penstock.engine.queues.read_jobs

    def and_meanwhile(*given: Any) -> Any:
        found = real(*given)
        memory_log.delete("q", seqs=[1, 3])
        return found

    monkeypatch.setattr("penstock.engine.queues.read_jobs", and_meanwhile)

    assert seqs(memory_log.claim("q", "ann", 4)) == [2, 4]
    assert counts(memory_log) == (0, 2, 0)


# Clocks that somebody sets.


@pytest.mark.parametrize("jump_ms", [-HOUR_MS, HOUR_MS])
@each_class
def test_a_clock_that_jumps_ends_no_lease_early_and_leaves_no_job_stuck(
    durability: str, jump_ms: int
) -> None:
    clock = FakeClock()
    log = open_memory_log(clock=clock)
    queue(log, 1, 2, durability=durability)
    jobs = log.claim("q", "ann", 2).jobs
    log.nack("q", "ann", jobs[1:], delay_ms=LEASE_MS)

    clock.jump(jump_ms)
    held = log.core.queues.still_held(log.core.parts.handles["q"], "ann", {1: jobs[0].lease_id})
    clock.advance(LEASE_MS - 1)
    before = counts(log)
    clock.advance(2)

    assert held == {1: jobs[0].lease_id}
    assert before == (0, 1, 1)
    assert outs(log.claim("q", "bob", 9)) == {1: 2, 2: 2}


# A disk that is busy, or broken.


@pytest.mark.parametrize("verb", ["claim", "ack", "nack", "extend"])
@pytest.mark.parametrize("durability", ["memory", "disk", "fsync"])
def test_a_full_write_queue_changes_nothing(
    durability: str, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_memory_log()
    queue(log, *range(4), durability=durability, leases_durable=True)
    jobs = log.claim("q", "ann", 2).jobs
    before = counts(log)
    given = [2] if verb == "claim" else [jobs]
    more: dict[str, Any] = {"lease_ms": 90_000} if verb == "extend" else {}
    with monkeypatch.context() as busy:
        busy.setattr(limits, "SHARD_QUEUE_SUBMISSIONS_MAX", 0)
        for _ in range(3):
            with pytest.raises(Overloaded):
                getattr(log, verb)("q", "ann", *given, **more)

    assert counts(log) == before
    assert log.core.queues.still_held(log.core.parts.handles["q"], "ann", {1: "lease_1"})
    assert outs(log.claim("q", "bob", 9)) == {3: 1, 4: 1}
    assert log.ack("q", "ann", jobs).done == 2


def test_lease_ids_are_not_used_again_after_a_refusal(
    memory_log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue(memory_log, *range(4))
    given = [job.lease_id for job in memory_log.claim("q", "ann").jobs]
    with monkeypatch.context() as busy:
        busy.setattr(limits, "SHARD_QUEUE_SUBMISSIONS_MAX", 0)
        with pytest.raises(Overloaded):
            memory_log.claim("q", "ann", 2)

    given += [job.lease_id for job in memory_log.claim("q", "ann", 3).jobs]

    assert len(set(given)) == 4


@pytest.mark.parametrize("durability", ["memory", "disk", "fsync"])
def test_a_failed_log_gives_no_job_and_loses_none(durability: str) -> None:
    fs, clock = MemoryFilesystem(), FakeClock()
    log = open_memory_log(fs, clock)
    queue(log, 1, 2, durability=durability, leases_durable=True)
    log.sync()
    fs.fail("sync")
    fs.fail("write", persistent=True)

    for _ in range(2):
        with pytest.raises(LogFailed):
            log.claim("q", "ann")
    fs.heal()
    log = killed(log, clock=clock)
    clock.advance(LEASE_MS + 1)

    assert seqs(log.claim("q", "bob", 9)) == [1, 2]


# Many at once.


@each_class
def test_however_many_claim_at_once_a_job_is_in_one_hand(tmp_path: Path, durability: str) -> None:
    with penstock.open(tmp_path) as log, ThreadPoolExecutor(6) as pool:
        queue(log, *range(300), durability=durability)

        def work(number: int) -> list[tuple[int, str]]:
            mine: list[tuple[int, str]] = []
            node = f"w{number}"
            while jobs := log.claim("q", node, 1 + number * 3, lease_ms=86_400_000).jobs:
                mine += [(job.seq, job.lease_id) for job in jobs]
                assert log.ack("q", node, jobs).done == len(jobs)
            return mine

        done = [pair for mine in pool.map(work, range(6)) for pair in mine]

        assert sorted(seq for seq, _ in done) == list(range(1, 301))
        assert len({lease_id for _, lease_id in done}) == 300
        assert log.topic("q").count == 0
