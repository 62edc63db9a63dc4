"""Claims that wait, and claims that are served together."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock import limits
from penstock.engine import queues
from penstock.engine.engine import Log
from penstock.engine.handle import Handle
from penstock.engine.queues import Queues
from penstock.errors import Closed, Overloaded, PenstockError, TopicNotFound
from penstock.testing import FakeClock
from penstock.testing.log import open_memory_log
from penstock.types import Claimed
from tests.support.serving import DEADLINE_S, eventually
from tests.unit.engine.test_queues import LEASE_MS, counts, each_class, outs, queue, seqs

WAIT_S = 20.0
DAY_MS = 86_400_000


class Caller:
    """A claim on a thread of its own."""

    def __init__(self, claim: Callable[[], Claimed]) -> None:
        self._claim = claim
        self._answer: Claimed | PenstockError | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._answer = self._claim()
        except PenstockError as error:
            self._answer = error

    def answer(self) -> Claimed:
        """What it got; it must not need any more time for that."""
        self._thread.join(DEADLINE_S)
        assert self._answer is not None, "it still waits"
        if isinstance(self._answer, PenstockError):
            raise self._answer
        return self._answer

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()


def asleep(clock: FakeClock) -> int:
    """How many wait for a time and were not woken meanwhile. One that was woken reads the clock
    before it waits again: if it were moved just then, it would wait for too long."""
    return sum(bool(condition._waiters) for _, condition in list(clock._waits))  # type: ignore[attr-defined]


@contextlib.contextmanager
def waiting(log: Log, clock: FakeClock, node: str = "ann") -> Iterator[Caller]:
    """Somebody who waits for a job, and is past looking for one."""
    caller = Caller(lambda: log.claim("q", node, 5, wait_s=WAIT_S))
    try:
        eventually(lambda: clock._waits or caller.is_over, "a claim that waits")
        yield caller
    finally:
        eventually(lambda: clock.advance(DAY_MS) or caller.is_over, "its end")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def log(clock: FakeClock) -> Log:
    return open_memory_log(clock=clock)


# Waiting.


def test_a_claim_that_finds_jobs_does_not_wait(log: Log) -> None:
    queue(log, 1, 2)

    assert seqs(log.claim("q", "ann", 5, wait_s=WAIT_S)) == [1, 2]


def test_a_claim_that_finds_nothing_in_its_time_is_empty(log: Log, clock: FakeClock) -> None:
    queue(log)
    with waiting(log, clock) as caller:
        clock.advance(WAIT_S * 1000)

        assert caller.answer() == Claimed("q", [], 0)
    assert log.core.parts.handles["q"].listeners == ()


@each_class
def test_an_append_wakes_who_waits(log: Log, clock: FakeClock, durability: str) -> None:
    queue(log, durability=durability)
    with waiting(log, clock) as caller:
        log.append("q", ["new"])

        assert [job.data for job in caller.answer().jobs] == ["new"]


def test_a_job_given_back_wakes_who_waits(log: Log, clock: FakeClock) -> None:
    queue(log, 1)
    jobs = log.claim("q", "bob").jobs
    with waiting(log, clock) as caller:
        log.nack("q", "bob", jobs)

        assert outs(caller.answer()) == {1: 2}


@pytest.mark.parametrize("delay_ms", [1, 700])
def test_a_job_put_off_is_had_at_its_time(log: Log, clock: FakeClock, delay_ms: int) -> None:
    queue(log, 1)
    jobs = log.claim("q", "bob").jobs
    with waiting(log, clock) as caller:
        log.nack("q", "bob", jobs, delay_ms=delay_ms)
        eventually(lambda: not counts(log)[1] and asleep(clock), "that it waits again")
        clock.advance(delay_ms + 1)

        assert outs(caller.answer()) == {1: 2}


def test_the_end_of_a_lease_wakes_who_waits(log: Log, clock: FakeClock) -> None:
    queue(log, 1)
    log.claim("q", "bob", lease_ms=5_000)
    with waiting(log, clock) as caller:
        clock.advance(5_001)

        assert outs(caller.answer()) == {1: 2}


def test_a_lease_made_shorter_is_had_at_its_new_end(log: Log, clock: FakeClock) -> None:
    queue(log, 1)
    jobs = log.claim("q", "bob", lease_ms=DAY_MS).jobs
    with waiting(log, clock) as caller:
        log.extend("q", "bob", jobs, lease_ms=1_000)
        eventually(lambda: asleep(clock), "that it waits again")
        clock.advance(1_001)

        assert outs(caller.answer()) == {1: 2}


def test_of_two_who_wait_each_gets_what_the_other_did_not(log: Log, clock: FakeClock) -> None:
    queue(log)
    with waiting(log, clock) as ann, waiting(log, clock, "bob") as bob:
        eventually(lambda: len(clock._waits) == 2, "that both wait")
        log.append("q", [1])
        eventually(lambda: ann.is_over or bob.is_over, "that one has it")
        log.append("q", [2])

        assert sorted([*seqs(ann.answer()), *seqs(bob.answer())]) == [1, 2]


def test_jobs_that_a_refused_claim_puts_back_wake_who_waits(
    log: Log, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue(log, 1, 2)
    real = Queues._stage
    held: list[Caller] = []

    with contextlib.ExitStack() as stack:

        def refused(self: Queues, handle: Handle, *given: Any) -> Any:
            """Both jobs are on offer to bob: ann finds nothing and waits."""
            monkeypatch.setattr(Queues, "_stage", real)
            handle.lock.release()
            held.append(stack.enter_context(waiting(log, clock)))
            handle.lock.acquire()
            raise Overloaded("the write queue is full", retry_after_ms=100)

        monkeypatch.setattr(Queues, "_stage", refused)
        with pytest.raises(Overloaded):
            log.claim("q", "bob", 5)

        assert seqs(held[0].answer()) == [1, 2]


def test_jobs_that_did_not_fit_an_answer_wake_who_waits(
    log: Log, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "READ_BYTES_MAX", 300)
    queue(log, "x" * 200, "y" * 200)
    real = queues.read_jobs
    held: list[Caller] = []

    with contextlib.ExitStack() as stack:

        def and_meanwhile(*given: Any) -> Any:
            monkeypatch.setattr(queues, "read_jobs", real)
            held.append(stack.enter_context(waiting(log, clock)))
            return real(*given)

        monkeypatch.setattr(queues, "read_jobs", and_meanwhile)

        assert seqs(log.claim("q", "bob", 5)) == [1]
        assert seqs(held[0].answer()) == [2]


def test_who_waits_for_a_queue_that_is_dropped_is_told(log: Log, clock: FakeClock) -> None:
    queue(log)
    with waiting(log, clock) as caller:
        log.drop("q")

        with pytest.raises(TopicNotFound):
            caller.answer()


def test_who_waits_when_the_log_is_closed_is_told(log: Log, clock: FakeClock) -> None:
    queue(log)
    with waiting(log, clock) as caller:
        log.close()

        with pytest.raises(Closed):
            caller.answer()


# Together.


@contextlib.contextmanager
def cohort(
    log: Log, clock: FakeClock, *claims: tuple[str, int, int | None], topic: str = "q"
) -> Iterator[list[Caller]]:
    """All of them have come, the first one first, and the window is still open."""
    callers: list[Caller] = []
    before = len(clock._waits)

    def claim_of(node: str, most: int, lease_ms: int | None) -> Callable[[], Claimed]:
        return lambda: log.claim(topic, node, most, lease_ms=lease_ms)

    def is_open() -> bool:
        found = log.core.claims._cohorts._open.get(log.core.parts.handles[topic].topic.id)
        return found is not None and len(found.claimers) == len(callers)

    try:
        for claim in claims:
            callers.append(Caller(claim_of(*claim)))
            eventually(is_open, "that the claim joined")
        eventually(lambda: len(clock._waits) > before, "that the first one waits")
        yield callers
    finally:
        done = lambda: all(caller.is_over for caller in callers)  # noqa: E731
        eventually(lambda: clock.advance(DAY_MS) or done(), "the end of all")


def test_claims_that_come_together_are_served_evenly(log: Log, clock: FakeClock) -> None:
    queue(log, *range(20), claim_jitter_ms=50)
    with cohort(log, clock, *[(node, 10, None) for node in "abcd"]) as callers:
        clock.advance(50)

        hands = [seqs(caller.answer()) for caller in callers]

    assert hands == [list(range(first, 21, 4)) for first in (1, 2, 3, 4)]


def test_nobody_is_served_before_the_window_ends(log: Log, clock: FakeClock) -> None:
    queue(log, 1, 2, claim_jitter_ms=50)
    with cohort(log, clock, ("a", 1, None), ("b", 1, None)) as callers:
        clock.advance(49)
        before = [caller.is_over for caller in callers], counts(log)
        clock.advance(1)

        assert before == ([False, False], (2, 0, 0))
        assert [seqs(caller.answer()) for caller in callers] == [[1], [2]]


def test_the_lease_of_the_first_holds_for_all(log: Log, clock: FakeClock) -> None:
    queue(log, 1, 2, claim_jitter_ms=50)
    with cohort(log, clock, ("a", 1, 7_000), ("b", 1, 90_000)) as callers:
        clock.advance(50)
        jobs = [job for caller in callers for job in caller.answer().jobs]

        assert {job.deadline for job in jobs} == {clock.now_ms() + 7_000}
        assert log.ack("q", "a", jobs[:1]).done == log.ack("q", "b", jobs[1:]).done == 1


def test_what_goes_wrong_goes_wrong_for_all_and_the_next_cohort_is_another(
    log: Log, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue(log, 1, 2, claim_jitter_ms=50)
    with cohort(log, clock, ("a", 1, None), ("b", 1, None)) as callers:
        monkeypatch.setattr(limits, "SHARD_QUEUE_SUBMISSIONS_MAX", 0)
        clock.advance(50)
        for caller in callers:
            with pytest.raises(Overloaded):
                caller.answer()
        monkeypatch.undo()
    with cohort(log, clock, ("a", 1, None), ("b", 1, None)) as callers:
        clock.advance(50)

        assert [seqs(caller.answer()) for caller in callers] == [[1], [2]]


def test_a_cohort_whose_first_thread_is_interrupted_ends_and_the_next_is_another(
    log: Log, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue(log, 1, claim_jitter_ms=50)
    with monkeypatch.context() as interrupted:

        def wait(*given: Any) -> bool:
            raise KeyboardInterrupt

        interrupted.setattr(clock, "wait", wait)
        with pytest.raises(KeyboardInterrupt):
            log.claim("q", "a")

    with cohort(log, clock, ("b", 1, None)) as [caller]:
        clock.advance(50)

        assert seqs(caller.answer()) == [1]


def test_each_queue_has_its_own_cohort(log: Log, clock: FakeClock) -> None:
    queue(log, 1, claim_jitter_ms=50)
    log.create("r", type="queue", claim_jitter_ms=80)
    log.append("r", ["other"])
    ours, theirs = ("a", 9, None), ("b", 9, None)
    with cohort(log, clock, ours) as [ann], cohort(log, clock, theirs, topic="r") as [bob]:
        clock.advance(50)
        assert seqs(ann.answer()) == [1]
        eventually(lambda: asleep(clock), "that the other waits again")
        assert not bob.is_over
        clock.advance(30)
        assert [job.data for job in bob.answer().jobs] == ["other"]


def test_a_queue_without_a_window_serves_at_once(log: Log, clock: FakeClock) -> None:
    queue(log, 1)

    assert seqs(log.claim("q", "a")) == [1]
    assert clock._waits == []


def test_who_waits_joins_cohorts_until_there_is_a_job(log: Log, clock: FakeClock) -> None:
    queue(log, claim_jitter_ms=50)
    caller = Caller(lambda: log.claim("q", "ann", wait_s=WAIT_S))
    for _ in range(3):
        eventually(lambda: clock._waits, "that it waits")
        clock.advance(50)
    log.append("q", [1])

    def is_over() -> bool:
        if asleep(clock):  # no time passes while it looks for the job
            clock.advance(50)
        return caller.is_over

    eventually(is_over, "that it has the job")

    assert seqs(caller.answer()) == [1]
    assert LEASE_MS > WAIT_S * 1000  # or its own lease would have ended meanwhile
