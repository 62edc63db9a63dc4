from __future__ import annotations

import threading

import pytest

from penstock.errors import LogFailed, Overloaded
from penstock.storage.wal.ticket import Ticket, closed_gate

FAILED = LogFailed("/data/wal", reason="fdatasync failed")


def ticket(**fields: object) -> Ticket:
    return Ticket(b"frames", None, True, **fields)


def test_a_resolved_ticket_lets_any_number_of_waiters_through() -> None:
    one = ticket(gate=closed_gate())
    waiters = [threading.Thread(target=one.wait, args=(60.0,)) for _ in range(3)]
    for waiter in waiters:
        waiter.start()

    one.resolve()

    for waiter in waiters:
        waiter.join(60.0)
    one.wait(0.0)
    assert not any(waiter.is_alive() for waiter in waiters)


def test_a_failed_ticket_raises_for_everyone_who_waits() -> None:
    one = ticket(gate=closed_gate())

    one.resolve(FAILED)

    for _ in range(2):
        with pytest.raises(LogFailed, match="fdatasync failed"):
            one.wait(0.0)


def test_no_answer_in_time_is_unknown_and_not_failed() -> None:
    one = ticket(gate=closed_gate())

    with pytest.raises(Overloaded, match="may or may not happen") as caught:
        one.wait(0.0)

    assert caught.value.retry_after_ms > 0
    assert not one.is_done
    one.resolve()
    one.wait(0.0)


def test_the_callback_gets_the_ticket_once_it_is_done() -> None:
    seen: list[tuple[bool, object]] = []

    ticket(callback=lambda done: seen.append((done.is_done, done.error))).resolve(FAILED)

    assert seen == [(True, FAILED)]


def test_a_ticket_without_a_gate_cannot_be_waited_for() -> None:
    with pytest.raises(AssertionError, match="gate"):
        ticket().wait(0.0)
