"""Rests end by themselves, or when somebody is in a hurry."""

from __future__ import annotations

import threading

from penstock.projections.save_pace import REST_MAX_S, SavePace
from penstock.testing.clock import FakeClock
from tests.support.serving import eventually


def test_a_rest_ends_when_its_time_has_passed_and_none_is_longer_than_the_limit() -> None:
    clock = FakeClock()
    pace = SavePace(clock)
    resting = threading.Thread(target=pace.rest, args=(3600.0,))

    resting.start()

    def over() -> bool:
        clock.advance(REST_MAX_S * 1000)
        resting.join(0.01)
        return not resting.is_alive()

    eventually(over, "the rest ends")


def test_a_hurry_ends_the_rest_under_way_and_all_later_ones() -> None:
    pace = SavePace(FakeClock())  # whose time stands still
    resting = threading.Thread(target=pace.rest, args=(1.0,))
    resting.start()

    pace.hurry()

    resting.join()
    pace.rest(1.0)


def test_no_rest_is_no_wait() -> None:
    SavePace(FakeClock()).rest(0.0)
