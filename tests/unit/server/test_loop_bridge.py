"""From threads to the loop: everything, in order, with few wake-ups."""

from __future__ import annotations

import asyncio
import threading

import pytest

from penstock.server.loop_bridge import Bridge, Relay
from tests.unit.server.support import PATIENCE_S, until


def test_what_a_thread_posts_arrives_on_the_loop_in_order() -> None:
    async def main() -> tuple[list[int], set[int]]:
        bridge = Bridge(asyncio.get_running_loop())
        arrived: list[int] = []
        threads: set[int] = set()
        done = asyncio.Event()

        def take(value: int) -> None:
            arrived.append(value)
            threads.add(threading.get_ident())
            if value == 999:
                done.set()

        sender = threading.Thread(target=lambda: [bridge.post(take, n) for n in range(1000)])
        sender.start()
        async with asyncio.timeout(PATIENCE_S):
            await done.wait()
        sender.join()
        return arrived, threads

    arrived, threads = asyncio.run(main())

    assert arrived == list(range(1000))
    assert threads == {threading.get_ident()}


def test_posts_of_one_moment_share_a_wake_up() -> None:
    async def main() -> int:
        loop = asyncio.get_running_loop()
        woken = 0
        real = loop.call_soon_threadsafe

        def counted(*args: object) -> asyncio.Handle:
            nonlocal woken
            woken += 1
            return real(*args)  # type: ignore[arg-type]

        loop.call_soon_threadsafe = counted  # type: ignore[method-assign,assignment]
        bridge = Bridge(loop)
        arrived: list[int] = []
        for number in range(100):
            Relay(bridge, arrived.append).post(number)
        await asyncio.sleep(0)
        assert arrived == list(range(100))
        return woken

    assert asyncio.run(main()) == 1


def test_one_that_fails_does_not_hold_up_those_behind_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> list[int]:
        bridge = Bridge(asyncio.get_running_loop())
        arrived: list[int] = []

        def take(value: int) -> None:
            if value == 1:
                raise ValueError("this one is wrong")
            arrived.append(value)

        for n in range(3):
            bridge.post(take, n)
        await until(lambda: 2 in arrived)
        return arrived

    assert asyncio.run(main()) == [0, 2]
    assert "this one is wrong" in caplog.text
