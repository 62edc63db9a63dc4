"""The bounded queue of errors for the error handler, and the thread that calls the handler.

A full queue drops its oldest error: the newest ones describe the current state.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

from penstock.sender.error_policy import ErrorPolicy, SenderError

_log = logging.getLogger("penstock.sender")
Handler = Callable[[SenderError], None]


def log_error(error: SenderError) -> None:
    """The default handler: log the error."""
    what = f"frame {error.fsn}" if error.fsn >= 0 else "the sender"
    if error.topic:
        what += f" for topic {error.topic!r}"
    if error.sender_id:
        what = f"slot {error.sender_id!r}: {what}"
    done = {
        ErrorPolicy.DROP: "was rejected and moved to the dead-letter folder",
        ErrorPolicy.HALT: "was rejected, and sending has stopped",
        ErrorPolicy.RETRY: "was rejected and will be sent again",
        ErrorPolicy.LOSE: "is LOST",
    }[error.act]
    why = f"{error.category}, {error.host}" if error.host else error.category
    _log.error("%s %s: %s (%s)", what, done, error.message, why)


class ErrorInbox:
    """Safe from several threads. Its thread starts with the first error."""

    def __init__(self, capacity: int, handler: Handler | None) -> None:
        self.dropped = 0
        self.delivered = 0
        self._capacity = capacity
        self._handler = handler or log_error
        self._waiting: deque[SenderError] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_closing = False

    def put(self, error: SenderError) -> None:
        """Queue an error. A loss is also logged at once."""
        if error.act is ErrorPolicy.LOSE:
            log_error(error)
        with self._changed:
            if len(self._waiting) >= self._capacity:
                self._waiting.popleft()
                self.dropped += 1
            self._waiting.append(error)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="penstock-sender-errors", daemon=True
                )
                self._thread.start()
            self._changed.notify()

    def close(self, timeout_s: float) -> None:
        """Call the handler for the queued errors, for at most `timeout_s`."""
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
                if error.act is not ErrorPolicy.LOSE or self._handler is not log_error:
                    self._handler(error)
            except BaseException:  # noqa: BLE001 - a handler that raises SystemExit must not end the thread
                _log.exception("the error handler failed; the error was: %s", error)
                log_error(error)
            self.delivered += 1
