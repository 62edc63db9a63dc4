"""Groups on a real log: stories in the fewest steps that once went wrong."""

from __future__ import annotations

from typing import Any

import pytest

import penstock
from penstock.engine.engine import Log
from penstock.testing import FakeClock
from penstock.types import Claimed, Record

MANY = 64  # so many jobs were looked at once


def jobs(*tags: str | None) -> list[Record]:
    return [Record(None, tag=tag) for tag in tags]


def seqs(claimed: Claimed) -> list[int]:
    return [job.seq for job in claimed.jobs]


@pytest.fixture
def log(memory_log: Log) -> Log:
    memory_log.create("q", type="queue", queue={"group_by": "tag"})
    return memory_log


def wakes_of(log: Log) -> list[None]:
    """One for each time that those who wait for a job are told to look again."""
    calls: list[None] = []
    log.core.parts.handles["q"].listen(lambda: calls.append(None))
    return calls


# The order of a group.


def test_a_job_whose_time_came_goes_before_the_younger_ones(
    log: Log, penstock_clock: FakeClock
) -> None:
    log.append("q", jobs("a"), delay_ms=100)
    log.append("q", jobs("a", "a"))
    assert seqs(log.claim("q", "ann", 9)) == [2]
    penstock_clock.advance(200)

    log.ack("q", "ann", [2])  # gives the turn to 3, which waits, and 1 has not been looked at

    assert seqs(log.claim("q", "ann", 9)) == [1]


def test_a_job_that_was_looked_at_and_not_taken_has_no_turn(
    log: Log, penstock_clock: FakeClock
) -> None:
    log.append("q", jobs("a"), delay_ms=100)
    log.append("q", jobs("b", "a"))
    assert seqs(log.claim("q", "ann", 1)) == [2]  # looks at 3, too
    penstock_clock.advance(200)

    assert seqs(log.claim("q", "ann", 1)) == [1]


def test_a_claim_that_reads_slowly_is_not_overtaken_within_a_group(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.append("q", jobs("a"))
    real = penstock.engine.queues.read_jobs
    overtaken: list[int] = []

    def and_meanwhile(*given: Any) -> Any:
        monkeypatch.undo()
        log.append("q", jobs("a"))
        overtaken.extend(seqs(log.claim("q", "bob")))
        return real(*given)

    monkeypatch.setattr("penstock.engine.queues.read_jobs", and_meanwhile)
    slow = seqs(log.claim("q", "ann"))

    assert (slow, overtaken) == ([1], [])


def test_many_whose_time_came_do_not_hide_the_older_ones(
    log: Log, penstock_clock: FakeClock
) -> None:
    log.append("q", jobs("a"))
    log.append("q", jobs(*["a"] * MANY), delay_ms=100)
    penstock_clock.advance(200)

    assert seqs(log.claim("q", "ann")) == [1]


def test_a_job_given_back_goes_before_fresh_ones_of_groups(log: Log) -> None:
    log.append("q", jobs("a", "a", None))
    log.claim("q", "ann", 9)

    log.ack("q", "ann", [1])
    log.nack("q", "ann", [3])

    assert seqs(log.claim("q", "ann", 1)) == [3]


# Nobody waits in vain.


def test_a_long_group_does_not_hide_what_is_behind_it(log: Log) -> None:
    log.append("q", jobs(*["a"] * (2 * MANY), "b"))
    assert seqs(log.claim("q", "ann")) == [1]

    wakes = wakes_of(log)

    assert seqs(log.claim("q", "ann")) or wakes


@pytest.mark.parametrize("way", ["ack", "delete"])
def test_whoever_waits_for_a_job_hears_that_the_next_may_go(log: Log, way: str) -> None:
    log.append("q", jobs("a", "a"))
    log.claim("q", "ann")
    assert log.claim("q", "bob").jobs == []
    wakes = wakes_of(log)

    if way == "ack":
        log.ack("q", "ann", [1])
    else:
        log.delete("q", seqs=[1])

    assert wakes


# Counts.


def test_what_waits_behind_a_deleted_job_is_ready(log: Log) -> None:
    log.append("q", jobs("a", "a", "a"))
    log.claim("q", "ann", 9)
    log.ack("q", "ann", [1])

    log.delete("q", seqs=[2])

    assert log.queue_counts("q").ready == 1


def test_a_job_that_waits_is_counted_once(log: Log, penstock_clock: FakeClock) -> None:
    log.append("q", jobs(*["a"] * MANY))
    log.append("q", jobs("a"), delay_ms=100)
    penstock_clock.advance(200)
    assert seqs(log.claim("q", "ann")) == [1]  # looks at the last one because it came back
    assert seqs(log.claim("q", "ann")) == []  # and again because it was never out

    log.append("q", jobs(None))

    assert log.queue_counts("q").ready == 1


def test_a_job_that_comes_again_tomorrow_does_not_hold_up_its_group(
    log: Log, penstock_clock: FakeClock
) -> None:
    """The same job, waiting twice, gets the turn from itself."""
    last = MANY + 1
    log.append("q", jobs(*["a"] * MANY))
    log.append("q", jobs("a"), cron="0 3 * * *")
    penstock_clock.advance(86_400_000)
    assert seqs(log.claim("q", "ann")) == [1]
    assert seqs(log.claim("q", "ann")) == []
    for seq in range(1, last):
        log.ack("q", "ann", [seq])
        assert seqs(log.claim("q", "ann")) == [seq + 1]
    log.append("q", jobs("a"))

    log.ack("q", "ann", [last])

    assert seqs(log.claim("q", "ann")) == [last + 1]


# Queues that have groups for a while.


def test_a_job_whose_time_came_goes_out_when_groups_have_ended(
    log: Log, penstock_clock: FakeClock
) -> None:
    log.create("q", type="queue")
    log.append("q", jobs("a"), delay_ms=100)
    log.append("q", jobs("a"))
    assert seqs(log.claim("q", "ann")) == [2]
    log.create("q", type="queue", queue={"group_by": "tag"})
    penstock_clock.advance(200)
    assert log.claim("q", "ann").jobs == []

    log.create("q", type="queue")

    assert seqs(log.claim("q", "ann")) == [1]


def test_a_group_that_begins_with_two_out_waits_for_both(log: Log) -> None:
    log.create("q", type="queue")
    log.append("q", jobs("a", "a", "a"))
    log.claim("q", "ann", 2)
    log.create("q", type="queue", queue={"group_by": "tag"})
    assert log.claim("q", "ann").jobs == []

    log.ack("q", "ann", [2])

    assert log.claim("q", "ann").jobs == []


# What a claim does without the lock.


def test_a_job_that_goes_while_its_tag_is_looked_up_is_not_counted(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.append("q", jobs("a", "a", None, None))
    real = penstock.engine.job_offers.tags_of

    def and_meanwhile(*given: Any) -> Any:
        monkeypatch.undo()
        log.delete("q", seqs=[2])
        log.queue_counts("q")
        return real(*given)

    monkeypatch.setattr("penstock.engine.job_offers.tags_of", and_meanwhile)
    assert seqs(log.claim("q", "ann", 2)) == [1, 3]

    assert log.queue_counts("q").ready == 1
