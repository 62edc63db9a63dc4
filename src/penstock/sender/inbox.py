"""Errors on their way to whoever handles them: a bounded queue, and a thread that hands them over.

When it is full the oldest goes: what is said of frames only grows, so the newest tells most.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

from penstock.sender.verdicts import Act, SenderError

_log = logging.getLogger("penstock.sender")
Handler = Callable[[SenderError], None]


def loudly(error: SenderError) -> None:
    """The handler of those who bring none: silence would look like health."""
    what = f"frame {error.fsn}" if error.fsn >= 0 else "the sender"
    if error.topic:
        what += f" for topic {error.topic!r}"
    if error.sender_id:
        what = f"slot {error.sender_id!r}: {what}"
    done = {
        Act.DROP: "was refused and put into the dead-letter folder",
        Act.HALT: "was refused, and sending has stopped",
        Act.RETRY: "was refused and will be sent again",
        Act.LOSE: "is LOST",
    }[error.act]
    why = f"{error.category}, {error.host}" if error.host else error.category
    _log.error("%s %s: %s (%s)", what, done, error.message, why)


class Inbox:
    """Safe from several threads. Its thread starts with the first error."""

    def __init__(self, capacity: int, handler: Handler | None) -> None:
        self.dropped = 0
        self.delivered = 0
        self._capacity = capacity
        self._handler = handler or loudly
        self._waiting: deque[SenderError] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_closing = False

    def put(self, error: SenderError) -> None:
        """A loss is logged at once, whoever else is told."""
        if error.act is Act.LOSE:
            loudly(error)
        with self._changed:
            if len(self._waiting) >= self._capacity:
                self._waiting.popleft()
                self.dropped += 1
            self._waiting.append(error)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="penstock-errors", daemon=True
                )
                self._thread.start()
            self._changed.notify()

    def close(self, timeout_s: float) -> None:
        """Hand over what is there, within this time."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout_s)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._is_closing:
                    self._changed.wait()
                if not self._waiting:
                    return
                error = self._waiting.popleft()
            try:
                if error.act is not Act.LOSE or self._handler is not loudly:
                    self._handler(error)
            except BaseException:  # noqa: BLE001 - nor may one that exits hide the next error
                _log.exception("the error handler failed; the error was: %s", error)
                loudly(error)
            self.delivered += 1
