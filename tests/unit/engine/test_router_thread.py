"""Who is sent on first, who is tried again, and how it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from penstock.clock import Clock, SystemClock
from penstock.engine.router_thread import RouterThread
from penstock.testing import FakeClock

DEADLINE_S = 120  # what must happen has happened by then, on however busy a machine


class Route:
    def __init__(self) -> None:
        self.staged = 0


class Source:
    """A topic at work, as far as a forwarder knows it."""

    def __init__(self, name: str, priority: int = 0) -> None:
        self.name = name
        self.priority = priority
        self.outlets = (Route(),)
        self.listeners: list[Callable[[], None]] = []

    def listen(self, listener: Callable[[], None]) -> None:
        self.listeners.append(listener)

    def unlisten(self, listener: Callable[[], None]) -> None:
        self.listeners.remove(listener)


class Stage:
    def __init__(self, *, is_threaded: bool = True, clock: Clock | None = None) -> None:
        self.sent: list[str] = []
        self.more: dict[str, int] = {}  # how often a source has more to send
        self.stuck: dict[str, int] = {}  # how often it has, and gets no further
        self.gate = threading.Event()
        self.gate.set()
        self.began = threading.Event()
        self.router_thread = RouterThread(
            clock or SystemClock(), self._send, is_threaded=is_threaded
        )
        self.router_thread.priority_of = lambda handle: handle.priority  # type: ignore[attr-defined]

    def _send(self, handle: Any) -> bool:
        self.began.set()
        self.gate.wait(DEADLINE_S)
        self.sent.append(handle.name)
        if self.stuck.get(handle.name, 0):
            self.stuck[handle.name] -= 1
            return True
        handle.outlets[0].staged += 1
        self.more[handle.name] = self.more.get(handle.name, 0) - 1
        return self.more[handle.name] > 0

    def watch(self, name: str, priority: int = 0) -> Any:
        source = Source(name, priority)
        self.router_thread.watch(source)  # type: ignore[arg-type]
        return source

    def until(self, count: int) -> None:
        pause = threading.Event()
        for _ in range(DEADLINE_S * 500):
            if len(self.sent) >= count:
                return
            pause.wait(0.002)
        raise AssertionError((self.sent, count))


def test_the_important_ones_go_first() -> None:
    stage = Stage(clock=FakeClock())  # nobody grows older
    first, low, high = stage.watch("first"), stage.watch("low", -5), stage.watch("high", 900)
    stage.gate.clear()
    stage.router_thread.mark(first)
    assert stage.began.wait(DEADLINE_S)
    for source in (low, high, low, high):
        stage.router_thread.mark(source)
    assert stage.router_thread.depth == 2
    assert stage.router_thread.depths() == (1, 0, 0, 0, 1)
    stage.gate.set()
    stage.until(3)
    stage.router_thread.stop()

    assert stage.sent == ["first", "high", "low"]


def test_a_change_of_the_topic_is_heard() -> None:
    stage = Stage()
    source = stage.watch("a")
    source.listeners[0]()
    stage.until(1)
    stage.router_thread.unwatch(source)
    stage.router_thread.stop()

    assert source.listeners == []


def test_what_has_more_goes_on_and_what_is_stuck_is_tried_again() -> None:
    stage = Stage()
    long, stuck = stage.watch("long"), stage.watch("stuck")
    stage.more["long"] = 5
    stage.stuck["stuck"] = 2
    stage.router_thread.mark(long)
    stage.router_thread.mark(stuck)
    stage.until(8)
    stage.router_thread.stop()

    assert stage.sent.count("long") == 5
    assert stage.sent.count("stuck") == 3


def test_without_a_thread_nothing_goes_by_itself() -> None:
    stage = Stage(is_threaded=False)
    source = stage.watch("a")
    source.listeners[0]()
    stage.router_thread.stop()

    assert stage.sent == []


def test_under_pressure_the_least_important_waits() -> None:
    stage = Stage(clock=FakeClock())  # nobody grows older
    least = stage.watch("least", -1000)
    stage.router_thread.defer(True)
    stage.router_thread.mark(least)
    threading.Event().wait(0.1)
    assert stage.sent == []
    stage.router_thread.defer(False)
    stage.router_thread.mark(least)
    stage.until(1)
    stage.router_thread.stop()
