"""The watchman: who is counted, who is turned away, and that deadlines go on being held."""

from __future__ import annotations

import asyncio
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.server.http.connection_limits import ConnectionLimits
from penstock.server.settings import ServerSettings
from penstock.testing import FakeClock
from tests.unit.server.support import on_loop, settled, until


class Peer:
    def __init__(self) -> None:
        self.beats: list[float] = []

    def beat(self, now: float) -> None:
        self.beats.append(now)

    def shut(self) -> None: ...

    def abort(self) -> None: ...


def connection_limits(**settings: int) -> ConnectionLimits:
    return ConnectionLimits(ServerSettings(**settings), FakeClock())


# Counting.


@given(steps=st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.sampled_from("ab"))))
@on_loop
async def test_bounds_hold_whoever_comes_and_goes(steps: list[tuple[bool, int, str]]) -> None:
    man = connection_limits(max_connections=3, max_connections_per_peer=2)
    peers = {name: [Peer() for _ in range(6)] for name in "ab"}
    inside: dict[Peer, str] = {}

    for is_coming, number, name in steps:
        peer = peers[name][number]
        if not is_coming:
            man.forget(peer, name)
            inside.pop(peer, None)
        elif peer not in inside and man.admit(peer, name):
            inside[peer] = name
        assert set(man.connections) == set(inside)
        assert len(man) <= 3
        assert all(list(inside.values()).count(name) <= 2 for name in "ab")
    is_room = len(inside) < 3 and list(inside.values()).count("a") < 2
    assert man.admit(Peer(), "a") is is_room


@on_loop
async def test_a_bound_of_zero_is_none() -> None:
    man = connection_limits(max_connections=0, max_connections_per_peer=0)

    assert all(man.admit(Peer(), "a") for _ in range(1000))


@on_loop
async def test_who_was_turned_away_is_counted_and_does_not_count() -> None:
    man = connection_limits(max_connections=1)
    first, second = Peer(), Peer()
    man.admit(first, "a")

    assert not man.admit(second, "a")
    man.forget(second, "a")
    man.forget(second, "a")

    assert (len(man), man.refused) == (1, 1)
    man.forget(first, "a")
    assert man.admit(second, "a")


@on_loop
async def test_empty_is_when_the_last_one_has_left() -> None:
    man = connection_limits()
    await man.empty()
    first, second = Peer(), Peer()
    man.admit(first, "a")
    man.admit(second, "a")
    waiting = asyncio.ensure_future(man.empty())

    man.forget(first, "a")
    await settled()
    assert not waiting.done()
    man.forget(second, "a")

    await waiting


# Beating.


@on_loop
async def test_a_beat_looks_at_everyone_and_at_the_clock() -> None:
    clock = FakeClock(0)
    man = ConnectionLimits(ServerSettings(), clock)
    peers = [Peer() for _ in range(3)]
    for peer in peers:
        man.admit(peer, "a")
    clock.advance(5_000)

    man.start()
    man.stop()

    assert man.now == 5.0
    assert man.date == b"Thu, 01 Jan 1970 00:00:05 GMT"
    assert [peer.beats for peer in peers] == [[5.0]] * 3


@on_loop
async def test_one_that_fails_does_not_stop_the_beating(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.server.http.connection_limits._BEAT_S", 0.001)
    man = connection_limits()
    good, bad = Peer(), Peer()

    def fail(now: float) -> None:
        bad.beats.append(now)
        raise RuntimeError("a bug")

    bad.beat = fail  # type: ignore[method-assign]
    man.admit(good, "a")
    man.admit(bad, "a")
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))

    with pytest.raises(RuntimeError):
        man.start()
    await until(lambda: len(bad.beats) > 3)
    man.stop()

    assert told


@on_loop
async def test_a_flood_of_refusals_is_told_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    man = ConnectionLimits(ServerSettings(max_connections=1), clock)
    man.admit(Peer(), "a")

    with caplog.at_level(logging.WARNING):
        for _ in range(100):
            for _ in range(10):
                man.admit(Peer(), "a")
            man.start()
            man.stop()
            clock.advance(500)

    lines = [record.getMessage() for record in caplog.records]
    assert 4 <= len(lines) <= 6, "50 seconds, a line every ten"
    assert sum(int(line.split(" ")[0]) for line in lines) <= man.refused == 1000
