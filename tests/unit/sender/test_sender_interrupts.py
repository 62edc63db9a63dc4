"""A signal handler may raise its exception wherever a call returns. It is raised at each such place
in turn: no row is lost, none is there twice, and the sender goes on."""

from __future__ import annotations

import functools
import gc
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from penstock.sender.sender import Sender
from penstock.testing import FakeClock
from tests.support.sink import DEADLINE_S, Sink, conf


class Interrupt(Exception):
    """Of a signal handler."""


def interrupted(call: Callable[[], object], at: int) -> bool:
    """Do it, and raise when the so-manieth call within it returns; whether it got so far."""
    left = at

    def raising(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal left
        if event in ("return", "c_return") and frame.f_code is not interrupted.__code__:
            left -= 1
            if not left:
                sys.setprofile(None)
                raise Interrupt

    gc.disable()  # what others do when it collects is none of our business
    sys.setprofile(raising)
    try:
        call()
    except Interrupt:
        return True
    finally:
        sys.setprofile(None)
        gc.enable()
    return False


def everywhere(call: Callable[[int], object]) -> Iterator[int]:
    """Interrupt it at its first place, its second …, until it comes to its end."""
    at = 1
    while interrupted(functools.partial(call, at), at):
        yield at
        at += 1


@pytest.fixture(params=["memory", "periodic", "append"])
def sender(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Sender, Sink]]:
    keys = {"sf_dir": tmp_path, "sf_durability": request.param, "sf_max_segment_bytes": "4k"}
    with Sink() as sink, Sender(conf(sink, **keys), clock=FakeClock()) as made:
        yield made, sink


def test_a_flush_that_is_interrupted_loses_nothing_and_repeats_nothing(
    sender: tuple[Sender, Sink],
) -> None:
    made, sink = sender
    expected: list[bytes] = []

    def fill(number: int) -> None:
        for part in range(3):
            row = b'"%d.%d %s"' % (number, part, b"x" * 300)
            expected.append(row)
            made.append("t", row)

    fill(0)
    places = 0
    for places in everywhere(lambda at: made.flush()):
        assert made._lock.acquire(timeout=DEADLINE_S), f"held after place {places}"
        made._lock.release()
        fill(places)
    made.flush()

    assert places > 20
    assert made.drain(DEADLINE_S)
    assert sink.rows() == expected
    assert made.status().counters.frames_lost == 0
    assert made._waiting_bytes == 0


@pytest.mark.parametrize("tag", [None, "tag"])
def test_an_append_that_is_interrupted_takes_its_row_or_not(
    sender: tuple[Sender, Sink], tag: str | None
) -> None:
    made, sink = sender
    whole: list[bytes] = []
    doubtful: set[bytes] = set()

    def row(at: int) -> bytes:
        return b'"%d %s"' % (at, b"x" * 300)

    def append(count: int, at: int) -> None:
        made.append("t", row(1000 * count + at), tag)
        whole.append(row(1000 * count + at))

    for count in (1, 5):  # alone, and now and then as the one that sends others on their way
        for at in everywhere(functools.partial(append, count)):
            doubtful.add(row(1000 * count + at))
            for part in range(count):
                whole.append(b'"%d after %d.%d"' % (count, at, part))
                made.append("t", whole[-1])
        made.flush()

    assert made.drain(DEADLINE_S)
    found = sink.rows()
    assert len(found) == len(set(found))
    sure = [one for one in whole if one not in doubtful]
    assert [one for one in found if one not in doubtful] == sure
    assert len(doubtful) > 10
    assert made.status().counters.frames_rejected == 0


def test_what_is_interrupted_keeps_no_thread_out(sender: tuple[Sender, Sink]) -> None:
    made, sink = sender
    done: list[int] = []

    def other(number: int) -> None:
        made.append("other", number)
        made.flush()
        done.append(number)

    made.append("t", b'"begin"')
    for at in everywhere(lambda at: (made.append("t", at), made.flush())):
        thread = threading.Thread(target=other, args=(at,))
        thread.start()
        thread.join(DEADLINE_S)
        assert done[-1:] == [at]

    assert made.drain(DEADLINE_S)
    assert sink.rows("other") == [b"%d" % at for at in done]
