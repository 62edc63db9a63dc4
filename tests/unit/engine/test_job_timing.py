"""Recurring jobs: due by their schedule, done and due again, over restarts and failures."""

from __future__ import annotations

import functools

import pytest

import penstock
from penstock.atomic_steps import Step
from penstock.engine.engine import Log
from penstock.engine.journal import Journal
from penstock.errors import InvalidArgument, NotAQueue
from penstock.storage.wal.pending_commit import PendingCommit
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.log import open_memory_log

MINUTE_MS = 60_000
EVERY_FIVE = "*/5 * * * *"


def queue(log: Log, **config: object) -> None:
    log.create("q", type="queue", durability="fsync", **config)
    log.append("q", [{"backup": 1}], cron=EVERY_FIVE)


def due_in_ms(log: Log) -> int:
    (one,) = log.schedules("q")
    return one.due - log.core.parts.clock.now_ms()


def test_a_recurring_job_waits_for_its_time_and_comes_again_when_it_is_done() -> None:
    clock = FakeClock()
    with open_memory_log(MemoryFilesystem(), clock) as log:
        queue(log)
        assert 0 < due_in_ms(log) <= 5 * MINUTE_MS
        assert not log.claim("q", "w").jobs

        for _ in range(3):
            clock.advance(due_in_ms(log))
            (job,) = log.claim("q", "w").jobs
            assert (job.data, job.deliveries) == ({"backup": 1}, 1)
            assert not log.claim("q", "v").jobs  # never twice at a time
            assert log.ack("q", "w", [job]).done == 1
            assert due_in_ms(log) == 5 * MINUTE_MS
            assert log.queue_counts("q") == penstock.QueueCounts(0, 0, 1, 0)


def test_times_that_passed_unserved_are_made_up_for_once() -> None:
    clock = FakeClock()
    with open_memory_log(MemoryFilesystem(), clock) as log:
        queue(log)
        clock.advance(60 * MINUTE_MS)

        (job,) = log.claim("q", "w").jobs
        log.ack("q", "w", [job])

        assert not log.claim("q", "w").jobs
        assert 0 < due_in_ms(log) <= 5 * MINUTE_MS


@pytest.mark.parametrize("how", ["killed", "closed", "checkpointed"])
def test_a_schedule_outlives_the_process(how: str) -> None:
    fs, clock = MemoryFilesystem(), FakeClock()
    log = open_memory_log(fs, clock)
    queue(log)
    clock.advance(due_in_ms(log))
    log.ack("q", "w", log.claim("q", "w").jobs)
    before = log.schedules("q")
    if how == "checkpointed":
        log.checkpoint(everything=True)
    if how == "killed":
        fs = fs.kill()
    else:
        log.close()

    with open_memory_log(fs, clock) as again:
        assert again.schedules("q") == before
        assert not again.claim("q", "w").jobs
        clock.advance(due_in_ms(again))
        assert len(again.claim("q", "w").jobs) == 1


def test_a_job_that_fails_too_often_is_put_aside_and_still_comes_again() -> None:
    clock = FakeClock()
    with open_memory_log(MemoryFilesystem(), clock) as log:
        queue(log, max_deliveries=2, dead_letter="dead")
        for round_ in (1, 2):
            clock.advance(due_in_ms(log))
            for _ in range(2):
                log.nack("q", "w", log.claim("q", "w").jobs, delay_ms=0)
            assert not log.claim("q", "w").jobs
            assert len(log.read("dead").records) == round_
            assert 0 < due_in_ms(log) <= 5 * MINUTE_MS


def test_a_nack_is_tried_again_within_the_same_time() -> None:
    clock = FakeClock()
    with open_memory_log(MemoryFilesystem(), clock) as log:
        queue(log)
        clock.advance(due_in_ms(log))

        log.nack("q", "w", log.claim("q", "w").jobs, delay_ms=1000)
        clock.advance(1000)

        (job,) = log.claim("q", "w").jobs
        assert job.deliveries == 2


def test_a_deleted_job_comes_no_more() -> None:
    clock = FakeClock()
    with open_memory_log(MemoryFilesystem(), clock) as log:
        queue(log)

        log.delete("q", seqs=[1])

        assert log.schedules("q") == []
        clock.advance(60 * MINUTE_MS)
        assert not log.claim("q", "w").jobs


def test_a_job_that_is_deleted_when_it_is_due_comes_no_more() -> None:
    clock = FakeClock()
    with open_memory_log(MemoryFilesystem(), clock) as log:
        queue(log)
        clock.advance(due_in_ms(log))
        assert log.queue_counts("q").ready == 1

        log.delete("q", seqs=[1])

        assert log.schedules("q") == []


def test_a_job_keeps_its_time_though_others_go_while_it_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is put off before it is there, and what is not there is cleared away."""
    publish = Journal._publish_appends

    def and_meanwhile(
        journal: Journal, commits: list[PendingCommit], finish: list[Step], is_own: bool
    ) -> bool:
        monkeypatch.undo()
        log.queue_counts("q")
        return publish(journal, commits, finish, is_own)

    with open_memory_log(MemoryFilesystem(), FakeClock()) as log:
        log.create("q", type="queue")
        log.append("q", [1])
        log.delete("q", seqs=[1])
        monkeypatch.setattr(
            log.core.catalogue.journal,
            "_append_publisher",
            functools.partial(and_meanwhile, log.core.catalogue.journal),
        )

        log.append("q", [2], delay_ms=MINUTE_MS)

        assert log.claim("q", "w").jobs == []


def test_recurring_and_plain_jobs_are_acknowledged_together() -> None:
    clock = FakeClock()
    with open_memory_log(MemoryFilesystem(), clock) as log:
        queue(log)
        log.append("q", [2, 3])
        clock.advance(due_in_ms(log))
        jobs = log.claim("q", "w", 10).jobs

        assert log.ack("q", "w", jobs).done == 3

        assert [record.seq for record in log.read("q").records] == [1]
        assert len(log.schedules("q")) == 1


def test_a_schedule_in_a_group_lets_the_next_of_the_group_go() -> None:
    clock = FakeClock()
    with open_memory_log(MemoryFilesystem(), clock) as log:
        log.create("q", type="queue", queue={"group_by": "tag"})
        log.append("q", [1], tag="g", cron=EVERY_FIVE)
        clock.advance(due_in_ms(log))
        log.append("q", [2], tag="g")
        (first,) = log.claim("q", "w", 5).jobs
        assert first.data == 1

        log.ack("q", "w", [first])

        assert [job.data for job in log.claim("q", "w", 5).jobs] == [2]


def test_what_cannot_be_a_time_is_refused() -> None:
    with open_memory_log(MemoryFilesystem(), FakeClock()) as log:
        queue(log)
        log.create("plain")
        for wrong in (
            {"cron": "never"},
            {"cron": EVERY_FIVE, "delay_ms": 5},
            {"cron": EVERY_FIVE, "deliver_at": 5},
            {"timezone": "UTC"},
            {"deliver_at": 5, "delay_ms": 5},
        ):
            with pytest.raises(InvalidArgument):
                log.append("q", [1], **wrong)  # type: ignore[arg-type]
        with pytest.raises(NotAQueue):
            log.append("plain", [1], cron=EVERY_FIVE)
