"""A bell that keeps nobody waiting who rings it."""

from __future__ import annotations

import os
import selectors
import socket
import threading

import pytest

from penstock.sender import wake_pipe as bells
from penstock.sender.wake_pipe import WakePipe


def is_heard(wake_pipe: WakePipe, timeout_s: float = 0) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(wake_pipe, selectors.EVENT_READ)
        return bool(selector.select(timeout_s))


@pytest.fixture(params=["keeping", "sending"])
def wake_pipe(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> WakePipe:
    if request.param == "sending":
        monkeypatch.setattr(bells, "_write", bells._send)
    return WakePipe()


def test_it_is_heard_once_it_was_rung_until_it_is_silenced(wake_pipe: WakePipe) -> None:
    assert not is_heard(wake_pipe)
    wake_pipe.wake()
    wake_pipe.wake()
    assert is_heard(wake_pipe)
    assert is_heard(wake_pipe)
    wake_pipe.clear()
    assert not is_heard(wake_pipe)
    wake_pipe.clear()
    wake_pipe.wake()
    assert is_heard(wake_pipe)
    wake_pipe.close()


def test_however_often_it_is_rung_nobody_waits(wake_pipe: WakePipe) -> None:
    for _ in range(200_000):
        wake_pipe.wake()
    wake_pipe.clear()
    assert not is_heard(wake_pipe)
    wake_pipe.close()


def test_a_ring_after_the_end_goes_nowhere(wake_pipe: WakePipe) -> None:
    """Not into a file that has the number by then."""
    wake_pipe.close()
    wake_pipe.close()
    left, right = socket.socketpair()
    with left, right:
        wake_pipe._write_fd = left.fileno()
        wake_pipe.wake()
        wake_pipe.wake()
        for one in (left, right):
            one.setblocking(False)
            with pytest.raises(BlockingIOError):
                one.recv(1)


def test_a_ring_in_the_middle_of_a_silence_deafens_nobody(
    wake_pipe: WakePipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = os.read

    def interrupted(pipe: int, size: int) -> bytes:
        wake_pipe.wake()
        return read(pipe, size)

    wake_pipe.wake()
    with monkeypatch.context() as patch:
        patch.setattr(os, "read", interrupted)
        wake_pipe.clear()
    wake_pipe.wake()

    assert is_heard(wake_pipe)
    wake_pipe.close()


def test_every_ring_after_a_silence_is_heard(wake_pipe: WakePipe) -> None:
    """The one that waits clears, looks and waits; none of 2,000 things may be overlooked."""
    given = 0
    seen = 0
    done = threading.Event()

    def give() -> None:
        nonlocal given
        for _ in range(2000):
            given += 1
            wake_pipe.wake()
        done.set()

    giver = threading.Thread(target=give)
    giver.start()
    while seen < 2000:
        assert is_heard(wake_pipe, 120), (seen, given)
        wake_pipe.clear()
        seen = given
    giver.join()
    assert done.is_set()
    wake_pipe.close()
