"""The threads of projections: they fold what is marked, save what is due, and sleep otherwise."""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock.projections.pool import ProjectionPool
from penstock.projections.runner import ProjectionRunner, RunnerOptions
from penstock.testing.clock import FakeClock
from penstock.testing.fs import MemoryFilesystem
from penstock.types import Offset
from tests.unit.projections.support import Adder, ListTail


def until(holds: Callable[[], bool]) -> None:
    """Wait for another thread, which needs no time of the clock."""
    for _ in range(2000):
        if holds():
            return
        threading.Event().wait(0.005)
    raise AssertionError("it did not happen")


def made(pool: ProjectionPool, clock: FakeClock, number: int = 0) -> ProjectionRunner:
    tail = ListTail(b"1", b"2")
    runner = ProjectionRunner(
        MemoryFilesystem(), f"/p/{number}", tail, Adder, clock, RunnerOptions()
    )
    tail.listen(lambda: pool.mark(runner))
    pool.add(runner)
    return runner


def test_what_is_added_is_folded_and_followed() -> None:
    clock = FakeClock()
    pool = ProjectionPool(clock, is_threaded=True)
    runners = [made(pool, clock, number) for number in range(20)]
    until(lambda: all(runner.applied == Offset(1, 2) for runner in runners))

    for runner in runners:
        tail = runner._tail
        assert isinstance(tail, ListTail)
        tail.add(b"3")
    until(lambda: all(runner.applied == Offset(1, 3) for runner in runners))

    names = [one.name for one in threading.enumerate() if "projection" in one.name]
    pool.stop()
    assert len(names) <= 3
    assert not [one.name for one in threading.enumerate() if "projection" in one.name]


def test_what_is_due_is_saved_once() -> None:
    clock = FakeClock()
    pool = ProjectionPool(clock, is_threaded=True)
    runner = made(pool, clock)
    until(lambda: runner.save_due_s is not None)

    def saved() -> bool:
        clock.advance(30_000)
        return runner.counts.snapshots == 1

    until(saved)
    clock.advance(300_000)
    pool.stop()

    assert (runner.status.snapshot, runner.counts.snapshots) == (Offset(1, 2), 1)


def test_a_topic_that_cannot_be_read_is_tried_again() -> None:
    class Away(ListTail):
        is_away = True

        def read_columns(self, after: int, limit: int, bits: int):  # type: ignore[no-untyped-def]
            if self.is_away:
                raise OSError("the tier is away")
            return super().read_columns(after, limit, bits)

    clock, tail = FakeClock(), Away(b"1")
    pool = ProjectionPool(clock, is_threaded=True)
    runner = ProjectionRunner(MemoryFilesystem(), "/p/1", tail, Adder, clock)
    pool.add(runner)
    until(lambda: bool(pool._retries))
    tail.is_away = False

    def folded() -> bool:
        clock.advance(1000)
        return runner.applied == Offset(1, 1)

    until(folded)
    pool.stop()


def test_without_threads_upkeep_does_it_all() -> None:
    clock = FakeClock()
    pool = ProjectionPool(clock, is_threaded=False)
    runner = made(pool, clock)
    before = runner.lag

    pool.upkeep()
    clock.advance(30_000)
    pool.upkeep()

    assert (before, runner.applied, runner.counts.snapshots) == (2, Offset(1, 2), 1)
    pool.stop()


def test_what_was_removed_is_left_alone() -> None:
    clock = FakeClock()
    pool = ProjectionPool(clock, is_threaded=False)
    runner = made(pool, clock)
    pool.remove(runner)
    pool.upkeep()

    assert runner.applied is None
