"""The sender for event loops: the same promises, and a loop that never waits."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from penstock.errors import Backpressure, Closed, InvalidArgument, SenderHalted
from penstock.limits import KIB
from penstock.sender import async_sender
from penstock.sender.async_sender import AsyncSender
from penstock.sender.error_policy import SenderError
from penstock.sender.row_buffer import text_of
from tests.support.serving import eventually
from tests.support.sink import DEADLINE_S, PARSE, Sink, Visit, conf

PATIENT_MS = 600_000  # for what must not come to its end on a busy machine
SMALL = {
    "sf_max_segment_bytes": "64k",
    "sf_max_total_bytes": "128k",
    "sf_append_deadline_millis": PATIENT_MS,
}
BIG = "x" * 20_000
NOWHERE = "127.0.0.1:1"


@contextlib.contextmanager
def gated(answer: Callable[[Visit], None] = Visit.ok) -> Iterator[tuple[Sink, threading.Event]]:
    """A server that answers nothing until the gate is open."""
    gate = threading.Event()

    def slow(visit: Visit) -> None:
        while True:
            visit.keep(visit.take())
            assert gate.wait(DEADLINE_S)
            answer(visit)

    with Sink(slow) as sink:
        try:
            yield sink, gate
        finally:
            gate.set()


def refuse(visit: Visit) -> None:
    visit.reply((PARSE, 0, "no"), close=1000)
    visit.until_gone()


async def fill(sender: AsyncSender) -> None:
    """Until a big row fits neither the spool nor the draft; a small one fits the draft. Both of
    its segments, and a draft, have room for three."""
    for _ in range(6):
        await sender.append("t", BIG)
        await sender.flush()
    for _ in range(3):
        await sender.append("t", BIG)


async def until(probe: Callable[[], object], what: str) -> None:
    """On a thread of its own: the loop and the threads of others go on."""
    pool = ThreadPoolExecutor(1)
    await asyncio.get_running_loop().run_in_executor(pool, eventually, probe, what, DEADLINE_S)
    pool.shutdown(wait=False)


async def until_one_waits(sender: AsyncSender) -> None:
    """The first of those that were called."""
    await until(lambda: stalls(sender), "a call that waits for room")


async def cancel(call: asyncio.Future[Any]) -> None:
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


def stalls(sender: AsyncSender) -> int:
    return sender.status().counters.backpressure_stalls


def use_one_thread() -> None:
    """The program has no more for its own calls, so that it shows whether one is taken."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))


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


def test_the_loop_goes_on_while_a_flush_waits_for_room_and_another_task_behind_it() -> None:
    """The answers that make room come from the loop itself. The newest segment has some bytes
    left, and the frame needs more."""

    async def main(text: str, gate: threading.Event) -> None:
        async with AsyncSender(text) as sender:
            for _ in range(6):  # both of its segments have room for three
                await sender.append("t", BIG)
                count = await sender.flush()
            await sender.append("t", BIG)
            flush = asyncio.ensure_future(sender.flush())
            await until_one_waits(sender)
            appended = asyncio.ensure_future(sender.append("u", 1))
            await asyncio.sleep(0.05)
            gate.set()

            assert await flush > count
            await appended
            assert await sender.drain(DEADLINE_S)

    with gated() as (sink, gate):
        asyncio.run(main(conf(sink, **SMALL), gate))
        assert sink.rows("u") == [b"1"]


def test_errors_reach_the_caller_and_the_handler() -> None:
    told: list[SenderError] = []

    async def main(text: str) -> None:
        async with AsyncSender(text, error_handler=told.append) as sender:
            with pytest.raises(InvalidArgument):
                await sender.append("t", object())
            await sender.append("t", 1)
            with pytest.raises(SenderHalted):
                await sender.drain(DEADLINE_S)
            assert sender.halted is not None
            await until(lambda: told, "the error, on a thread of its own")

    with gated(refuse) as (sink, gate):
        gate.set()
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
        asyncio.run(main(conf(sink, close_flush_timeout_millis=PATIENT_MS)))
        assert len({visit.number for visit in sink.visits}) == 1
        assert sink.rows() == [b"1"]


def test_the_loop_goes_on_while_a_batch_waits_for_room() -> None:
    """There is room for its first frame. The gate is opened by the loop."""

    async def main(text: str, gate: threading.Event) -> None:
        async with AsyncSender(text) as sender:
            await sender.append("t", 0)
            await sender.flush()
            await until(lambda: not sender._opened.may_wait, "a preallocated")

            batch = asyncio.ensure_future(sender.append_batch("t", [BIG] * 12))
            await until_one_waits(sender)
            gate.set()

            await batch
            assert await sender.drain(DEADLINE_S)

    with gated() as (sink, gate):
        asyncio.run(main(conf(sink, **SMALL), gate))
        assert len(sink.rows()) == 13


