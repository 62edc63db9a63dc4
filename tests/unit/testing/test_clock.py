from __future__ import annotations

import threading

import pytest

from penstock.clock import Clock
from penstock.testing import FakeClock


class Waiter:
    """A thread inside `clock.wait`, for certain, once this object exists."""

    def __init__(self, clock: Clock, timeout_s: float | None) -> None:
        self.condition = threading.Condition()
        self.result: bool | None = None
        is_ready = threading.Event()

        def run() -> None:
            with self.condition:
                is_ready.set()
                self.result = clock.wait(self.condition, timeout_s)

        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()
        is_ready.wait()
        with self.condition:  # free only once the thread waits
            pass

    def joined(self) -> bool | None:
        self.thread.join(timeout=120)
        assert not self.thread.is_alive()
        return self.result


def test_time_stands_still_until_moved() -> None:
    clock = FakeClock(now_ms=1000)

    assert (clock.now_ms(), clock.monotonic()) == (1000, 0.0)
    clock.advance(1500)
    assert (clock.now_ms(), clock.monotonic()) == (2500, 1.5)


def test_a_jump_moves_the_wall_clock_alone() -> None:
    clock = FakeClock(now_ms=5000)

    clock.jump(-3000)

    assert (clock.now_ms(), clock.monotonic()) == (2000, 0.0)


def test_monotonic_time_cannot_go_back() -> None:
    with pytest.raises(ValueError, match="forward"):
        FakeClock().advance(-1)


def test_a_wait_ends_when_fake_time_passes_its_deadline() -> None:
    clock = FakeClock()
    waiter = Waiter(clock, timeout_s=0.07)

    clock.advance(69)
    assert waiter.result is None
    clock.advance(1)

    assert waiter.joined() is False


def test_a_wait_shorter_than_a_millisecond_has_a_deadline_too() -> None:
    clock = FakeClock()
    waiter = Waiter(clock, timeout_s=0.0005)

    clock.advance(0.5)

    assert waiter.joined() is False


@pytest.mark.parametrize("timeout_s", [None, 60.0])
def test_a_notified_wait_returns_true_without_any_time_passing(timeout_s: float | None) -> None:
    clock = FakeClock()
    waiter = Waiter(clock, timeout_s)

    with waiter.condition:
        waiter.condition.notify()

    assert waiter.joined() is True
    assert clock.monotonic() == 0.0


def test_a_wait_of_no_time_returns_at_once() -> None:
    condition = threading.Condition()
    with condition:
        assert FakeClock().wait(condition, 0) is False


def test_advance_ends_only_the_waits_that_are_due() -> None:
    clock = FakeClock()
    soon, late = Waiter(clock, 1.0), Waiter(clock, 2.0)

    clock.advance(1000)
    assert soon.joined() is False
    assert late.thread.is_alive()
    clock.advance(1000)

    assert late.joined() is False


def test_many_threads_may_wait_and_advance_at_once() -> None:
    clock = FakeClock()
    waiters = [Waiter(clock, (1 + n % 5) / 1000) for n in range(20)]
    movers = [threading.Thread(target=clock.advance, args=(1,)) for _ in range(20)]
    for mover in movers:
        mover.start()
    for mover in movers:
        mover.join()

    assert [waiter.joined() for waiter in waiters] == [False] * 20
    assert clock.monotonic() == 0.02
