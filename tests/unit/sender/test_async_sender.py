"""The sender for event loops: the same promises, and a loop that never waits."""

from __future__ import annotations

import asyncio
import threading

import pytest

from penstock.errors import Closed, InvalidArgument, SenderHalted
from penstock.sender.async_sender import AsyncSender
from penstock.sender.verdicts import SenderError
from tests.support.sink import DEADLINE_S, PARSE, Sink, Visit, conf

SMALL = {"sf_max_segment_bytes": "64k", "sf_max_total_bytes": "128k"}


def test_rows_arrive() -> None:
    async def main(text: str) -> None:
        async with AsyncSender(text) as sender:
            await sender.append("t", {"a": 1}, "tag", node="n", meta={"m": 1})
            await sender.append_batch("t", [b"2", 3])
            assert await sender.flush() == 0
            assert await sender.drain(DEADLINE_S)
            assert (sender.published_fsn, sender.acked_fsn) == (0, 0)
            assert sender.halted is None
            assert sender.status().counters.rows_appended == 3

    with Sink() as sink:
        asyncio.run(main(conf(sink)))

        assert sink.rows() == [b'{"a":1}', b"2", b"3"]


def test_many_tasks_lose_nothing() -> None:
    async def main(text: str) -> None:
        async with AsyncSender(text) as sender:

            async def produce(name: int) -> None:
                for number in range(50):
                    await sender.append(f"t{name}", number)
                    if number % 7 == 0:
                        await sender.flush()

            await asyncio.gather(*(produce(name) for name in range(8)))
            assert await sender.drain(DEADLINE_S)

    with Sink() as sink:
        asyncio.run(main(conf(sink)))

        for name in range(8):
            assert sink.rows(f"t{name}") == [b"%d" % number for number in range(50)]


def test_the_loop_goes_on_while_a_flush_waits_for_room() -> None:
    """The answers that make room come from the loop itself. The newest segment has some bytes
    left, and the frame needs more."""
    gate = threading.Event()

    def slow(visit: Visit) -> None:
        while True:
            visit.keep(visit.take())
            assert gate.wait(DEADLINE_S)
            visit.ok()

    async def main(text: str) -> None:
        async with AsyncSender(text) as sender:
            count = 0
            while sender._opened._spool.wait_for_room(0, 20_200):
                await sender.append("t", "x" * 20_000)
                await sender.flush()
                count += 1
            await sender.append("t", "x" * 20_000)
            flush = asyncio.ensure_future(sender.flush())
            await asyncio.sleep(0.05)
            gate.set()
            await flush
            assert await sender.drain(DEADLINE_S)
            assert sender.published_fsn == count

    with Sink(slow) as sink:
        asyncio.run(main(conf(sink, **SMALL, sf_append_deadline_millis=2000)))


def test_the_loop_goes_on_while_another_task_waits_for_room() -> None:
    gate = threading.Event()

    def slow(visit: Visit) -> None:
        while True:
            visit.keep(visit.take())
            assert gate.wait(DEADLINE_S)
            visit.ok()

    async def main(text: str) -> None:
        async with AsyncSender(text) as sender:
            while sender._opened._spool.wait_for_room(0, 20_200):
                await sender.append("t", "x" * 20_000)
                await sender.flush()
            await sender.append("t", "x" * 20_000)
            flush = asyncio.ensure_future(sender.flush())
            while not sender.status().counters.backpressure_stalls:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.001)
            appended = asyncio.ensure_future(sender.append("u", 1))
            await asyncio.sleep(0.05)
            gate.set()
            await flush
            await appended
            assert await sender.drain(DEADLINE_S)

    with Sink(slow) as sink:
        asyncio.run(main(conf(sink, **SMALL, sf_append_deadline_millis=2000)))
        assert sink.rows("u") == [b"1"]


def test_errors_reach_the_caller_and_the_handler() -> None:
    told: list[SenderError] = []

    def refuse(visit: Visit) -> None:
        visit.take()
        visit.reply((PARSE, 0, "no"), close=1000)
        visit.until_gone()

    async def main(text: str) -> None:
        async with AsyncSender(text, error_handler=told.append) as sender:
            with pytest.raises(InvalidArgument):
                await sender.append("t", object())
            await sender.append("t", 1)
            with pytest.raises(SenderHalted):
                await sender.drain(DEADLINE_S)
            assert sender.halted is not None

    with Sink(refuse) as sink:
        asyncio.run(main(conf(sink)))
    assert [error.message for error in told] == ["no"]


def test_a_sender_that_is_not_open_says_so() -> None:
    async def main() -> None:
        sender = AsyncSender("ws::addr=127.0.0.1:1;")
        with pytest.raises(Closed, match="not open"):
            await sender.append("t", 1)
        await sender.close()

    asyncio.run(main())


def test_opening_twice_is_opening_once() -> None:
    async def main(text: str) -> None:
        sender = AsyncSender(text)
        assert await asyncio.gather(*(sender.open() for _ in range(5))) == [sender] * 5
        await sender.append("t", 1)
        await sender.close()
        await sender.close()
        with pytest.raises(Closed):
            await sender.append("t", 2)

    with Sink() as sink:
        asyncio.run(main(conf(sink)))
        assert len({visit.number for visit in sink.visits}) == 1
        assert sink.rows() == [b"1"]
