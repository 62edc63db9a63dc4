"""Stamps are found wherever a stream is cut; a stream and a writer together make deliveries."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.load_answers import Refused
from benchmarks.load_job import STAMP, Load, Watch
from benchmarks.load_watch import Stamps, stamp, watch
from tests.benchmarks.support import Caller, serving

STREAM = b'data: {"records":[{"data":{"t":%d,"pad":"x"}},{"data":{"t":%d,"pad":"y"}}]}\n\n' % (
    10**18 + 1,
    10**18 + 2,
)


@given(st.lists(st.integers(0, len(STREAM) * 2), max_size=8).map(sorted))
def test_every_stamp_is_found_once_wherever_the_stream_is_cut(cuts: list[int]) -> None:
    stream = STREAM * 2
    stamps = Stamps()

    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    found = [one for piece in pieces for one in stamps.feed(piece)]

    assert [one - 10**18 for one in found] == [1, 2, 1, 2]


def test_a_stamp_has_19_digits_and_grows() -> None:
    first, second = stamp(), stamp()

    assert len(str(first)) == len(STAMP)
    assert second >= first


async def served(status: bytes) -> Load:
    """What is written to the server goes to every stream."""
    callers: list[Caller] = []

    def answer(caller: Caller, line: bytes) -> None:
        if line.startswith(b"GET"):
            caller.write(b"HTTP/1.1 %b\r\n\r\nretry: 2000\n\n" % status)
            return
        for stream in callers:
            if stream is not caller:
                stream.write(b"data: " + line + b"\n\n")
        caller.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    async with serving(answer, callers) as port:
        write = b'{"t":%b,"pad":""}\n' % STAMP
        return await watch(Watch([b"GET /\n"] * 3, write, 100, 0.05, port=port))


def test_every_stream_sees_every_write() -> None:
    load = asyncio.run(served(b"200 OK"))

    assert (load.answers, load.expected) == (15, 15)
    assert 0 < load.p50_ms <= load.p99_ms


def test_a_stream_that_is_refused_is_told() -> None:
    with pytest.raises(Refused, match="404"):
        asyncio.run(served(b"404 Not Found"))
