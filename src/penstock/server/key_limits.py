"""Limits per API key: its requests in flight, and its open streams. The streams of all keys have a
limit, too. Event loop only.

A key counts for itself. Requests of callers without a key (`ANYONE`) are not counted: as every
append passes by here, callers compare the key first and spare the call.
"""

from __future__ import annotations

from penstock.server.auth import ANYONE, ApiKey
from penstock.server.errors import ApiError, throttled
from penstock.server.settings import ServerSettings


def begin_request(key: ApiKey) -> None:
    """A request of this key is in flight, until `end_request`. Not for `ANYONE`."""
    key.in_flight += 1


def end_request(key: ApiKey) -> None:
    key.in_flight -= 1


class RequestLimit:
    """How many requests one key may have in flight; 0: any number."""

    def __init__(self, most: int) -> None:
        self._most = most

    def check(self, key: ApiKey) -> None:
        """Refuse one more request of a key that has the most already."""
        if self._most and key.in_flight >= self._most:
            raise ApiError(
                429,
                "throttled",
                f"{key.in_flight} requests of this key are in flight, the maximum: retry later",
            )


class OpenStreams:
    """Counts the open streams (event streams, WebSockets), in total and per key."""

    def __init__(self, settings: ServerSettings) -> None:
        self.count = 0
        self._most = settings.max_sse_connections
        self._most_per_key = settings.max_sse_connections_per_key

    def enter(self, key: ApiKey) -> None:
        if self._most and self.count >= self._most:
            raise throttled("max_sse_connections", self._most)
        if key is not ANYONE and self._most_per_key and key.streams >= self._most_per_key:
            raise throttled("max_sse_connections_per_key", self._most_per_key)
        self.count += 1
        key.streams += 1

    def leave(self, key: ApiKey) -> None:
        self.count -= 1
        key.streams -= 1
