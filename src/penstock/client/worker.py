"""A worker: claims jobs, calls a function for each, extends the leases, and acks or nacks the jobs.

It needs an object with the verbs of a queue: a `Client`, or a `Log` in this process. When the
function returns, the job is acknowledged. When it raises, the job is retried later.
"""

from __future__ import annotations

import logging
import os
import random
import socket
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from penstock.clock import Clock, SystemClock
from penstock.errors import Closed, InvalidArgument, Overloaded, PenstockError, UsageError
from penstock.types import Claimed, Job, Settled, TopicInfo

_log = logging.getLogger("penstock.worker")
_WAIT_S = 5.0  # how long a claim waits for a job before the worker checks for `stop`
_PAUSE_S = (0.1, 5.0)  # first and longest pause while the queue cannot be reached


class JobSource(Protocol):
    """The verbs that a worker needs."""

    def claim(
        self,
        topic: str,
        node: str,
        max: int = 1,
        *,
        lease_ms: int | None = None,
        wait_s: float = 0.0,
    ) -> Claimed: ...

    def ack(
        self, topic: str, node: str, jobs: Sequence[int | Job], lease_ids: Sequence[str] = ()
    ) -> Settled: ...

    def nack(
        self,
        topic: str,
        node: str,
        jobs: Sequence[int | Job],
        lease_ids: Sequence[str] = (),
        *,
        delay_ms: int | None = None,
    ) -> Settled: ...

    def extend(
        self,
        topic: str,
        node: str,
        jobs: Sequence[int | Job],
        lease_ids: Sequence[str] = (),
        *,
        lease_ms: int,
    ) -> Settled: ...

    def topic(self, name: str) -> TopicInfo: ...


class Backoff:
    """The delay before a failed job is retried: exponential, from half to all of the ceiling."""

    def __init__(self, base_ms: int = 1_000, cap_ms: int = 300_000) -> None:
        self._base_ms = base_ms
        self._cap_ms = cap_ms

    def delay_ms(self, deliveries: int, roll: float) -> int:
        """`roll` is a random number from 0 up to 1."""
        ceiling = min(self._cap_ms, self._base_ms << min(deliveries - 1, 40))
        return round(ceiling / 2 + roll * ceiling / 2)