@pytest.mark.parametrize("records", [[1, "two", {"three": 3}], [b"1", b"2"], (1, b"2"), [], [BIG]])
def test_a_batch_arrives_as_it_was_given_however_it_goes(records: Any) -> None:
    async def main(text: str) -> None:
        async with AsyncSender(text) as sender:
            await sender.append_batch("t", records, "tag", node="n")
            with pytest.raises(InvalidArgument):
                await sender.append_batch("t", [object()])
            with pytest.raises(InvalidArgument):
                await sender.append_batch("t", [b"no json"])
            with pytest.raises(InvalidArgument):
                await sender.append_batch("t", {"not": "a list"})  # type: ignore[arg-type]
            assert await sender.drain(DEADLINE_S)
            assert sender.status().counters.rows_appended == len(records)

    with Sink() as sink:
        asyncio.run(main(conf(sink, **SMALL)))
        assert len(sink.rows()) == len(records)


def test_little_of_a_batch_is_encoded_on_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[bytes] = []

    def encode(data: Any) -> bytes:
        done.append(text_of(data))
        return done[-1]

    async def main(text: str) -> None:
        async with AsyncSender(text) as sender:
            await sender.append_batch("t", [{"x": BIG, "n": at} for at in range(50)])
            assert await sender.drain(DEADLINE_S)

    monkeypatch.setattr(async_sender, "text_of", encode)
    with Sink() as sink:
        asyncio.run(main(conf(sink)))
        assert [json.loads(row)["n"] for row in sink.rows()] == list(range(50))
    assert sum(map(len, done[:-1])) <= 64 * KIB


def test_rows_that_wait_for_room_take_no_thread_of_the_program() -> None:
    async def main(text: str, gate: threading.Event) -> None:
        use_one_thread()
        async with AsyncSender(text) as sender:
            await fill(sender)

            rows = [asyncio.ensure_future(sender.append("t", BIG)) for _ in range(5)]
            await until_one_waits(sender)
            await asyncio.to_thread(gate.set)

            await asyncio.gather(*rows)
            assert await sender.drain(DEADLINE_S)

    with gated() as (sink, gate):
        asyncio.run(main(conf(sink, **SMALL), gate))


def test_a_flush_and_a_drain_do_not_wait_behind_rows() -> None:
    async def main(text: str, gate: threading.Event) -> None:
        use_one_thread()
        async with AsyncSender(text) as sender:
            await fill(sender)

            rows = [asyncio.ensure_future(sender.append("t", BIG)) for _ in range(5)]
            await until_one_waits(sender)
            flush = asyncio.ensure_future(sender.flush())
            await until(lambda: stalls(sender) == 2, "a flush that waits for room")
            assert not await sender.drain(0)
            gate.set()

            await asyncio.gather(flush, *rows)
            assert await sender.drain(DEADLINE_S)

    with gated() as (sink, gate):
        asyncio.run(main(conf(sink, **SMALL), gate))


def test_a_close_does_not_wait_behind_rows_and_ends_their_waiting() -> None:
    async def main(text: str) -> None:
        use_one_thread()
        sender = await AsyncSender(text).open()
        await fill(sender)

        rows = [asyncio.ensure_future(sender.append("t", BIG)) for _ in range(5)]
        await until_one_waits(sender)
        with pytest.raises(Backpressure, match="3 rows did not fit the spool and are LOST"):
            await sender.close()

        ends = await asyncio.gather(*rows, return_exceptions=True)
        assert [type(one) for one in ends] == [Closed] * 5

    with gated() as (sink, _):
        keys = {"close_flush_timeout_millis": 0}
        asyncio.run(main(conf(sink, **SMALL, **keys)))


def test_rows_that_wait_keep_their_order() -> None:
    """The last one is small enough for the draft, where it would be first."""

    async def main(text: str, gate: threading.Event) -> None:
        async with AsyncSender(text) as sender:
            await fill(sender)

            rows = [asyncio.ensure_future(sender.append("t", BIG + str(at))) for at in range(5)]
            rows.append(asyncio.ensure_future(sender.append("t", "small")))
            await until_one_waits(sender)
            gate.set()

            await asyncio.gather(*rows)
            assert await sender.drain(DEADLINE_S)

    with gated() as (sink, gate):
        asyncio.run(main(conf(sink, **SMALL), gate))
        assert [row[-2:-1] for row in sink.rows()[-6:]] == [b"0", b"1", b"2", b"3", b"4", b"l"]


