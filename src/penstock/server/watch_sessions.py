"""Watch sessions: the topics that a client follows, kept between its connections."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from penstock.clock import Clock
from penstock.engine.read import ReadOptions
from penstock.server.auth import ApiKey
from penstock.server.errors import throttled
from penstock.server.subscription import Cursor

SESSION_TTL_MS = 300_000


@dataclass(slots=True, eq=False)
class WatchSession:
    """One `POST /v0/watch`. Cursors advance as events are produced."""

    wid: str
    key: ApiKey
    cursors: dict[str, Cursor]
    patterns: dict[str, ReadOptions]
    heartbeat_ms: int
    is_strong: bool
    used_s: float
    streams: list[object] = field(default_factory=list)  # the stream that serves it now


class WatchSessions:
    """In memory only. Event loop only. A session without a stream expires after five minutes."""

    def __init__(self, clock: Clock, most: int) -> None:
        self._clock = clock
        self._most = most
        self._by_wid: dict[str, WatchSession] = {}

    def __len__(self) -> int:
        return len(self._by_wid)

    def create(
        self,
        key: ApiKey,
        cursors: dict[str, Cursor],
        patterns: dict[str, ReadOptions],
        *,
        heartbeat_ms: int,
        is_strong: bool,
    ) -> WatchSession:
        self.sweep()
        if self._most and len(self._by_wid) >= self._most:
            raise throttled("max_watch_sessions", self._most)
        wid = "wid_" + secrets.token_urlsafe(16)
        session = WatchSession(
            wid, key, cursors, patterns, heartbeat_ms, is_strong, self._clock.monotonic()
        )
        self._by_wid[wid] = session
        return session

    def find(self, wid: str) -> WatchSession | None:
        self.sweep()
        return self._by_wid.get(wid)

    def leave(self, session: WatchSession, stream: object) -> None:
        """A stream of the session ended; its time to live starts now."""
        if stream in session.streams:
            session.streams.remove(stream)
        session.used_s = self._clock.monotonic()

    def forget(self, session: WatchSession) -> None:
        self._by_wid.pop(session.wid, None)

    def sweep(self) -> None:
        oldest_s = self._clock.monotonic() - SESSION_TTL_MS / 1000
        stale = [one for one in self._by_wid.values() if not one.streams and one.used_s < oldest_s]
        for session in stale:
            self.forget(session)
