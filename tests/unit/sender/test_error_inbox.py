"""Errors on their way to a handler."""

from __future__ import annotations

import logging
import threading

import pytest

from penstock.sender.error_inbox import ErrorInbox
from penstock.sender.error_policy import Category, ErrorPolicy, SenderError

DEADLINE_S = 120.0  # what must happen has happened by then, on however busy a machine


def error(fsn: int, act: ErrorPolicy = ErrorPolicy.DROP) -> SenderError:
    return SenderError(
        Category.SCHEMA_MISMATCH, act, "no such column", fsn, 3, "h:1", "orders", "till-1"
    )


def logged(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """By the inbox, on its thread or on ours; not by senders of other tests on their way to their
    end."""
    ours = (threading.current_thread().name, "penstock-sender-errors")
    return [record for record in caplog.records if record.threadName in ours]


class Slow:
    """A handler that waits until it may go on."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.is_busy = threading.Event()
        self.told: list[int] = []

    def __call__(self, told: SenderError) -> None:
        self.is_busy.set()
        assert self.gate.wait(DEADLINE_S)
        self.told.append(told.fsn)


def test_errors_are_handed_over_in_their_order() -> None:
    told: list[int] = []
    inbox = ErrorInbox(16, lambda one: told.append(one.fsn))

    for fsn in range(5):
        inbox.put(error(fsn))
    inbox.close(DEADLINE_S)

    assert told == [0, 1, 2, 3, 4]
    assert (inbox.delivered, inbox.dropped) == (5, 0)


def test_a_full_inbox_lets_the_oldest_go_and_counts_them() -> None:
    slow = Slow()
    inbox = ErrorInbox(16, slow)
    inbox.put(error(0))
    assert slow.is_busy.wait(DEADLINE_S)

    for fsn in range(1, 31):
        inbox.put(error(fsn))
    slow.gate.set()
    inbox.close(DEADLINE_S)

    assert slow.told == [0, *range(15, 31)]
    assert inbox.dropped == 14


def test_a_handler_that_fails_gets_the_next_one_and_hides_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(told: SenderError) -> None:
        raise ValueError("oops")

    inbox = ErrorInbox(16, broken)
    inbox.put(error(1))
    inbox.put(error(2))
    inbox.close(DEADLINE_S)

    assert inbox.delivered == 2
    assert caplog.text.count("the error handler failed") == 2
    assert "frame 2 for topic 'orders'" in caplog.text


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (ErrorPolicy.DROP, "dead-letter"),
        (ErrorPolicy.HALT, "sending has stopped"),
        (ErrorPolicy.RETRY, "sent again"),
    ],
)
def test_without_a_handler_errors_are_told_loudly(
    act: ErrorPolicy, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    inbox = ErrorInbox(16, None)
    inbox.put(error(7, act))
    inbox.put(SenderError(Category.SECURITY_ERROR, act, "who are you"))
    inbox.close(DEADLINE_S)

    first, second = logged(caplog)
    assert (first.levelno, first.name) == (logging.ERROR, "penstock.sender")
    assert words in first.getMessage()
    for word in ("till-1", "frame 7", "'orders'", "no such column", "schema_mismatch", "h:1"):
        assert word in first.getMessage()
    assert "the sender" in second.getMessage()
    assert "who are you" in second.getMessage()


@pytest.mark.parametrize("has_handler", [True, False])
def test_a_loss_is_logged_once_whoever_handles_it(
    has_handler: bool, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[SenderError] = []
    inbox = ErrorInbox(16, told.append if has_handler else None)
    inbox.put(error(7, ErrorPolicy.LOSE))
    inbox.close(DEADLINE_S)

    (record,) = logged(caplog)
    assert "frame 7 for topic 'orders' is LOST: no such column" in record.getMessage()
    assert len(told) == has_handler


def test_a_handler_that_exits_hears_the_next_error() -> None:
    told: list[int] = []

    def exiting(error: SenderError) -> None:
        told.append(error.fsn)
        raise SystemExit(1)

    inbox = ErrorInbox(16, exiting)
    for fsn in range(3):
        inbox.put(error(fsn))
    inbox.close(DEADLINE_S)

    assert told == [0, 1, 2]


def test_a_close_does_not_wait_for_ever() -> None:
    slow = Slow()
    inbox = ErrorInbox(16, slow)
    inbox.put(error(0))

    inbox.close(0.01)

    slow.gate.set()


def test_a_handler_may_close_what_it_is_called_by() -> None:
    closed = threading.Event()

    def closing(told: SenderError) -> None:
        inbox.close(DEADLINE_S)
        closed.set()

    inbox = ErrorInbox(16, closing)
    inbox.put(error(0))

    assert closed.wait(DEADLINE_S)


def test_an_inbox_without_errors_needs_no_thread() -> None:
    before = set(threading.enumerate())
    inbox = ErrorInbox(16, None)

    inbox.close(DEADLINE_S)

    assert set(threading.enumerate()) <= before
