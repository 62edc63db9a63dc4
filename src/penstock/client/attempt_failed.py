"""The error of one attempt that brought no answer; the kinds of failure, also of socket errors."""

from __future__ import annotations

import enum
import os
import socket
import ssl


class Failure(enum.Enum):
    """The ways in which an attempt fails."""

    NOT_SENT = "not sent"  # no connection: the server has not seen the request
    REFUSED = "refused"  # the server refused it before it changed anything
    LOST = "lost"  # sent, at least in part; the outcome is unknown
    UNTRUSTED = "untrusted"  # the server's certificate is not accepted; a retry would not help


class AttemptFailed(Exception):
    """An attempt brought no answer. `is_late`: because the deadline passed."""

    def __init__(self, failure: Failure, why: str, *, is_late: bool = False) -> None:
        super().__init__(why)
        self.failure = failure
        self.is_late = is_late


def failed(failure: Failure, error: Exception) -> AttemptFailed:
    """The failure of the attempt for an error of the socket or of the response reader."""
    is_late = isinstance(error, TimeoutError)
    why = "no answer in time" if is_late else str(error) or type(error).__name__
    if isinstance(error, socket.gaierror):
        why = error.strerror or why
    elif isinstance(error, OSError) and error.errno and not isinstance(error, ssl.SSLError):
        why = os.strerror(error.errno)  # asyncio has a text of its own in its place
    if isinstance(error, ssl.SSLCertVerificationError):
        failure = Failure.UNTRUSTED
        why = f"its certificate is not accepted: {error.verify_message}"
    return AttemptFailed(failure, why, is_late=is_late)
