from __future__ import annotations

import threading

from penstock.clock import SystemClock


def test_the_wall_clock_counts_milliseconds_since_1970() -> None:
    year_2020_ms, year_2100_ms = 1_577_836_800_000, 4_102_444_800_000

    assert year_2020_ms < SystemClock().now_ms() < year_2100_ms


def test_the_monotonic_clock_never_goes_back() -> None:
    clock = SystemClock()
    readings = [clock.monotonic() for _ in range(100)]

    assert readings == sorted(readings)


def test_a_wait_tells_a_notification_from_running_out_of_time() -> None:
    clock = SystemClock()
    condition = threading.Condition()

    def notify() -> None:
        with condition:
            condition.notify()

    with condition:
        ran_out = clock.wait(condition, 0.0)
        threading.Thread(target=notify).start()
        notified = clock.wait(condition, 60.0)

    assert (ran_out, notified) == (False, True)
