"""The clock of leases: nobody can set it."""

from __future__ import annotations

from penstock.engine.lease_clock import LeaseClock
from penstock.testing import FakeClock


def test_it_goes_on_as_it_began_whatever_the_wall_clock_says() -> None:
    clock = FakeClock(5_000)
    leases = LeaseClock(clock)

    clock.jump(-3_600_000)
    clock.advance(1_001)

    assert leases.now_ms() == 6_001
