"""Requests at full rate, and how long until a last answer shows the effect of all of them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import cast

from benchmarks.load_answers import Refused
from benchmarks.load_cpu import Meter
from benchmarks.load_job import COUNT, Load, Pour, percentile

_ASK_AGAIN_S = 0.005
_SHOWN = 300
_END_TIMEOUT_S = 50


class _Connection(asyncio.Protocol):
    """Keeps requests in flight until `stop`, and then asks when it is told to."""

    def __init__(self, job: Pour, number: int, waits: list[float]) -> None:
        self._job = job
        self._requests = job.requests
        self._next = number * len(job.requests) // job.connections
        self._waits = waits
        self._sent_at: list[float] = []
        self._marks = 0  # of an answer that is not complete
        self._tail = b""
        self._is_over = False
        self._on_data: Callable[[bytes], None] = self._count
        self.answers = 0
        loop = asyncio.get_running_loop()
        self.done: asyncio.Future[None] = loop.create_future()
        self._asked: asyncio.Future[bytes] = loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._on_data(data)

    def begin(self) -> None:
        for _ in range(self._job.in_flight):
            self._send()

    def stop(self) -> None:
        """Send no more; `done` when everything is answered."""
        self._is_over = True
        if not self._sent_at:
            self._end()

    def _send(self) -> None:
        self._sent_at.append(time.perf_counter())
        self.transport.write(self._requests[self._next])
        self._next = (self._next + 1) % len(self._requests)

    def _count(self, data: bytes) -> None:
        mark = self._job.mark
        data = self._tail + data
        self._marks += data.count(mark)
        self._tail = data[-(len(mark) - 1) :]
        if self._job.error in data:
            at = data.index(self._job.error)
            self._fail(Refused(data[at : at + _SHOWN].decode(errors="replace")))
            return
        while self._marks >= self._job.marks:
            self._marks -= self._job.marks
            self._waits.append(time.perf_counter() - self._sent_at.pop(0))
            self.answers += 1
            if not self._is_over:
                self._send()
            elif not self._sent_at:
                self._end()

    def _end(self) -> None:
        if not self.done.done():
            self.done.set_result(None)

    async def ask(self, answers: int) -> None:
        """Send the last request until its answer has what is expected."""
        seen = self._job.seen.replace(COUNT, b"%d" % answers)
        deadline = time.perf_counter() + _END_TIMEOUT_S
        while time.perf_counter() < deadline:
            self._asked = asyncio.get_running_loop().create_future()
            self._tail = b""
            self._on_data = self._collect
            self.transport.write(self._job.check)
            answer = await asyncio.wait_for(self._asked, _END_TIMEOUT_S)
            if seen in answer:
                return
            if self._job.again not in answer:
                raise Refused(f"expected {seen!r}: {answer[:_SHOWN]!r}")
            await asyncio.sleep(_ASK_AGAIN_S)
        raise TimeoutError("the state did not follow in time")

    def _collect(self, data: bytes) -> None:
        self._tail += data
        if self._job.check_end in self._tail and not self._asked.done():
            self._asked.set_result(self._tail)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(exc or ConnectionError("the server closed a connection"))

    def _fail(self, error: Exception) -> None:
        for future in (self.done, self._asked):
            if not future.done():
                future.set_exception(error)


async def pour(job: Pour) -> Load:
    """The time is that from the first request to the answer that shows the effect of all."""
    loop = asyncio.get_running_loop()
    waits: list[float] = []
    connections: list[_Connection] = []
    try:
        for number in range(job.connections):
            _, made = await loop.create_connection(
                lambda number=number: _Connection(job, number, waits),  # type: ignore[misc]
                "127.0.0.1",
                job.port,
            )
            connections.append(made)
        meter, started = Meter(job.pid), time.perf_counter()
        for made in connections:
            made.begin()
        done = asyncio.gather(*(made.done for made in connections))
        await asyncio.wait([done], timeout=job.seconds)
        for made in connections:
            made.stop()
        await asyncio.wait_for(done, _END_TIMEOUT_S)
        answers = sum(made.answers for made in connections)
        await connections[0].ask(answers)
        elapsed = time.perf_counter() - started
        own, other, rest = meter.shares()
    finally:
        for made in connections:
            made.transport.abort()
            for future in (made.done, made._asked):
                future.cancel()
                with contextlib.suppress(BaseException):
                    future.exception()  # retrieved, so that asyncio does not report it again
    ordered = sorted(waits)
    return Load(
        answers=answers,
        seconds=elapsed,
        p50_ms=percentile(ordered, 0.50) * 1000,
        p99_ms=percentile(ordered, 0.99) * 1000,
        generator_cores=own,
        server_cores=other,
        others_cores=rest,
    )
