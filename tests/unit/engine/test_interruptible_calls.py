"""Verbs on threads of the log: done wholly, whatever interrupts the wait for them."""

from __future__ import annotations

import errno
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

from penstock.engine import interruptible_calls
from penstock.engine.interruptible_calls import VerbThreads
from penstock.errors import TopicNotFound
from tests.support.serving import eventually

PATIENCE_S = 120.0


class Alarm(Exception):
    pass


def made(
    *,
    is_threaded: bool = True,
    is_locked: bool = False,
    on_interrupt: Callable[[BaseException], None] = lambda error: None,
) -> VerbThreads:
    return VerbThreads(
        is_threaded=is_threaded, is_locked=lambda: is_locked, on_interrupt=on_interrupt
    )


def test_a_caller_gets_the_result_of_another() -> None:
    verbs = made()

    found = verbs.run(threading.current_thread)
    verbs.stop()

    assert found.name == "penstock-verbs"
    assert not found.is_alive()


@pytest.mark.parametrize(
    "verbs", [made(is_threaded=False), made(is_locked=True)], ids=["no threads", "a lock is held"]
)
def test_without_need_a_verb_runs_here(verbs: VerbThreads) -> None:
    assert verbs.run(threading.current_thread) is threading.current_thread()


def test_a_verb_that_uses_another_stays_on_its_thread() -> None:
    verbs = made()

    outer, inner = verbs.run(
        lambda: (threading.current_thread(), verbs.run(threading.current_thread))
    )
    verbs.stop()

    assert outer is inner


def test_verbs_of_several_threads_run_at_the_same_time() -> None:
    verbs = made()
    together = threading.Barrier(20, timeout=PATIENCE_S)
    threads = [threading.Thread(target=verbs.run, args=(together.wait,)) for _ in range(20)]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    verbs.stop()

    assert not together.broken
    assert not [one for one in threading.enumerate() if one.name == "penstock-verbs"]


def test_more_verbs_than_threads_wait_for_one_another() -> None:
    verbs = made()
    done: list[int] = []
    threads = [
        threading.Thread(target=verbs.run, args=(lambda number=number: done.append(number),))
        for number in range(200)
    ]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    verbs.stop()

    assert sorted(done) == list(range(200))


def test_threads_that_are_not_needed_end_and_one_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interruptible_calls, "_IDLE_S", 0.001)
    verbs = made()
    together = threading.Barrier(8, timeout=PATIENCE_S)
    threads = [threading.Thread(target=verbs.run, args=(together.wait,)) for _ in range(8)]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    eventually(lambda: len(verbs._threads) == 1, "one spare thread")

    assert verbs.run(lambda: 7) == 7
    verbs.stop()
    assert not verbs._threads


def test_a_verb_queued_while_the_threads_stop_is_done() -> None:
    """By a thread that is still there, or by its caller."""
    for _ in range(100):
        verbs = made()
        verbs.run(lambda: None)
        done: list[int] = []
        thread = threading.Thread(target=verbs.run, args=(lambda done=done: done.append(1),))
        thread.start()
        verbs.stop()
        thread.join()

        assert done == [1]


def test_what_a_verb_raises_reaches_its_caller() -> None:
    verbs = made()

    with pytest.raises(KeyError, match="gone"):
        verbs.run(lambda: {}["gone"])
    assert verbs.run(lambda: 1) == 1
    verbs.stop()


def test_a_verb_whose_caller_was_interrupted_is_done_all_the_same() -> None:
    verbs = made()
    go_on, done = threading.Event(), threading.Event()
    alarms: list[Alarm] = []

    def verb() -> None:
        # A signal that comes just before the caller sleeps does not wake it: then one more.
        while not go_on.wait(0.05):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)
        done.set()

    def handler(number: int, frame: object) -> None:
        if not alarms:
            alarms.append(Alarm())
            raise alarms[0]

    before = signal.signal(signal.SIGALRM, handler)
    try:
        with pytest.raises(Alarm):
            verbs.run(verb)
        was_done = done.is_set()
        go_on.set()
        is_done = verbs.run(lambda: done.is_set())
    finally:
        go_on.set()
        verbs.stop()
        signal.signal(signal.SIGALRM, before)

    assert (was_done, is_done) == (False, True)


def test_after_the_stop_verbs_run_on_their_callers_thread() -> None:
    verbs = made()
    verbs.run(lambda: None)
    verbs.stop()

    assert verbs.run(threading.current_thread) is threading.current_thread()


# Without threads.


def raising(error: BaseException) -> Callable[[], Any]:
    def verb() -> Any:
        raise error

    return verb


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), Alarm(), TimeoutError("an alarm"), AssertionError()], ids=repr
)
def test_without_threads_an_exception_from_outside_is_reported(error: BaseException) -> None:
    told: list[BaseException] = []
    verbs = made(is_threaded=False, on_interrupt=told.append)

    with pytest.raises(type(error)):
        verbs.run(raising(error))

    assert told == [error]


@pytest.mark.parametrize("error", [TopicNotFound("t"), OSError(errno.ENOSPC, "full")], ids=repr)
def test_errors_of_the_log_and_of_the_system_interrupt_nothing(error: Exception) -> None:
    told: list[BaseException] = []
    verbs = made(is_threaded=False, on_interrupt=told.append)

    with pytest.raises(type(error)):
        verbs.run(raising(error))

    assert not told


def test_arguments_that_a_verb_does_not_have_interrupt_nothing() -> None:
    told: list[BaseException] = []
    verbs = made(is_threaded=False, on_interrupt=told.append)

    with pytest.raises(TypeError):
        verbs.run(lambda needed: needed)  # type: ignore[arg-type, misc]

    assert not told
