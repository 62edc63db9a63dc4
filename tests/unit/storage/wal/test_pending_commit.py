from __future__ import annotations

import threading

import pytest

from penstock.errors import LogFailed, Overloaded
from penstock.storage.wal.pending_commit import PendingCommit, closed_gate

FAILED = LogFailed("/data/wal", reason="fdatasync failed")


def commit(**fields: object) -> PendingCommit:
    return PendingCommit(b"frames", None, True, **fields)


def test_a_resolved_ticket_lets_any_number_of_waiters_through() -> None:
    one = commit(gate=closed_gate())
    waiters = [threading.Thread(target=one.wait, args=(60.0,)) for _ in range(3)]
    for waiter in waiters:
        waiter.start()

    one.resolve()

    for waiter in waiters:
        waiter.join(60.0)
    one.wait(0.0)
    assert not any(waiter.is_alive() for waiter in waiters)


def test_a_failed_ticket_raises_for_everyone_who_waits() -> None:
    one = commit(gate=closed_gate())

    one.resolve(FAILED)

    for _ in range(2):
        with pytest.raises(LogFailed, match="fdatasync failed"):
            one.wait(0.0)


def test_no_answer_in_time_is_unknown_and_not_failed() -> None:
    one = commit(gate=closed_gate())

    with pytest.raises(Overloaded, match="may or may not happen") as caught:
        one.wait(0.0)

    assert caught.value.retry_after_ms > 0
    assert not one.is_done
    one.resolve()
    one.wait(0.0)


def test_the_callback_gets_the_ticket_once_it_is_done() -> None:
    seen: list[tuple[bool, object]] = []

    commit(callback=lambda done: seen.append((done.is_done, done.error))).resolve(FAILED)

    assert seen == [(True, FAILED)]


def test_whoever_waits_for_a_commit_without_a_gate_is_woken() -> None:
    waited = commit()
    done = threading.Event()

    def wait() -> None:
        waited.wait(60.0)
        done.set()

    thread = threading.Thread(target=wait)
    thread.start()
    while waited.gate is None:
        threading.Event().wait(0.001)
    assert not done.is_set()
    waited.resolve()
    thread.join()

    assert done.is_set()
