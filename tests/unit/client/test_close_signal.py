"""Pauses that end when the client is closed."""

from __future__ import annotations

import asyncio
import threading

from penstock.client.close_signal import AsyncCloseSignal, CloseSignal
from penstock.clock import SystemClock
from tests.unit.client.support import DEADLINE_S


class WaitingClock(SystemClock):
    """Reports that a thread is about to wait."""

    def __init__(self) -> None:
        self.waiting = threading.Event()

    def wait(self, condition: threading.Condition, timeout_s: float | None) -> bool:
        self.waiting.set()
        return super().wait(condition, timeout_s)


def test_a_pause_ends_after_its_time() -> None:
    assert not CloseSignal(SystemClock()).wait(0.0)
    assert not asyncio.run(AsyncCloseSignal(SystemClock()).wait(0.0))


def test_closing_ends_a_pause_of_another_thread() -> None:
    clock = WaitingClock()
    signal = CloseSignal(clock)
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(signal.wait(DEADLINE_S)))
    thread.start()
    assert clock.waiting.wait(DEADLINE_S)

    signal.set()
    thread.join(DEADLINE_S)

    assert found == [True]


def test_closing_ends_a_pause_of_another_task() -> None:
    async def scenario() -> bool:
        signal = AsyncCloseSignal(SystemClock())
        task = asyncio.create_task(signal.wait(DEADLINE_S))
        await asyncio.sleep(0)
        signal.set()
        return await task

    assert asyncio.run(scenario())


def test_after_closing_there_is_no_pause() -> None:
    signal = CloseSignal(SystemClock())
    signal.set()
    assert signal.wait(DEADLINE_S)

    async def scenario() -> bool:
        closed = AsyncCloseSignal(SystemClock())
        closed.set()
        return await closed.wait(DEADLINE_S)

    assert asyncio.run(scenario())
