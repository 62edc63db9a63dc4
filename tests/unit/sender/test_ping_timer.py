"""When a silent server is pinged and given up."""

from __future__ import annotations

from penstock.sender.ping_timer import PingTimer


def test_silence_is_asked_about_once_and_then_given_up() -> None:
    timer = PingTimer(100.0, 0.0)
    assert timer.pause_s(True) == 20.0
    assert not timer.wants_ping(120.0, False)
    assert timer.wants_ping(120.1, False)
    assert not timer.wants_ping(125.0, False)
    assert not timer.is_over(140.1)
    timer.record_received(2, 140.0)
    assert not timer.is_over(141.0)
    assert timer.wants_ping(160.1, True)
    assert not timer.is_over(180.0)
    assert timer.is_over(180.2)


def test_a_server_that_syncs_is_pinged_at_its_pace() -> None:
    timer = PingTimer(0.0, 0.25)
    pings = 0
    for tick in range(1, 1025):  # many looks, and something is heard each time
        timer.record_received(tick, tick / 1024)
        pings += timer.wants_ping(tick / 1024, True)
    assert pings == 4
    assert timer.pause_s(True) == 0.25
    assert timer.pause_s(False) == 20.0
