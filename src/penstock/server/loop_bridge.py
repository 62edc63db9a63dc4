"""From the log's threads to the event loop: one wake-up for everything that is ready."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

_log = logging.getLogger("penstock.server")


class Bridge:
    """`post` may be called from any thread; posted calls run on the loop, in order."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._ready: deque[tuple[Callable[[Any], None], Any]] = deque()
        self._is_woken = False

    def post(self, call: Callable[[Any], None], value: Any) -> None:
        self._ready.append((call, value))
        if not self._is_woken:
            self._is_woken = True
            self._loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        self._is_woken = False  # before the check: a later `post` wakes the loop again
        ready = self._ready
        while ready:
            call, value = ready.popleft()
            try:
                call(value)
            except Exception:  # noqa: BLE001 - those behind it are other people's
                _log.exception("a callback failed")


class Relay:
    """Passes a value from any thread to a callback on the loop."""

    __slots__ = ("_bridge", "_call")

    def __init__(self, bridge: Bridge, call: Callable[[Any], None]) -> None:
        self._bridge = bridge
        self._call = call

    def post(self, value: Any) -> None:
        self._bridge.post(self._call, value)
