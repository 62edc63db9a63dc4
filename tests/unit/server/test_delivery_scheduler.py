"""Who is told first, what pressure does to it, and that nothing is ever left untold."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock.runtime.governor import Ladder
from penstock.server.delivery_scheduler import DeliveryScheduler
from penstock.testing import FakeClock
from tests.unit.server.support import on_loop, until


class Loop:
    """An event loop whose time is the clock's, and whose calls are made by hand."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._calls: list[tuple[float, int, Callable[[], None], list[bool]]] = []

    def time(self) -> float:
        return self._clock.monotonic()

    def call_soon(self, call: Callable[[], None]) -> asyncio.Handle:
        return self.call_later(0, call)

    def call_later(self, delay_s: float, call: Callable[[], None]) -> asyncio.Handle:
        is_cancelled: list[bool] = []
        self._calls.append((self.time() + delay_s, len(self._calls), call, is_cancelled))

        class Handle:
            def cancel(self) -> None:
                is_cancelled.append(True)

        return Handle()  # type: ignore[return-value]

    def run(self, for_ms: float = 0) -> None:
        """Let time pass, making the calls as they come due."""
        end = self.time() + for_ms / 1000
        while True:
            due = sorted(one for one in self._calls if one[0] <= end + 1e-9)
            if not due:
                break
            one = due[0]
            self._calls.remove(one)
            self._clock.advance(max(0, round((one[0] - self.time()) * 1000)))
            if not one[3]:
                one[2]()
        self._clock.advance(max(0, round((end - self.time()) * 1000)))


class Topic:
    def __init__(self, name: str, told: list[str], cost: Callable[[], None] = lambda: None) -> None:
        self.name = name
        self._told = told
        self._cost = cost

    def deliver(self) -> None:
        self._told.append(self.name)
        self._cost()


class Stage:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.loop = Loop(self.clock)
        self.busy = (0, 0.0)
        self.ladders: list[Ladder] = []
        self.told: list[str] = []
        self.delivery = DeliveryScheduler(
            self.loop,  # type: ignore[arg-type]
            self.clock,
            lambda: self.busy,
            self.ladders.append,
        )

    def topic(self, name: str, cost: Callable[[], None] = lambda: None) -> Topic:
        return Topic(name, self.told, cost)

    def press(self, for_ms: int = 3000) -> None:
        """As hard as it goes: threads all busy, many topics that wait elsewhere."""
        self.busy = (1000, 1.0)
        slow = self.topic("slow")
        for _ in range(for_ms // 100):
            self.delivery.mark(slow, 500)
            self.clock.advance(50)  # it waits that long for its turn
            self.loop.run(100)
        self.told.clear()


def test_the_important_ones_are_told_first_and_each_once() -> None:
    stage = Stage()
    low, high = stage.topic("low"), stage.topic("high")
    stage.delivery.mark(low, 0)
    for _ in range(5):
        stage.delivery.mark(high, 900)

    stage.loop.run()

    assert stage.told == ["high", "low"]


def test_a_long_turn_lets_others_on_the_loop_have_theirs() -> None:
    stage = Stage()
    for number in range(10):
        slow = stage.topic(str(number), lambda: stage.clock.advance(3))
        stage.delivery.mark(slow, 0)
    turns: list[int] = []
    stage.loop.call_later(0.004, lambda: turns.append(len(stage.told)))

    stage.loop.run(100)

    assert len(stage.told) == 10
    assert turns[0] < 10


def test_pressure_climbs_the_ladder_and_comes_down_again() -> None:
    stage = Stage()
    assert stage.delivery.ladder == Ladder()

    stage.press()

    ladder = stage.delivery.ladder
    assert ladder.pressure > 0.95
    assert ladder.is_deferring
    assert ladder.retry_after_s == 1
    assert ladder.coalesce_ms > 15
    assert ladder.commit_window_ms is not None
    assert ladder in stage.ladders  # and the log was told

    stage.busy = (0, 0.0)
    stage.loop.run(10_000)

    assert stage.delivery.ladder.pressure < 0.01
    assert not stage.delivery.ladder.is_deferring
    assert stage.ladders[-1].commit_window_ms is None


def test_a_calm_server_does_not_even_look() -> None:
    stage = Stage()
    stage.delivery.mark(stage.topic("t"), 0)
    stage.loop.run(10_000)

    assert stage.loop._calls == []


def test_under_pressure_news_are_gathered() -> None:
    stage = Stage()
    stage.press()
    topic = stage.topic("t")
    assert stage.delivery.ladder.coalesce_ms > 0

    for _ in range(10):
        stage.delivery.mark(topic, 500)
        stage.clock.advance(1)
    stage.loop.run(40)

    assert stage.told.count("t") == 1


def test_what_matters_least_is_put_off_but_never_for_ever() -> None:
    stage = Stage()
    stage.press()
    least = stage.topic("least")

    stage.delivery.mark(least, -1000)
    stage.loop.run(500)
    assert stage.told == []
    assert stage.delivery.paused == 1
    stage.loop.run(10_000)  # and the pressure stays

    assert stage.told == ["least"]


def test_what_was_put_off_is_told_when_the_pressure_is_gone() -> None:
    stage = Stage()
    stage.press()
    stage.delivery.mark(stage.topic("least"), -1000)
    stage.loop.run(100)
    assert stage.told == []

    stage.busy = (0, 0.0)
    stage.loop.run(3000)

    assert stage.told == ["least"]


def test_whoever_is_gone_is_not_told() -> None:
    stage = Stage()
    gone, here = stage.topic("gone"), stage.topic("here")
    stage.delivery.mark(gone, 0)
    stage.delivery.mark(here, 0)
    stage.delivery.forget(gone)

    stage.loop.run()

    assert stage.told == ["here"]


def test_one_that_fails_does_not_hold_up_the_next() -> None:
    stage = Stage()

    def fail() -> None:
        raise RuntimeError("a bug")

    stage.delivery.mark(stage.topic("bad", fail), 900)
    stage.delivery.mark(stage.topic("good"), 0)

    stage.loop.run()

    assert stage.told == ["bad", "good"]


@on_loop
async def test_on_a_real_loop_everything_is_told() -> None:
    told: list[str] = []
    clock = FakeClock()
    delivery = DeliveryScheduler(
        asyncio.get_running_loop(), clock, lambda: (0, 0.0), lambda ladder: None
    )
    for number in range(100):
        delivery.mark(Topic(str(number), told), number)
    await until(lambda: len(told) == 100)
    delivery.close()

    assert sorted(told, key=int) == [str(number) for number in range(100)]
