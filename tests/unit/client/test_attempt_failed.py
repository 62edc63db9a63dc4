"""Errors of sockets as failures of an attempt."""

from __future__ import annotations

import errno
import socket
import ssl

import pytest

from penstock.client.attempt_failed import Failure, failed
from penstock.client.http import BadAnswer


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "asyncio's text"), "Connection refused"),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "Name or service"),
        (BadAnswer("the answer is not HTTP"), "the answer is not HTTP"),
        (ConnectionResetError(), "ConnectionResetError"),
    ],
)
def test_the_message_says_what_went_wrong(error: Exception, text: str) -> None:
    found = failed(Failure.LOST, error)

    assert text in str(found)
    assert found.failure is Failure.LOST
    assert not found.is_late


def test_a_passed_deadline_is_late() -> None:
    found = failed(Failure.NOT_SENT, TimeoutError())

    assert (found.failure, found.is_late, str(found)) == (
        Failure.NOT_SENT,
        True,
        "no answer in time",
    )


def test_a_certificate_that_is_not_accepted_is_not_tried_again() -> None:
    error = ssl.SSLCertVerificationError(1, "verify failed")
    error.verify_message = "self-signed certificate"

    found = failed(Failure.NOT_SENT, error)

    assert found.failure is Failure.UNTRUSTED
    assert "self-signed certificate" in str(found)