def test_a_row_whose_call_was_cancelled_while_it_waited_is_not_taken() -> None:
    """So that it can be appended again. The first waits for room, the second for the first."""

    async def main(text: str, gate: threading.Event) -> None:
        async with AsyncSender(text) as sender:
            await fill(sender)

            rows = [asyncio.ensure_future(sender.append("t", BIG + name)) for name in "ab"]
            await until_one_waits(sender)
            for row in rows:
                await cancel(row)
            again = [asyncio.ensure_future(sender.append("t", BIG + name)) for name in "ab"]
            gate.set()

            await asyncio.gather(*again)
            assert await sender.drain(DEADLINE_S)

    with gated() as (sink, gate):
        asyncio.run(main(conf(sink, **SMALL), gate))
        assert [row[-2:-1] for row in sink.rows() if row[-2:-1] in b"ab"] == [b"a", b"b"]


@pytest.mark.parametrize("what", ["append", "flush"])
def test_a_call_that_was_cancelled_while_it_waited_makes_way(what: str) -> None:
    """The next one waits for room itself, not behind it; a row that needs none is taken."""

    async def main(text: str) -> None:
        sender = await AsyncSender(text).open()
        await fill(sender)

        for count in (1, 2):
            coroutine = sender.flush() if what == "flush" else sender.append("t", BIG)
            call = asyncio.ensure_future(coroutine)
            await until(lambda count=count: stalls(sender) == count, "a call that waits for room")
            await cancel(call)
        await asyncio.wait_for(sender.append("u", 1), DEADLINE_S)

        with pytest.raises(Backpressure, match="4 rows did not fit"):
            await sender.close()

    with gated() as (sink, _):
        keys = {"close_flush_timeout_millis": 0}
        asyncio.run(main(conf(sink, **SMALL, **keys)))


def test_rows_that_wait_are_told_when_sending_stops() -> None:
    """No room will come."""

    async def main(text: str, gate: threading.Event) -> None:
        sender = await AsyncSender(text).open()
        await fill(sender)
        row = asyncio.ensure_future(sender.append("t", BIG))
        await until_one_waits(sender)

        gate.set()
        with pytest.raises(SenderHalted):
            await asyncio.wait_for(row, DEADLINE_S)

        with pytest.raises(Backpressure, match="3 rows did not fit"):
            await sender.close()

    with gated(refuse) as (sink, gate):
        asyncio.run(main(conf(sink, **SMALL), gate))


def test_the_program_ends_although_calls_were_cancelled_and_nothing_closed() -> None:
    """What is still under way when the loop ends is cancelled."""
    program = """
import asyncio, sys
from penstock import AsyncSender

async def main():
    def begin(call):
        return asyncio.wait({asyncio.ensure_future(call)}, timeout=0.1)

    await begin(AsyncSender(sys.argv[1] + "initial_connect_retry=sync;").open())
    sender = await AsyncSender(sys.argv[1]).open()
    while (await begin(sender.append("t", "x" * 20_000)))[0]:
        pass
    await begin(sender.flush())
    await begin(sender.drain())

asyncio.run(main())
"""
    keys = {"reconnect_max_duration_millis": 600_000}
    text = conf(NOWHERE, **SMALL, **keys)

    subprocess.run([sys.executable, "-c", program, text], check=True, timeout=DEADLINE_S)


def test_the_time_a_row_may_be_kept_begins_with_its_call() -> None:
    """Not when the thread comes to it: those before it may have waited as long."""

    async def main(text: str) -> None:
        sender = await AsyncSender(text).open()
        await fill(sender)
        await until(lambda: sender.status().is_connected, "a connection")
        core = sender._opened

        call = core.call()
        call.since_s -= 601
        late = asyncio.to_thread(core.serve, call, lambda one: one.append("t", BIG))
        with pytest.raises(Backpressure, match=r"waited 6\d\d"):
            await asyncio.wait_for(late, DEADLINE_S)

        with pytest.raises(Backpressure):
            await sender.close()

    with gated() as (sink, _):
        keys = {"close_flush_timeout_millis": 0}
        asyncio.run(main(conf(sink, **SMALL, **keys)))


def test_a_drain_whose_call_was_cancelled_keeps_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(async_sender, "_TURN_S", 0.01)

    async def main(text: str) -> None:
        async with AsyncSender(text) as sender:
            await sender.append("t", 1)
            fsn = await sender.flush()
            for _ in range(40):
                drain = asyncio.ensure_future(sender.drain())
                await asyncio.sleep(0)
                await cancel(drain)

            assert not await asyncio.wait_for(sender.drain(0), DEADLINE_S)
            assert (fsn, sender.acked_fsn) == (0, -1)

    asyncio.run(main(conf(NOWHERE, close_flush_timeout_millis=0)))
