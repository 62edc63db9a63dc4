"""How a sender for event loops ends: closes, cancelled calls, forks."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import Backpressure, Closed, SlotInUse
from penstock.sender.async_sender import AsyncSender
from penstock.sender.sender import Sender
from tests.support.serving import eventually
from tests.support.sink import DEADLINE_S, Sink, conf
from tests.unit.sender.test_async_sender import (
    BIG,
    NOWHERE,
    PATIENT_MS,
    SMALL,
    cancel,
    fill,
    gated,
    until,
    until_one_waits,
)


def test_no_thread_is_left_after_a_close() -> None:
    def threads() -> set[threading.Thread]:
        """Not those of the server, which is in this process."""
        running = threading.enumerate()
        return {one for one in running if one.name.startswith(("penstock", "asyncio"))}

    async def main(text: str) -> None:
        before = threads()
        sender = await AsyncSender(text).open()
        await sender.append_batch("t", [BIG] * 5)
        await sender.flush()
        assert await sender.drain(DEADLINE_S)

        await asyncio.gather(sender.close(), sender.close())

        eventually(lambda: threads() <= before, "the end of all threads", DEADLINE_S)

    with Sink() as sink:
        asyncio.run(main(conf(sink)))


def test_a_close_that_was_cancelled_goes_on() -> None:
    async def main(text: str, gate: threading.Event) -> None:
        sender = await AsyncSender(text).open()
        await sender.append("t", 1)
        closing = asyncio.ensure_future(sender.close())
        await until(lambda: sender.published_fsn == 0, "a flush")

        await cancel(closing)
        gate.set()
        await sender.close()

        assert sender.acked_fsn == 0
        for call in (sender.append("t", 2), sender.flush(), sender.drain()):
            with pytest.raises(Closed):
                await call

    with gated() as (sink, gate):
        asyncio.run(main(conf(sink, close_flush_timeout_millis=PATIENT_MS), gate))


def test_what_a_close_lost_is_told_to_the_first_who_sees_its_end() -> None:
    told: list[dict[str, Any]] = []

    async def main(text: str) -> bool:
        asyncio.get_running_loop().set_exception_handler(lambda _, about: told.append(about))
        sender = await AsyncSender(text).open()
        await fill(sender)
        closing = asyncio.ensure_future(sender.close())
        await until_one_waits(sender)
        if closing.done():
            assert isinstance(closing.exception(), Backpressure)
            return False
        await cancel(closing)

        with pytest.raises(Backpressure, match="3 rows did not fit the spool and are LOST"):
            await sender.close()
        await sender.close()
        gc.collect()
        await asyncio.sleep(0)
        return True

    # On a busy machine a short close is over before it can be cancelled.
    for timeout_ms in (300, 3_000, 30_000):
        with gated() as (sink, _):
            keys = SMALL | {"close_flush_timeout_millis": timeout_ms}
            is_cancelled = asyncio.run(main(conf(sink, **keys)))
        if is_cancelled:
            break
    assert is_cancelled
    assert not told


def test_a_close_ends_an_open_that_is_under_way(tmp_path: Path) -> None:
    """Whether it waits for a server, or would not."""

    async def main(retry: str) -> None:
        sender = AsyncSender(conf(NOWHERE, **keys, initial_connect_retry=retry))
        opening = asyncio.ensure_future(sender.open())
        await asyncio.sleep(0)

        await asyncio.wait_for(sender.close(), DEADLINE_S)

        Sender(conf(NOWHERE, **keys)).close()
        if retry == "sync":
            with pytest.raises(Closed, match="before it was open"):
                await opening
        else:
            assert await opening is sender
            for call in (sender.append("t", 1), sender.open()):
                with pytest.raises(Closed, match="is closed"):
                    await call

    keys = {"sf_dir": tmp_path, "reconnect_max_duration_millis": 600_000}
    for retry in ("sync", "async"):
        asyncio.run(main(retry))


def test_a_cancelled_open_lets_go_of_its_slot_though_no_server_comes(tmp_path: Path) -> None:
    def is_free() -> bool:
        with contextlib.suppress(SlotInUse):
            Sender(text).close()
            return True
        return False

    async def main() -> None:
        opening = asyncio.ensure_future(AsyncSender(text + "initial_connect_retry=sync;").open())
        await until(lambda: any(tmp_path.iterdir()), "the slot")

        await cancel(opening)

        await until(is_free, "the slot, free again")

    text = conf(NOWHERE, sf_dir=tmp_path, reconnect_max_duration_millis=600_000)
    asyncio.run(main())


def test_in_a_forked_process_calls_are_refused_and_do_not_hang() -> None:
    sender = AsyncSender(conf(NOWHERE, close_flush_timeout_millis=0))

    async def use() -> None:
        await sender.open()
        await sender.append("t", 0)
        await sender.flush()

    async def refused() -> None:
        for call in (sender.append("t", 1), sender.flush(), sender.drain()):
            with pytest.raises(Closed, match=f"belongs to process {os.getppid()}"):
                await call
        await sender.close()

    asyncio.run(use())
    pid = os.fork()
    if not pid:
        signal.alarm(int(DEADLINE_S))
        try:
            asyncio.run(refused())
        except BaseException:  # noqa: BLE001 - the parent is told
            os._exit(1)
        os._exit(0)

    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    asyncio.run(sender.close())
