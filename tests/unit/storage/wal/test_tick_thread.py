"""The thread of the ticks: begun, waited for, ended, whatever its work does."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from penstock.storage.wal.tick_thread import TickThread
from tests.support.serving import eventually
from tests.unit.storage.wal.support import leave_woken_waiter


class Ticks:
    """A thread that does what `work` says, and notes what it is told."""

    def __init__(self, work: Callable[[], None] = lambda: None) -> None:
        self.work = work
        self.bugs: list[BaseException] = []
        self.ended = threading.Semaphore(0)
        self.thread = TickThread("ticks", self._sync, self.bugs.append, self.ended.release)

    def _sync(self) -> None:
        self.work()

    def tick(self) -> None:
        assert self.thread.begin()
        assert self.ended.acquire(timeout=60)


def is_alive() -> bool:
    return any(thread.name == "ticks" for thread in threading.enumerate())


def test_each_tick_runs_once_on_one_thread() -> None:
    threads: list[int] = []
    ticks = Ticks(lambda: threads.append(threading.get_ident()))

    for _ in range(3):
        ticks.tick()
    ticks.thread.stop()

    assert len(threads) == 3
    assert len(set(threads)) == 1
    assert threads[0] != threading.get_ident()


def test_a_thread_that_was_never_needed_is_never_started() -> None:
    ticks = Ticks()

    ticks.thread.stop()

    assert not is_alive()


def test_waiting_ends_with_the_tick() -> None:
    begun, released = threading.Event(), threading.Event()
    events: list[str] = []

    def work() -> None:
        begun.set()
        assert released.wait(60)
        events.append("ticked")

    def wait() -> None:
        ticks.thread.wait()
        events.append("waited")

    ticks = Ticks(work)
    assert ticks.thread.begin()
    assert begun.wait(60)
    other = threading.Thread(target=wait)
    other.start()
    released.set()
    other.join(60)
    ticks.thread.stop()

    assert events == ["ticked", "waited"]


@pytest.mark.parametrize("bug", [ZeroDivisionError(), SystemExit()])
def test_a_bug_is_told_and_ends_no_thread(bug: BaseException) -> None:
    def work() -> None:
        raise bug

    ticks = Ticks(work)

    ticks.tick()
    ticks.work = lambda: None
    ticks.tick()

    assert ticks.bugs == [bug]
    assert not ticks.thread.is_under_way
    ticks.thread.stop()
    assert not is_alive()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_tick_is_over_also_when_its_bug_cannot_be_told() -> None:
    """Writers wait for a tick that is under way when they are far ahead of it."""

    def work() -> None:
        raise ZeroDivisionError

    def refuse(bug: BaseException) -> None:
        raise bug

    ticks = Ticks(work)
    ticks.thread._stop_for_bug = refuse

    ticks.tick()

    assert not ticks.thread.is_under_way
    ticks.thread.stop()


@pytest.mark.parametrize("verb", ["begin", "stop"])
def test_a_notification_that_was_interrupted_takes_no_later_one(verb: str) -> None:
    ticks = Ticks()
    ticks.tick()
    wake = ticks.thread._wake
    eventually(lambda: wake._waiters, "a thread that waits")  # type: ignore[attr-defined]
    leave_woken_waiter(wake)

    if verb == "begin":
        ticks.tick()
    stopper = threading.Thread(target=ticks.thread.stop, daemon=True)
    stopper.start()
    stopper.join(60)

    assert not is_alive()


def test_stopping_enters_no_condition(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception from outside may come between acquiring one and entering its block."""
    ticks = Ticks()
    ticks.tick()
    entered: list[object] = []
    enter = threading.Condition.__enter__

    def note(condition: threading.Condition) -> bool:
        if threading.current_thread() is threading.main_thread():
            entered.append(condition)
        return enter(condition)

    monkeypatch.setattr(threading.Condition, "__enter__", note)
    ticks.thread.stop()

    assert ticks.thread._wake not in entered
    assert not is_alive()
