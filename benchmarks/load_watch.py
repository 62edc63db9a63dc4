"""Open streams and a steady writer: how long a write takes to reach each stream."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from typing import cast

from benchmarks.load_answers import HttpAnswers, Refused
from benchmarks.load_cpu import Meter
from benchmarks.load_job import STAMP, Load, Watch, percentile

READY_TIMEOUT_S = 20
LATE_S = 2  # a delivery may come so long after the last write
_BASE = 10**18  # makes every stamp 19 digits long
_STAMP = re.compile(rb'"t":(\d{19})\D')
_KEPT = 32  # bytes that may hold the beginning of a stamp


def stamp() -> int:
    """The time, as a number of 19 digits."""
    return _BASE + time.perf_counter_ns()


class Stamps:
    """Finds the stamps in a stream, wherever the stream is cut."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[int]:
        data = self._rest + data
        found, end = [], 0
        for match in _STAMP.finditer(data):
            found.append(int(match[1]))
            end = match.end()
        self._rest = data[end:][-_KEPT:]
        return found


class _Deliveries:
    """The latency of each delivery, over all streams, and an event for the last one."""

    def __init__(self, expected: int) -> None:
        self.expected = expected
        self.waits: list[int] = []
        self.all_there = asyncio.Event()

    def record(self, wait: int) -> None:
        self.waits.append(wait)
        if len(self.waits) == self.expected:
            self.all_there.set()


class _Stream(asyncio.Protocol):
    """One watcher. It is ready when the server has begun to answer."""

    def __init__(self, request: bytes, deliveries: _Deliveries) -> None:
        self._request = request
        self._record = deliveries.record
        self._stamps = Stamps()
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now = stamp()
        if not self.ready.done():
            if data.startswith(b"HTTP/1.1 200"):
                self.ready.set_result(None)
            else:
                self.ready.set_exception(Refused(data[:300].decode("utf-8", "replace")))
        for sent in self._stamps.feed(data):
            self._record(now - sent)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ready.done():
            self.ready.set_exception(exc or ConnectionError("a stream was closed"))


class _Writer(asyncio.Protocol):
    """Writes on request. A refusal is raised by the next write."""

    def __init__(self, request: bytes) -> None:
        self._before, self._after = request.split(STAMP)
        self._answers = HttpAnswers()
        self.refusal: Refused | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def write(self) -> None:
        if self.refusal:
            raise self.refusal
        self.transport.write(b"%b%d%b" % (self._before, stamp(), self._after))

    def data_received(self, data: bytes) -> None:
        try:
            self._answers.feed(data)
        except Refused as error:
            self.refusal = error


async def watch(job: Watch) -> Load:
    """Open all streams, write at the given pace, then wait a moment for late deliveries."""
    loop = asyncio.get_running_loop()
    writes = max(1, round(job.seconds * job.per_second))
    deliveries = _Deliveries(writes * len(job.streams))
    streams: list[_Stream] = []
    try:
        for request in job.streams:
            _, made = await loop.create_connection(
                lambda request=request: _Stream(request, deliveries),  # type: ignore[misc]
                "127.0.0.1",
                job.port,
            )
            streams.append(made)
        ready = asyncio.gather(*(made.ready for made in streams))
        await asyncio.wait_for(ready, READY_TIMEOUT_S)
        _, writer = await loop.create_connection(lambda: _Writer(job.write), "127.0.0.1", job.port)
        try:
            return await _measure(job, writes, writer, deliveries)
        finally:
            writer.transport.abort()
    finally:
        for made in streams:
            made.transport.abort()


async def _measure(job: Watch, writes: int, writer: _Writer, deliveries: _Deliveries) -> Load:
    meter = Meter(job.pid)
    started = time.perf_counter()
    for number in range(writes):
        writer.write()
        due = started + (number + 1) / job.per_second
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
    elapsed = time.perf_counter() - started
    own, other, rest = meter.shares()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(deliveries.all_there.wait(), LATE_S)
    in_ms = sorted(wait / 1e6 for wait in deliveries.waits)
    return Load(
        answers=len(in_ms),
        seconds=elapsed,
        p50_ms=percentile(in_ms, 0.50),
        p99_ms=percentile(in_ms, 0.99),
        expected=deliveries.expected,
        generator_cores=own,
        server_cores=other,
        others_cores=rest,
    )
