"""A bell that keeps nobody waiting who rings it."""

from __future__ import annotations

import os
import selectors
import socket
import threading

import pytest

from penstock.sender import bell as bells
from penstock.sender.bell import Bell


def is_heard(bell: Bell, timeout_s: float = 0) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(bell, selectors.EVENT_READ)
        return bool(selector.select(timeout_s))


@pytest.fixture(params=["keeping", "sending"])
def bell(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Bell:
    if request.param == "sending":
        monkeypatch.setattr(bells, "_write", bells._send)
    return Bell()


def test_it_is_heard_once_it_was_rung_until_it_is_silenced(bell: Bell) -> None:
    assert not is_heard(bell)
    bell.ring()
    bell.ring()
    assert is_heard(bell)
    assert is_heard(bell)
    bell.silence()
    assert not is_heard(bell)
    bell.silence()
    bell.ring()
    assert is_heard(bell)
    bell.close()


def test_however_often_it_is_rung_nobody_waits(bell: Bell) -> None:
    for _ in range(200_000):
        bell.ring()
    bell.silence()
    assert not is_heard(bell)
    bell.close()


def test_a_ring_after_the_end_goes_nowhere(bell: Bell) -> None:
    """Not into a file that has the number by then."""
    numbers = {bell.fileno(), bell._rung}
    bell.close()
    bell.close()
    left, right = socket.socketpair()
    with left, right:
        assert {left.fileno(), right.fileno()} & numbers or os.name != "posix"
        bell.ring()
        bell.ring()
        for one in (left, right):
            one.setblocking(False)
            with pytest.raises(BlockingIOError):
                one.recv(1)


def test_a_ring_in_the_middle_of_a_silence_deafens_nobody(
    bell: Bell, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = os.read

    def interrupted(pipe: int, size: int) -> bytes:
        bell.ring()
        return read(pipe, size)

    bell.ring()
    with monkeypatch.context() as patch:
        patch.setattr(os, "read", interrupted)
        bell.silence()
    bell.ring()

    assert is_heard(bell)
    bell.close()


def test_every_ring_after_a_silence_is_heard(bell: Bell) -> None:
    """The one that waits clears, looks and waits; none of 2,000 things may be overlooked."""
    given = 0
    seen = 0
    done = threading.Event()

    def give() -> None:
        nonlocal given
        for _ in range(2000):
            given += 1
            bell.ring()
        done.set()

    giver = threading.Thread(target=give)
    giver.start()
    while seen < 2000:
        assert is_heard(bell, 120), (seen, given)
        bell.silence()
        seen = given
    giver.join()
    assert done.is_set()
    bell.close()
