"""What a client hears when a topic is full, or the server too busy: no error, but a close after a
pause.

A temporary error is not a refusal. The official client counts refusals, and stops after a few
within seconds. After a close with 1001 it reconnects at once, without a limit, and keeps its rows.
It resends from the message that had no room.
"""

from __future__ import annotations

import asyncio
from typing import Final

from penstock.errors import Overloaded, TopicFull
from penstock.server.adapters import ApiError, WebSocket

_PAUSE_S: Final = 1.0  # the client makes none of its own before it comes again
_REASON_LETTERS_MAX: Final = 100  # of a close frame


def may_pass(error: Exception) -> bool:
    """True for errors that pass without an action of this client."""
    if isinstance(error, ApiError):
        return error.status == 429
    return isinstance(error, (TopicFull, Overloaded))


class DelayedClose:
    """Closes one connection after a pause. Event loop only.

    While it is pending nothing is read: a client sends ahead all that it has.
    """

    def __init__(self, socket: WebSocket) -> None:
        self.is_pending = False
        self._socket = socket
        self._timer: asyncio.TimerHandle | None = None

    def start(self, reason: str) -> None:
        self.is_pending = True
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(_PAUSE_S, self._close, reason)

    def cancel(self) -> None:
        """The client has left before."""
        if self._timer is not None:
            self._timer.cancel()

    def _close(self, reason: str) -> None:
        self.is_pending = False
        self._socket.close(1001, reason[:_REASON_LETTERS_MAX])
        self._socket.go_on()
