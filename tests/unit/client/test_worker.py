"""A worker on a log in this process: what it does with jobs, and with what goes wrong."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock.client.worker import Backoff, Worker
from penstock.engine.engine import Log
from penstock.errors import InvalidArgument, NotAQueue, Overloaded, PenstockError, TopicNotFound
from penstock.testing import FakeClock
from penstock.testing.log import open_memory_log
from penstock.types import Job, QueueCounts
from tests.support.serving import eventually
from tests.unit.client.support import DEADLINE_S

LEASE_MS = 86_400_000  # no lease ends while a busy machine keeps a thread waiting


def at_last(probe: Callable[[], object], what: str) -> None:
    """Wait until this is true, while time stands still."""
    eventually(probe, what, DEADLINE_S)


class Source:
    """The verbs of a log, counted; the next ones may be refused."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.calls: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()  # how many are left, by verb

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        def called(*given: Any, **named: Any) -> Any:
            self.calls[verb] += 1
            if self.refusals[verb] > 0:
                self.refusals[verb] -= 1
                raise Overloaded(f"no {verb} now", retry_after_ms=1)
            return getattr(self.log, verb)(*given, **named)

        return called


class Site:
    """A queue of a log whose time the test moves, and workers who are stopped at the end."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.log = open_memory_log(clock=self.clock)
        self.log.create("q", type="queue")
        self.source = Source(self.log)
        self.go = threading.Event()  # for handlers that wait
        self._started: list[tuple[Worker, threading.Thread]] = []
        self.raised: list[BaseException] = []

    def start(self, handler: Callable[[Job], object], **more: Any) -> Worker:
        more = {"clock": self.clock, "node": "ann", "roll": lambda: 0.0, **more}
        more.setdefault("lease_ms", LEASE_MS)
        worker = Worker(self.source, "q", handler, **more)

        def run() -> None:
            try:
                worker.run()
            except PenstockError as error:
                self.raised.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        self._started.append((worker, thread))
        return worker

    def until(self, probe: Callable[[], object], what: str, *, step_ms: int = 20) -> None:
        """Let time go by until this is true."""
        pause, polls = threading.Event(), int(DEADLINE_S / 0.002)
        for _ in range(polls):
            if probe():
                return
            self.clock.advance(step_ms)
            pause.wait(0.002)
        raise AssertionError(f"it does not come about: {what}")

    def keep(self, worker: Worker, *, idle: int = 2) -> None:
        """A third of the lease goes by, and the worker asks for more of it. `idle` of its threads
        wait for nothing but the time."""
        before = self.source.calls["extend"]

        def are_idle() -> bool:
            """The one that keeps the leases is among them: nobody else waits for so long."""
            waits = [at_us for at_us, one in list(self.clock._waits) if one is worker._changed]
            return len(waits) == idle and max(waits) / 1e6 > self.clock.monotonic() + 60

        at_last(are_idle, "that nothing is left to do")
        self.clock.advance(worker._lease_ms / 3 + 1)
        at_last(lambda: self.source.calls["extend"] > before, "that it asks")

    def is_over(self, worker: Worker) -> bool:
        return all(not thread.is_alive() for one, thread in self._started if one is worker)

    def stop(self, worker: Worker) -> None:
        worker.stop()
        self.until(lambda: self.is_over(worker), "the worker's end", step_ms=100)

    def end(self) -> None:
        self.go.set()
        for worker, _ in self._started:
            self.stop(worker)

    @property
    def counts(self) -> QueueCounts:
        return self.log.queue_counts("q")


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    yield made
    made.end()


class Handler:
    """Notes every job; `fails` of the deliveries raise, and those of `slow` jobs wait."""

    def __init__(self, site: Site, *, fails: int = 0, slow: frozenset[int] = frozenset()) -> None:
        self.seen: list[tuple[int, int]] = []
        self._site = site
        self._fails = fails
        self._slow = slow
        self._lock = threading.Lock()

    def __call__(self, job: Job) -> None:
        with self._lock:
            self.seen.append((job.seq, job.deliveries))
        if job.seq in self._slow:
            assert self._site.go.wait(DEADLINE_S)
        if job.deliveries <= self._fails:
            raise ValueError(f"not at delivery {job.deliveries}")


# Jobs.


@pytest.mark.parametrize("concurrency", [1, 4])
def test_every_job_is_given_to_the_function_once_and_is_done(site: Site, concurrency: int) -> None:
    site.log.append("q", [{"n": number} for number in range(20)])
    got: list[Any] = []

    worker = site.start(lambda job: got.append(job.data["n"]), concurrency=concurrency)
    site.until(lambda: worker.done == 20, "all jobs are done")

    assert sorted(got) == list(range(20))
    assert (worker.failed, worker.lost) == (0, 0)
    assert site.counts == QueueCounts(0, 0, 0, 0)


def test_jobs_that_come_later_are_done_too(site: Site) -> None:
    handler = Handler(site)
    worker = site.start(handler)
    for seq in (1, 2, 3):
        site.log.append("q", [seq])
        site.until(lambda seq=seq: worker.done == seq, f"job {seq} is done")

    assert handler.seen == [(1, 1), (2, 1), (3, 1)]


def test_no_more_jobs_are_taken_than_there_are_hands(site: Site) -> None:
    site.log.append("q", list(range(10)))
    handler = Handler(site, slow=frozenset(range(1, 11)))
    worker = site.start(handler, concurrency=3)
    site.until(lambda: len(handler.seen) == 3, "three jobs are under way")
    site.keep(worker)

    assert (site.counts.ready, site.counts.in_flight) == (7, 3)
    site.go.set()
    site.until(lambda: worker.done == 10, "all jobs are done")


def test_finished_jobs_are_done_while_others_are_under_way(site: Site) -> None:
    site.log.append("q", list(range(4)))
    worker = site.start(Handler(site, slow=frozenset([1])), concurrency=2)

    site.until(lambda: worker.done == 3, "the quick ones are done")

    assert site.counts.in_flight == 1


# Failing.


def test_a_job_whose_function_raises_is_tried_again_after_a_rest(site: Site) -> None:
    site.log.append("q", ["x"])
    handler = Handler(site, fails=2)
    worker = site.start(handler, backoff=Backoff(base_ms=1_000))
    at_last(lambda: worker.failed == 1, "the first failure")
    resting = site.counts
    before_ms = site.clock.now_ms()
    site.until(lambda: worker.done, "the third delivery")

    assert resting == QueueCounts(0, 0, 1, 0)
    assert handler.seen == [(1, 1), (1, 2), (1, 3)]
    assert (worker.failed, worker.lost) == (2, 0)
    assert site.clock.now_ms() - before_ms >= 1_500  # rests of half a second and of one


def test_a_queue_with_a_rule_of_its_own_is_asked_how_long_a_job_rests(site: Site) -> None:
    rules = {"retry_base_ms": 60_000, "retry_jitter": 0}
    site.log.create("q", type="queue", queue=rules)
    site.log.append("q", ["x"])
    handler = Handler(site, fails=1)
    worker = site.start(handler)
    at_last(lambda: worker.failed == 1, "the failure")
    before_ms = site.clock.now_ms()
    site.until(lambda: worker.done, "the second delivery", step_ms=500)

    assert site.clock.now_ms() - before_ms >= 59_000


def test_a_failing_job_keeps_nobody_waiting(site: Site) -> None:
    site.log.append("q", list(range(5)))
    done: list[int] = []

    def handler(job: Job) -> None:
        if job.seq == 1:
            raise ValueError
        done.append(job.seq)

    worker = site.start(handler, backoff=Backoff(base_ms=1_000_000, cap_ms=1_000_000))
    site.until(lambda: worker.done == 4, "the others are done")

    assert done == [2, 3, 4, 5]
    assert site.counts == QueueCounts(0, 0, 1, 0)


def test_a_job_that_could_not_be_given_back_comes_back_when_its_lease_ends(site: Site) -> None:
    site.log.append("q", ["x"])
    site.source.refusals["nack"] = 1
    handler = Handler(site, fails=1)
    worker = site.start(handler)
    at_last(lambda: worker.failed == 1, "the failure")

    site.clock.advance(LEASE_MS)
    site.until(lambda: worker.done == 1, "the second delivery")

    assert handler.seen == [(1, 1), (1, 2)]


@pytest.mark.parametrize("end", [SystemExit, KeyboardInterrupt])
def test_a_function_that_wants_to_end_the_process_has_not_done_its_job(
    site: Site, end: type[BaseException]
) -> None:
    site.log.append("q", ["x"])

    def handler(job: Job) -> None:
        raise end

    worker = site.start(handler, backoff=Backoff(base_ms=1_000_000, cap_ms=1_000_000))

    at_last(lambda: worker.failed == 1, "that it failed")
    assert site.counts == QueueCounts(0, 0, 1, 0)


@pytest.mark.parametrize(
    ("deliveries", "least_ms", "most_ms"),
    [(1, 500, 1_000), (2, 1_000, 2_000), (4, 4_000, 8_000), (9, 30_000, 60_000)],
)
def test_rests_double_up_to_a_bound_and_vary(deliveries: int, least_ms: int, most_ms: int) -> None:
    backoff = Backoff(base_ms=1_000, cap_ms=60_000)

    assert backoff.delay_ms(deliveries, 0.0) == least_ms
    assert least_ms < backoff.delay_ms(deliveries, 0.5) < most_ms
    assert backoff.delay_ms(deliveries, 0.999_999_999) == most_ms


def test_a_job_that_failed_a_thousand_times_rests_as_long_as_any() -> None:
    assert Backoff(cap_ms=300_000).delay_ms(1_000, 1.0) == 300_000


# Leases.


def test_the_leases_of_long_jobs_are_kept(site: Site) -> None:
    site.log.append("q", ["long"])
    worker = site.start(Handler(site, slow=frozenset([1])))
    site.until(lambda: site.counts.in_flight == 1, "the job is under way")

    for _ in range(10):  # more than three leases
        site.keep(worker)

    assert site.log.claim("q", "bob").jobs == []
    site.go.set()
    site.until(lambda: worker.done == 1, "it is done")
    assert worker.lost == 0


def test_leases_are_kept_by_the_clock_and_not_by_every_job_that_ends(site: Site) -> None:
    site.log.append("q", list(range(200)))
    worker = site.start(Handler(site), concurrency=4)

    site.until(lambda: worker.done == 200, "all jobs are done")

    assert site.source.calls["extend"] == 0


def test_a_job_that_somebody_else_has_by_then_is_counted_as_lost(site: Site) -> None:
    site.log.append("q", ["x"])
    worker = site.start(Handler(site, slow=frozenset([1])))
    site.until(lambda: site.counts.in_flight == 1, "the job is under way")
    site.log.nack("q", "ann", [1])
    [job] = site.log.claim("q", "bob", lease_ms=LEASE_MS).jobs

    site.go.set()
    site.until(lambda: worker.lost == 1, "it was noticed")

    assert worker.done == 0
    assert site.log.ack("q", "bob", [job]).done == 1


def test_a_job_that_comes_to_the_same_worker_again_keeps_its_new_lease(site: Site) -> None:
    site.log.append("q", ["x"])
    second = threading.Event()

    def handler(job: Job) -> None:
        assert (site.go if job.deliveries == 1 else second).wait(DEADLINE_S)

    worker = site.start(handler, concurrency=2)
    try:
        site.until(lambda: site.counts.in_flight == 1, "the job is under way")
        site.log.nack("q", "ann", [1])
        site.until(lambda: site.counts.in_flight == 1, "it is under way again")
        site.go.set()
        site.until(lambda: worker.lost == 1, "the first attempt was too late")
        for _ in range(4):  # more than a lease
            site.keep(worker, idle=1)
    finally:
        second.set()
    site.until(lambda: worker.done == 1, "the second attempt counts")


# Stopping.


def test_a_stopped_worker_finishes_what_is_under_way_and_takes_no_more(site: Site) -> None:
    site.log.append("q", list(range(5)))
    handler = Handler(site, slow=frozenset([1, 2]))
    worker = site.start(handler, concurrency=2)
    site.until(lambda: len(handler.seen) == 2, "two jobs are under way")

    worker.stop()
    site.keep(worker, idle=1)
    still_runs = not site.is_over(worker)
    site.go.set()
    site.stop(worker)

    assert still_runs
    assert worker.done == 2
    assert site.counts == QueueCounts(3, 0, 0, 0)
    assert [seq for seq, _ in handler.seen] == [1, 2]


def test_what_is_finished_counts_though_the_queue_is_busy_when_the_worker_stops(
    site: Site,
) -> None:
    site.log.append("q", ["x"])
    handler = Handler(site, slow=frozenset([1]))
    worker = site.start(handler)
    site.until(lambda: handler.seen, "the job is under way")
    site.source.refusals["ack"] = 2
    worker.stop()
    site.go.set()
    site.stop(worker)

    assert (worker.done, site.raised) == (1, [])
    assert site.log.topic("q").count == 0


def test_an_idle_worker_can_be_stopped(site: Site) -> None:
    worker = site.start(Handler(site))
    site.until(lambda: site.source.calls["claim"], "it waits for jobs")

    site.stop(worker)

    assert site.is_over(worker)
    assert site.raised == []


# A queue that is busy, or not there.


def test_a_busy_queue_is_asked_again(site: Site) -> None:
    site.log.append("q", list(range(6)))
    site.source.refusals |= Counter(claim=3, ack=2, extend=2)
    handler = Handler(site)

    worker = site.start(handler, concurrency=2)
    site.until(lambda: worker.done == 6, "all jobs are done")

    assert Counter(handler.seen) == Counter({(seq, 1): 1 for seq in range(1, 7)})
    assert worker.lost == 0


def test_leases_outlive_a_refused_extension(site: Site) -> None:
    site.log.append("q", ["long"])
    site.source.refusals["extend"] = 1
    worker = site.start(Handler(site, slow=frozenset([1])))
    site.until(lambda: site.counts.in_flight == 1, "the job is under way")

    for _ in range(5):
        site.keep(worker)

    assert site.counts.in_flight == 1
    site.go.set()
    site.until(lambda: worker.done == 1, "it is done")


@pytest.mark.parametrize(("topic", "error"), [("nope", TopicNotFound), ("log", NotAQueue)])
def test_what_cannot_get_better_ends_the_worker(
    site: Site, topic: str, error: type[PenstockError]
) -> None:
    site.log.create("log")
    worker = Worker(site.log, topic, Handler(site), clock=site.clock)

    with pytest.raises(error):
        worker.run()


@pytest.mark.parametrize("concurrency", [0, -1])
def test_a_worker_has_at_least_one_hand(site: Site, concurrency: int) -> None:
    with pytest.raises(InvalidArgument, match="concurrency"):
        Worker(site.log, "q", Handler(site), concurrency=concurrency)


def test_workers_without_a_name_get_different_ones(site: Site) -> None:
    names = {Worker(site.log, "q", Handler(site)).node for _ in range(20)}

    assert len(names) == 20
