"""Watch sessions: found by their id alone, and forgotten in time."""

from __future__ import annotations

import pytest

from penstock.server.auth import ANYONE
from penstock.server.errors import ApiError
from penstock.server.watch_sessions import SESSION_TTL_MS, WatchSession, WatchSessions
from penstock.testing import FakeClock


def made(sessions: WatchSessions) -> WatchSession:
    return sessions.create(ANYONE, {}, {}, heartbeat_ms=1000, is_strong=False)


def test_ids_are_long_random_and_of_one_form() -> None:
    sessions = WatchSessions(FakeClock(), 0)
    wids = {made(sessions).wid for _ in range(500)}

    assert len(wids) == 500
    assert {len(wid) for wid in wids} == {26}
    assert all(wid.startswith("wid_") for wid in wids)


def test_a_session_lives_while_somebody_streams_it_and_a_while_longer() -> None:
    clock = FakeClock()
    sessions = WatchSessions(clock, 0)
    session = made(sessions)
    stream = object()
    session.streams.append(stream)

    clock.advance(SESSION_TTL_MS + 1)
    assert sessions.find(session.wid) is session
    sessions.leave(session, stream)
    clock.advance(SESSION_TTL_MS - 1)
    assert sessions.find(session.wid) is session
    clock.advance(2)
    assert sessions.find(session.wid) is None
    assert len(sessions) == 0


def test_there_are_only_so_many_and_old_ones_make_room() -> None:
    clock = FakeClock()
    sessions = WatchSessions(clock, 2)
    made(sessions)
    made(sessions)

    with pytest.raises(ApiError) as caught:
        made(sessions)
    clock.advance(SESSION_TTL_MS + 1)
    made(sessions)

    assert caught.value.status == 429
    assert caught.value.detail == {"limit": "max_watch_sessions", "max": 2}
