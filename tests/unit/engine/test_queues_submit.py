"""Verbs of queues that answer by callback: as those that wait do, and without waiting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock import limits
from penstock.engine.engine import Log
from penstock.engine.handle import Handle
from penstock.engine.queues import Claimer
from penstock.errors import InvalidArgument, LogFailed, NotAQueue, Overloaded, TopicNotFound
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.log import open_memory_log
from penstock.types import Claimed, Settled
from tests.unit.engine.test_queues import HOUR_MS, counts, each_class, each_lease, outs, queue, seqs

ANN = Claimer("ann", 2)
BOB = Claimer("bob", 9)


class Answers(list[Any]):
    """What callbacks got, and what was left for a thread."""

    def __init__(self) -> None:
        self.deferred: list[Callable[[], None]] = []

    def claim(self, log: Log, *claimers: Claimer, **given: Any) -> None:
        handle = log.core.parts.handles["q"]
        defer = self.deferred.append
        log.core.queues.submit_claim(handle, claimers or (ANN,), self.append, defer=defer, **given)


def later(handle: Handle) -> None:
    """Leave the commit in the queue of the shard."""


def handle_of(log: Log) -> Handle:
    return log.core.parts.handles["q"]


@each_class
@each_lease
def test_a_claim_answers_as_one_that_waits(durability: str, leases_durable: bool) -> None:
    clock = FakeClock()
    logs = [open_memory_log(clock=clock) for _ in range(2)]
    for log in logs:
        queue(log, *range(5), durability=durability, leases_durable=leases_durable)
    answers = Answers()

    answers.claim(logs[0], ANN, BOB)

    assert answers == [logs[1].core.queues.claim(handle_of(logs[1]), (ANN, BOB))]
    assert [seqs(one) for one in answers[0]] == [[1, 3], [2, 4, 5]]
    assert counts(logs[0]) == counts(logs[1]) == (0, 5, 0)
    assert not answers.deferred


@each_class
@each_lease
@pytest.mark.parametrize(
    ("verb", "options"),
    [("ack", {}), ("nack", {}), ("nack", {"delay_ms": 500}), ("extend", {"lease_ms": 90_000})],
)
def test_what_ends_or_extends_a_lease_answers_as_one_that_waits(
    verb: str, options: dict[str, int], durability: str, leases_durable: bool
) -> None:
    clock = FakeClock()
    logs = [open_memory_log(clock=clock) for _ in range(2)]
    for log in logs:
        queue(log, *range(5), durability=durability, leases_durable=leases_durable)
        log.claim("q", "ann", 3)
    answers: list[Settled] = []
    named = "ann", [3, 1, 5], ["lease_3", "lease_1", "lease_5"]

    getattr(logs[0].core.queues, f"submit_{verb}")(
        handle_of(logs[0]), *named, answers.append, **options
    )

    waited = getattr(logs[1].core.queues, verb)(handle_of(logs[1]), *named, **options)
    assert answers == [waited]
    assert (waited.done, waited.skipped) == (2, [5])
    assert counts(logs[0]) == counts(logs[1])


def test_nobody_is_answered_before_the_commit_and_nobody_else_gets_the_job() -> None:
    log = open_memory_log()
    queue(log, 1, 2, durability="fsync", leases_durable=True)
    ann, bob = Answers(), Answers()

    ann.claim(log, push=later)
    bob.claim(log, push=later)

    assert (ann, bob) == ([], [[Claimed("q", [], 0)]])
    handle_of(log).push()
    assert [seqs(one) for one in ann[0]] == [[1, 2]]


def test_what_was_staged_together_shares_a_sync() -> None:
    log = open_memory_log()
    queue(log, *range(4), durability="fsync", leases_durable=True)
    log.claim("q", "ann", 4)
    handle = handle_of(log)
    before = handle.shard.stats.syncs
    answers: list[Settled] = []

    log.core.queues.submit_ack(handle, "ann", [1], (), answers.append, push=later)
    log.core.queues.submit_nack(handle, "ann", [2], (), answers.append, push=later)
    log.core.queues.submit_extend(
        handle, "ann", [3], (), answers.append, lease_ms=9_000, push=later
    )
    log.core.queues.submit_ack(handle, "ann", [3], (), answers.append, push=later)
    unanswered = list(answers)
    handle.push()

    assert unanswered == []
    assert [one.done for one in answers] == [1, 1, 1, 1]
    assert handle.shard.stats.syncs == before + 1
    assert counts(log) == (1, 1, 0)


def test_a_commit_that_fails_is_answered_with_why() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    queue(log, 1, 2, durability="fsync", leases_durable=True)
    answers = Answers()
    answers.claim(log, push=later)
    fs.fail("sync")

    handle_of(log).push()

    assert [type(one) for one in answers] == [LogFailed]


def test_who_holds_nothing_is_answered_at_once(memory_log: Log) -> None:
    queue(memory_log, 1)
    answers: list[Settled] = []

    memory_log.core.queues.submit_ack(
        handle_of(memory_log), "ann", [1], (), answers.append, push=later
    )

    assert answers == [Settled("q", 0, [1], 1, 0)]


def test_what_is_known_at_once_is_raised(memory_log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    queue(memory_log, 1, 2)
    memory_log.create("events")
    answers = Answers()
    submit_ack = memory_log.core.queues.submit_ack

    with pytest.raises(InvalidArgument):
        submit_ack(handle_of(memory_log), "ann", [1, 2], ["lease_1"], answers.append)
    with pytest.raises(NotAQueue):
        submit_ack(memory_log.core.parts.handles["events"], "ann", [1], (), answers.append)
    with monkeypatch.context() as busy:
        busy.setattr(limits, "SHARD_QUEUE_SUBMISSIONS_MAX", 0)
        with pytest.raises(Overloaded):
            answers.claim(memory_log)

    assert answers == []
    assert outs(memory_log.claim("q", "bob", 9)) == {1: 1, 2: 1}


# The rest of a claim, on a thread.


def sealed(log: Log) -> None:
    """1 and 2 lie in a file, 3 in memory."""
    queue(log, 1, 2)
    log.checkpoint(everything=True)
    log.append("q", [3])


def test_jobs_in_a_file_are_read_on_a_thread(memory_log: Log) -> None:
    sealed(memory_log)
    answers = Answers()

    answers.claim(memory_log)
    before = list(answers), seqs(memory_log.claim("q", "bob", 9))
    [rest] = answers.deferred
    rest()

    assert before == ([], [3])
    assert [seqs(one) for one in answers[0]] == [[1, 2]]


def test_jobs_in_memory_behind_a_file_need_no_thread(memory_log: Log) -> None:
    sealed(memory_log)
    memory_log.claim("q", "bob", 2)
    answers = Answers()

    answers.claim(memory_log)

    assert [seqs(one) for one in answers[0]] == [[3]]
    assert not answers.deferred


@pytest.mark.parametrize(
    "config", [{"ttl_ms": HOUR_MS}, {"queue": {"group_by": "tag"}}], ids=["ttl", "groups"]
)
def test_a_claim_that_may_have_to_wait_for_others_goes_to_a_thread(
    memory_log: Log, config: dict[str, Any]
) -> None:
    queue(memory_log, 1, 2, **config)
    answers = Answers()

    answers.claim(memory_log)
    [rest] = answers.deferred
    rest()

    assert [seqs(one) for one in answers[0]] == [[1, 2]]


def test_dead_letters_are_moved_on_a_thread() -> None:
    clock = FakeClock()
    log = open_memory_log(clock=clock)
    queue(log, 1, 2, 3, max_deliveries=1, dead_letter="dead")
    log.claim("q", "ann", lease_ms=1_000)
    clock.advance(1_001)
    answers = Answers()

    answers.claim(log)
    moved_before = log.core.catalogue.find("dead") is not None
    [rest] = answers.deferred
    rest()

    assert not moved_before
    assert [seqs(one) for one in answers[0]] == [[2, 3]]
    assert [record.data for record in log.read("dead").records] == [1]


def test_a_thread_that_finds_the_queue_gone_says_so(memory_log: Log) -> None:
    sealed(memory_log)
    answers = Answers()
    answers.claim(memory_log)
    memory_log.drop("q")

    [rest] = answers.deferred
    rest()

    assert [type(one) for one in answers] == [TopicNotFound]


def test_jobs_that_a_thread_could_not_lease_are_for_others(
    memory_log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed(memory_log)
    answers = Answers()
    answers.claim(memory_log)
    [rest] = answers.deferred
    with monkeypatch.context() as busy:
        busy.setattr(limits, "SHARD_QUEUE_SUBMISSIONS_MAX", 0)
        rest()

    assert [type(one) for one in answers] == [Overloaded]
    assert outs(memory_log.claim("q", "bob", 9)) == {1: 1, 2: 1, 3: 1}


def test_jobs_that_no_thread_took_are_for_others(memory_log: Log) -> None:
    sealed(memory_log)

    def refuse(rest: Callable[[], None]) -> None:
        raise RuntimeError("no threads any more")

    with pytest.raises(RuntimeError):
        memory_log.core.queues.submit_claim(
            handle_of(memory_log), (ANN,), Answers().append, defer=refuse
        )

    assert seqs(memory_log.claim("q", "bob", 9)) == [1, 2, 3]
