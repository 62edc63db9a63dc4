"""Steps of C calls: all of them, in their order, and no exception from outside in between."""

from __future__ import annotations

import signal

from penstock.atomic_steps import perform


class Pair:
    def __init__(self) -> None:
        self.first = self.second = 0


def test_steps_are_made_in_their_order() -> None:
    made: list[int] = []

    perform([(made.append, 1), (made.append, 2), (made.clear,), (made.extend, (3, 4))])

    assert made == [3, 4]


def test_a_signal_handler_never_sees_half_of_the_steps() -> None:
    pair = Pair()
    seen: list[bool] = []

    def handler(number: int, frame: object) -> None:
        seen.append(pair.first == pair.second)

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        while len(seen) < 200:
            value = pair.first + 1
            perform(((setattr, pair, "first", value), (setattr, pair, "second", value)))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

    assert all(seen)
