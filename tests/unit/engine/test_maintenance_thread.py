from __future__ import annotations

import threading

from penstock.engine.maintenance_thread import MaintenanceThread
from penstock.testing import FakeClock


class Beats:
    """Counts beats, and lets a test wait for one."""

    def __init__(self) -> None:
        self.count = 0
        self._changed = threading.Condition()

    def __call__(self) -> None:
        with self._changed:
            self.count += 1
            self._changed.notify_all()

    def reach(self, count: int) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self.count >= count, 60.0)


def test_it_beats_when_the_interval_is_over() -> None:
    beats, clock = Beats(), FakeClock()
    upkeep = MaintenanceThread(clock, 250, beats)

    for _ in range(600):  # the thread may not be waiting yet when the clock is moved
        clock.advance(250)
        with beats._changed:
            if beats._changed.wait_for(lambda: beats.count >= 2, 0.1):
                break

    upkeep.stop()
    assert beats.count >= 2


def test_it_beats_at_once_when_nudged() -> None:
    beats = Beats()
    upkeep = MaintenanceThread(FakeClock(), 60_000, beats)

    upkeep.nudge()

    assert beats.reach(1)
    upkeep.stop()


def test_stopping_waits_for_the_beat_under_way_and_ends_the_thread() -> None:
    began, go = threading.Event(), threading.Event()
    ended: list[bool] = []

    def beat() -> None:
        began.set()
        assert go.wait(60.0)
        ended.append(True)

    upkeep = MaintenanceThread(FakeClock(), 60_000, beat)
    upkeep.nudge()
    assert began.wait(60.0)
    stopper = threading.Thread(target=upkeep.stop)
    stopper.start()

    go.set()
    stopper.join(60.0)

    assert ended == [True]
    assert not upkeep._thread.is_alive()


def test_a_nudge_during_a_beat_is_not_lost() -> None:
    beats = Beats()
    upkeep: MaintenanceThread

    def beat() -> None:
        if beats.count == 0:
            upkeep.nudge()
        beats()

    upkeep = MaintenanceThread(FakeClock(), 60_000, beat)
    upkeep.nudge()

    assert beats.reach(2)
    upkeep.stop()
