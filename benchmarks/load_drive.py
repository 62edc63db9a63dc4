"""A closed loop: a number of connections with a number of requests in flight on each."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from itertools import repeat
from typing import cast

from benchmarks.load_answers import (
    Answers,
    FrameAnswers,
    HttpAnswers,
    LineAnswers,
    Refused,
    SizedAnswers,
)
from benchmarks.load_cpu import Meter
from benchmarks.load_job import HERE, Drive, Load, percentile

HELLO_TIMEOUT_S = 10


class _Tally:
    """Counters that all connections share."""

    def __init__(self) -> None:
        self.answers = 0
        self.reads = 0
        self.waits: list[float] = []
        self.broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def fail(self, error: Exception) -> None:
        if not self.broken.done():
            self.broken.set_exception(error)


class _Connection(asyncio.Protocol):
    """Sends its hello, then keeps `in_flight` requests in flight until it is aborted."""

    def __init__(self, job: Drive, number: int, tally: _Tally) -> None:
        self._job = job
        here = b"%02d" % number
        requests = [request.replace(HERE, here) for request in job.requests]
        first = number * len(requests) // job.connections
        self._requests = requests[first:] + requests[:first]
        self._single = requests[0] if len(requests) == 1 else b""
        self._next = 0
        self._hello = job.hello.replace(HERE, here)
        self._greeting = b""
        self._answers = _answers(job)
        self._tally = tally
        self._sent: deque[float] = deque()
        self._begun = False
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._write = self._transport.write
        if self._hello:
            self._write(self._hello)
        else:
            self.ready.set_result(None)

    def begin(self) -> None:
        self._begun = True
        self._send(self._job.in_flight, time.perf_counter())

    def abort(self) -> None:
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if not self._begun:
            self._greet(data)
            return
        try:
            done = self._answers.feed(data)
        except Refused as error:
            self._tally.fail(error)
            self._transport.abort()
            return
        if self._answers.reply:
            self._write(self._answers.reply)
            self._answers.reply = b""
        tally = self._tally
        tally.reads += 1
        if not done:
            return
        now = time.perf_counter()
        tally.answers += done
        popleft, add = self._sent.popleft, tally.waits.append
        for _ in range(done):
            add(now - popleft())
        self._send(done, now)

    def _send(self, count: int, now: float) -> None:
        self._sent.extend(repeat(now, count))
        if self._single:
            self._write(self._single * count if count > 1 else self._single)
            return
        for _ in range(count):
            self._write(self._requests[self._next])
            self._next = (self._next + 1) % len(self._requests)

    def _greet(self, data: bytes) -> None:
        self._greeting += data
        if self._job.hello_ends in self._greeting and not self.ready.done():
            self.ready.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._tally.fail(exc or ConnectionError("the server closed a connection"))
        if not self.ready.done():
            self.ready.cancel()


def _answers(job: Drive) -> Answers:
    match job.dialect:
        case "http":
            return HttpAnswers()
        case "lines":
            return LineAnswers(job.lines, job.error)
        case "sized":
            return SizedAnswers(job.size)
        case "frames":
            return FrameAnswers()


async def drive(job: Drive) -> Load:
    """Warm up, then count for the time given."""
    loop = asyncio.get_running_loop()
    tally = _Tally()
    connections: list[_Connection] = []
    try:
        for number in range(job.connections):
            _, made = await loop.create_connection(
                lambda number=number: _Connection(job, number, tally),  # type: ignore[misc]
                "127.0.0.1",
                job.port,
            )
            connections.append(made)
        hellos = asyncio.gather(*(made.ready for made in connections))
        await asyncio.wait_for(hellos, HELLO_TIMEOUT_S)
        for made in connections:
            made.begin()
        await _unless_broken(tally, job.warm_up)
        return await _count(job, tally)
    finally:
        tally.fail(ConnectionError("over"))
        with contextlib.suppress(ConnectionError, Refused, OSError):
            await tally.broken  # retrieved here, so that asyncio does not report it again
        for made in connections:
            made.abort()


async def _count(job: Drive, tally: _Tally) -> Load:
    meter = Meter(job.pid)
    answers, reads = tally.answers, tally.reads
    tally.waits.clear()
    started = time.perf_counter()
    await _unless_broken(tally, job.seconds)
    elapsed = time.perf_counter() - started
    own, other, rest = meter.shares()
    waits = sorted(tally.waits)
    return Load(
        answers=tally.answers - answers,
        seconds=elapsed,
        reads=tally.reads - reads,
        p50_ms=percentile(waits, 0.50) * 1000,
        p99_ms=percentile(waits, 0.99) * 1000,
        generator_cores=own,
        server_cores=other,
        others_cores=rest,
    )


async def _unless_broken(tally: _Tally, seconds: float) -> None:
    done, _ = await asyncio.wait([tally.broken], timeout=seconds)
    for broken in done:
        broken.result()
