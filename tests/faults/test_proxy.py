"""The fault proxy does to a request what the fault says, and nothing else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from tests.faults.exchange import Link, Lost
from tests.faults.site import until
from tests.faults.victim import DEADLINE_S, eventually
from tests.support.proxy import RESETS, ROUGH, Fault, Proxy, Schedule

BODY = b"x" * 100


class Echo:
    """A server that answers with what it was sent, and remembers it. In a thread."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []  # whole requests
        self.ends = 0  # connections whose input ended or broke
        self.address = ("", 0)
        self._loop = asyncio.new_event_loop()
        self._is_up = threading.Event()
        self._over = asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Echo:
        self._thread.start()
        self._is_up.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.address = server.sockets[0].getsockname()[:2]
        self._is_up.set()
        await self._over.wait()
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                self.heard.append(await reader.readexactly(len(BODY)))
                head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(BODY)
                writer.write(head + self.heard[-1])
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            self.ends += 1
        finally:
            writer.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    with Echo() as echo:
        yield echo


def ask(proxy: Proxy) -> bytes | None:
    """One request; None when no answer came, TimeoutError when nothing at all happens."""

    async def once() -> bytes | None:
        link = await Link.open(proxy.address)
        try:
            async with asyncio.timeout(DEADLINE_S):
                return (await link.request("POST", "/", BODY)).body
        except Lost:
            return None
        finally:
            await link.close()

    return asyncio.run(once())


@pytest.mark.parametrize("fault", [Fault.NONE, Fault.LATENCY, Fault.SLICE, Fault.HALF_CLOSE])
def test_a_fault_that_spares_the_answer_brings_it_whole(echo: Echo, fault: Fault) -> None:
    with Proxy(lambda: echo.address, Schedule(1, {fault: 100})) as proxy:
        answer = ask(proxy)

    assert answer == BODY
    assert echo.heard == [BODY]
    assert proxy.counts == {fault: 1}


def test_a_duplicate_arrives_twice_and_is_answered_once(echo: Echo) -> None:
    with Proxy(lambda: echo.address, Schedule(1, {Fault.DUPLICATE: 100})) as proxy:
        answer = ask(proxy)
        eventually(lambda: len(echo.heard) == 2, "the second copy")

    assert answer == BODY


@pytest.mark.parametrize("fault", [Fault.RESET_SENT, Fault.RESET_ANSWERED, Fault.RESET_IN_REPLY])
def test_a_reset_after_the_request_leaves_it_done_and_unanswered(echo: Echo, fault: Fault) -> None:
    with Proxy(lambda: echo.address, Schedule(1, {fault: 100})) as proxy:
        answer = ask(proxy)
        eventually(lambda: echo.ends == 1, "the end of the connection")

    assert answer is None
    if fault is not Fault.RESET_SENT:  # there it may or may not have been read by then
        assert echo.heard == [BODY]
    assert proxy.resets == 1


def test_a_late_copy_arrives_after_the_caller_was_cut_off(echo: Echo) -> None:
    with Proxy(lambda: echo.address, Schedule(1, {Fault.RESET_LATE: 100})) as proxy:
        answer = ask(proxy)
        eventually(lambda: echo.heard == [BODY], "the late copy")

    assert answer is None


@pytest.mark.parametrize("fault", [Fault.RESET_UNSENT, Fault.RESET_IN_REQUEST])
def test_a_reset_before_the_end_of_the_request_leaves_it_undone(echo: Echo, fault: Fault) -> None:
    with Proxy(lambda: echo.address, Schedule(1, {fault: 100})) as proxy:
        answer = ask(proxy)
        eventually(lambda: echo.ends == 1, "the end of the connection")

    assert answer is None
    assert echo.heard == []


def test_a_black_hole_gives_no_sign(echo: Echo) -> None:
    async def once(proxy: Proxy) -> None:
        link = await Link.open(proxy.address)
        asked = asyncio.ensure_future(link.request("POST", "/", BODY))
        try:
            await until(lambda: echo.heard, DEADLINE_S)
            done, _ = await asyncio.wait([asked], timeout=0.2)
            assert not done
        finally:
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)
            await link.close()

    with Proxy(lambda: echo.address, Schedule(1, {Fault.BLACK_HOLE: 100})) as proxy:
        asyncio.run(once(proxy))

    assert echo.heard == [BODY]


def test_a_schedule_depends_on_its_seed_alone() -> None:
    places = [(connection, request) for connection in range(20) for request in range(20)]

    one, same, other = (Schedule(seed, ROUGH) for seed in (1, 1, 2))
    faults = [one.choose(*place)[0] for place in places]

    assert faults == [same.choose(*place)[0] for place in reversed(places)][::-1]
    assert faults != [other.choose(*place)[0] for place in places]
    assert set(faults) >= RESETS
