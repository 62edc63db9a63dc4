"""A worker: claims jobs, gives each to a function, keeps its leases alive, and settles them.

It works on whatever has the verbs of a queue: a `Client`, or a `Log` in this process. A function
that returns has done its job; one that raises has not, and the job is tried again later.
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
_WAIT_S = 5.0  # for a job, before it is asked again whether to stop
_PAUSE_S = (0.1, 5.0)  # between attempts while the queue cannot be reached


class JobSource(Protocol):
    """What a worker needs of a queue."""

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
    """How long a job rests after its nth delivery failed: doubling, with full jitter."""

    def __init__(self, base_ms: int = 1_000, cap_ms: int = 300_000) -> None:
        self._base_ms = base_ms
        self._cap_ms = cap_ms

    def delay_ms(self, deliveries: int, roll: float) -> int:
        """`roll` is a random number from 0 up to 1."""
        ceiling = min(self._cap_ms, self._base_ms << min(deliveries - 1, 40))
        return round(ceiling / 2 + roll * ceiling / 2)


class Worker:
    """Runs `handler(job)` on up to `concurrency` threads. `run` returns after `stop`.

    A job whose lease was lost meanwhile (the process slept, the network was away) is not
    acknowledged: somebody else has it by then, and `lost` counts it. A job that failed rests as
    `backoff` says; without one, as the queue's own retry rule does if it has one.
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
            raise InvalidArgument(f"concurrency is a positive number, not {concurrency!r}")
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
        """Take no more jobs; those under way are finished. From any thread, or a signal handler's
        thread."""
        self._is_stopping = True
        with self._changed:
            self._changed.notify_all()

    def run(self) -> None:
        """Work until `stop`. Raises what cannot get better: no such queue, no such right."""
        beat = threading.Thread(target=self._keep_leases, name="penstock-leases", daemon=True)
        beat.start()
        try:
            with ThreadPoolExecutor(self._concurrency, "penstock-job") as threads:
                self._work(threads)
            self._settle_last()
        finally:
            self.stop()
            with self._changed:
                self._running.clear()
                self._changed.notify_all()
            beat.join()

    # Inside.

    def _work(self, threads: ThreadPoolExecutor) -> None:
        pause_s = _PAUSE_S[0]
        while not self._is_stopping:
            try:
                self._settle()
                room = self._room()
                if room and not self._is_stopping:
                    self._start(threads, room)
                pause_s = _PAUSE_S[0]
            except (Overloaded, OSError) as error:
                _log.warning("queue %r cannot be reached: %s", self._topic, error)
                with self._changed:
                    self._clock.wait(self._changed, pause_s)
                pause_s = min(pause_s * 2, _PAUSE_S[1])

    def _room(self) -> int:
        """How many more jobs there are hands for; waits for a free one."""
        with self._changed:
            while not self._is_stopping and not self._finished:
                room = self._concurrency - len(self._running)
                if room > 0:
                    return room
                self._clock.wait(self._changed, 1.0)
            return 0

    def _start(self, threads: ThreadPoolExecutor, room: int) -> None:
        with self._changed:
            wait_s = (
                0.05 if self._running else _WAIT_S
            )  # a finished job must not wait for a new one
        claimed = self._source.claim(
            self._topic, self.node, room, lease_ms=self._lease_ms, wait_s=wait_s
        )
        with self._changed:
            self._running |= {job.lease_id: job for job in claimed.jobs}
        for job in claimed.jobs:
            threads.submit(self._do, job)

    def _do(self, job: Job) -> None:
        try:
            self._handler(job)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the job was not done
            _log.warning(
                "job %d of queue %r failed at delivery %d",
                job.seq,
                self._topic,
                job.deliveries,
                exc_info=error,
            )
            self._give_back(job)
            with self._changed:
                self.failed += 1
                self._running.pop(job.lease_id, None)
                self._changed.notify_all()
        else:
            with self._changed:
                self._finished.append(job)
                self._changed.notify_all()

    def _give_back(self, job: Job) -> None:
        try:
            delay_ms = self._rest_ms(job)
            self._source.nack(self._topic, self.node, [job], delay_ms=delay_ms)
        except PenstockError as error:
            _log.warning("job %d comes back when its lease ends: %s", job.seq, error)

    def _rest_ms(self, job: Job) -> int | None:
        """How long a failed job rests; None: as the queue says."""
        backoff = self._backoff
        if backoff is None:
            if self._source.topic(self._topic).config.rules.retry_base_ms:
                return None
            backoff = Backoff()
        return backoff.delay_ms(job.deliveries, self._roll())

    def _settle(self) -> None:
        """Acknowledge everything that is finished with one call."""
        with self._changed:
            finished = self._finished[:]
        if not finished:
            return
        settled = self._source.ack(self._topic, self.node, finished)
        with self._changed:
            del self._finished[: len(finished)]
            for job in finished:
                self._running.pop(job.lease_id, None)
            self.done += settled.done
            self.lost += len(settled.skipped)

    def _settle_last(self) -> None:
        """What was under way has ended by now: acknowledge it while its leases may last."""
        until_s = self._clock.monotonic() + self._lease_ms / 1000
        pause_s = _PAUSE_S[0]
        while True:
            try:
                return self._settle()
            except (Overloaded, OSError) as error:
                if self._clock.monotonic() + pause_s > until_s:
                    _log.warning("jobs that are done will be done again: %s", error)
                    return
            with self._changed:
                self._clock.wait(self._changed, pause_s)
            pause_s = min(pause_s * 2, _PAUSE_S[1])

    def _keep_leases(self) -> None:
        """Extend what is under way, three times within a lease."""
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
