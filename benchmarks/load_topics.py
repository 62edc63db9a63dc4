"""Many topics, the same requests to each in order: how long until every request is answered."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from typing import cast

from benchmarks.load_answers import HttpAnswers, Refused
from benchmarks.load_cpu import Meter
from benchmarks.load_job import TOPIC, EachTopic, Load, percentile


class _Connection(asyncio.Protocol):
    """Sends its requests one by one, the next when the last is answered."""

    def __init__(self, requests: Iterator[bytes], waits: list[float]) -> None:
        self._requests = requests
        self._waits = waits
        self._answers = HttpAnswers()
        self._sent_at = 0.0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def send(self) -> None:
        request = next(self._requests, None)
        if request is None:
            self.done.set_result(None)
            return
        self._sent_at = time.perf_counter()
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        try:
            answered = self._answers.feed(data)
        except Refused as error:
            self._fail(error)
            return
        if answered:
            self._waits.append(time.perf_counter() - self._sent_at)
            self.send()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(exc or ConnectionError("the server closed a connection"))

    def _fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)


async def each_topic(job: EachTopic) -> Load:
    """Send everything, and count the time until the last answer."""
    loop = asyncio.get_running_loop()
    waits: list[float] = []
    connections: list[_Connection] = []
    try:
        for number in range(job.connections):
            _, made = await loop.create_connection(
                lambda number=number: _Connection(_requests(job, number), waits),  # type: ignore[misc]
                "127.0.0.1",
                job.port,
            )
            connections.append(made)
        meter, started = Meter(job.pid), time.perf_counter()
        for made in connections:
            made.send()
        await asyncio.wait_for(asyncio.gather(*(made.done for made in connections)), job.seconds)
        elapsed = time.perf_counter() - started
        own, other, rest = meter.shares()
    finally:
        for made in connections:
            made.transport.abort()
            made.done.cancel()
            with contextlib.suppress(BaseException):
                made.done.exception()  # retrieved, so that asyncio does not report it again
    ordered = sorted(waits)
    return Load(
        answers=len(ordered),
        seconds=elapsed,
        p50_ms=percentile(ordered, 0.50) * 1000,
        p99_ms=percentile(ordered, 0.99) * 1000,
        generator_cores=own,
        server_cores=other,
        others_cores=rest,
    )


def _requests(job: EachTopic, number: int) -> Iterator[bytes]:
    """The requests of one connection, topic by topic."""
    for topic in range(number, job.topics, job.connections):
        name = b"%0*d" % (len(TOPIC), topic)
        for request in job.requests:
            yield request.replace(TOPIC, name)