class Worker:
    """Runs `handler(job)` on up to `concurrency` threads. `run` returns after `stop`.

    A job whose lease ended meanwhile (the process was suspended, the network failed) is not
    acknowledged: another worker may have it, and `lost` counts it. A failed job is retried after
    the delay of `backoff`; without one, by the queue's retry rule if it has one.
    """

    def __init__(
        self,
        source: JobSource,
        topic: str,
        handler: Callable[[Job], object],
        *,
        node: str | None = None,
        concurrency: int = 1,
        lease_ms: int = 30_000,
        backoff: Backoff | None = None,
        clock: Clock | None = None,
        roll: Callable[[], float] = random.random,
    ) -> None:
        if concurrency < 1:
            raise InvalidArgument(
                f"invalid concurrency {concurrency!r}: expected a positive number"
            )
        self.node = node or f"{socket.gethostname()}-{os.getpid()}-{os.urandom(3).hex()}"
        self.done = 0
        self.failed = 0
        self.lost = 0
        self._source = source
        self._topic = topic
        self._handler = handler
        self._concurrency = concurrency
        self._lease_ms = lease_ms
        self._backoff = backoff
        self._clock = clock or SystemClock()
        self._roll = roll
        self._changed = threading.Condition()
        self._running: dict[str, Job] = {}  # by lease; guarded by the condition, as those below
        self._finished: list[Job] = []
        self._is_stopping = False

    def stop(self) -> None:
        """Claim no more jobs and finish those in progress. From any thread or signal handler."""
        self._is_stopping = True
        with self._changed:
            self._changed.notify_all()

    def run(self) -> None:
        """Work until `stop`. Raises errors that a retry cannot cure, such as `TopicNotFound`."""
        extender = threading.Thread(target=self._extend_leases, name="penstock-leases", daemon=True)
        extender.start()
        try:
            with ThreadPoolExecutor(self._concurrency, "penstock-job") as threads:
                self._work(threads)
            self._ack_remaining()
        finally:
            self.stop()
            with self._changed:
                self._running.clear()
                self._changed.notify_all()
            extender.join()

    def _work(self, threads: ThreadPoolExecutor) -> None:
        pause_s = _PAUSE_S[0]
        while not self._is_stopping:
            try:
                self._ack_finished()
                room = self._free_threads()
                if room and not self._is_stopping:
                    self._start(threads, room)
                pause_s = _PAUSE_S[0]
            except (Overloaded, OSError) as error:
                _log.warning("queue %r cannot be reached: %s", self._topic, error)
                with self._changed:
                    self._clock.wait(self._changed, pause_s)
                pause_s = min(pause_s * 2, _PAUSE_S[1])

    def _free_threads(self) -> int:
        """The number of free threads, at least one; 0 when a job has finished or on `stop`."""
        with self._changed:
            while not self._is_stopping and not self._finished:
                room = self._concurrency - len(self._running)
                if room > 0:
                    return room
                self._clock.wait(self._changed, 1.0)
            return 0

    def _start(self, threads: ThreadPoolExecutor, room: int) -> None:
        with self._changed:
            # A job that finishes during the claim is acknowledged only after it.
            wait_s = 0.05 if self._running else _WAIT_S
        claimed = self._source.claim(
            self._topic, self.node, room, lease_ms=self._lease_ms, wait_s=wait_s
        )
        with self._changed:
            self._running |= {job.lease_id: job for job in claimed.jobs}
        for job in claimed.jobs:
            threads.submit(self._run_job, job)

    def _run_job(self, job: Job) -> None:
        try:
            self._handler(job)
        except BaseException as error:  # noqa: BLE001 - after any exception the job is not done
            _log.warning(
                "job %d of queue %r failed at delivery %d",
                job.seq,
                self._topic,
                job.deliveries,
                exc_info=error,
            )
            self._nack(job)
            with self._changed:
                self.failed += 1
                self._running.pop(job.lease_id, None)
                self._changed.notify_all()
        else:
            with self._changed:
                self._finished.append(job)
                self._changed.notify_all()

    def _nack(self, job: Job) -> None:
        try:
            delay_ms = self._retry_delay_ms(job)
            self._source.nack(self._topic, self.node, [job], delay_ms=delay_ms)
        except PenstockError as error:
            _log.warning(
                "job %d is ready again only when its lease ends: nack failed: %s", job.seq, error
            )

    def _retry_delay_ms(self, job: Job) -> int | None:
        """The delay before a failed job is retried; None: the queue's retry rule applies."""
        backoff = self._backoff
        if backoff is None:
            if self._source.topic(self._topic).config.rules.retry_base_ms:
                return None
            backoff = Backoff()
        return backoff.delay_ms(job.deliveries, self._roll())

    def _ack_finished(self) -> None:
        """Acknowledge all finished jobs with one call."""
        with self._changed:
            finished = self._finished[:]
        if not finished:
            return
        acked = self._source.ack(self._topic, self.node, finished)
        with self._changed:
            del self._finished[: len(finished)]
            for job in finished:
                self._running.pop(job.lease_id, None)
            self.done += acked.done
            self.lost += len(acked.skipped)

    def _ack_remaining(self) -> None:
        """All handlers have returned: acknowledge their jobs, with retries until the leases end."""
        until_s = self._clock.monotonic() + self._lease_ms / 1000
        pause_s = _PAUSE_S[0]
        while True:
            try:
                return self._ack_finished()
            except (Overloaded, OSError) as error:
                if self._clock.monotonic() + pause_s > until_s:
                    _log.warning(
                        "finished jobs could not be acknowledged and will run again: %s", error
                    )
                    return
            with self._changed:
                self._clock.wait(self._changed, pause_s)
            pause_s = min(pause_s * 2, _PAUSE_S[1])

    def _extend_leases(self) -> None:
        """Extend the leases of running jobs three times within a lease."""
        while True:
            due_s = self._clock.monotonic() + self._lease_ms / 3000
            with self._changed:
                while (left_s := due_s - self._clock.monotonic()) > 0:
                    if self._is_stopping and not self._running:
                        return
                    self._clock.wait(self._changed, left_s)
                held = list(self._running.values())
            if not held:
                continue
            try:
                self._source.extend(self._topic, self.node, held, lease_ms=self._lease_ms)
            except (Closed, UsageError):
                return
            except PenstockError as error:
                _log.warning("leases could not be extended: %s", error)
