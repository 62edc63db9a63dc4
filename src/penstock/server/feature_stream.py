"""The row of one key on an open connection: an event for each change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from penstock.feature_types import FeatureKey
from penstock.server.feature_feed import FeatureFeed, Names
from penstock.server.http.message import StreamResponse

_encode = msgspec.json.Encoder().encode
_RETRY: Final = b"retry: 2000\n\n"
_HEARTBEAT: Final = b": hb\n\n"
_HEARTBEAT_S: Final = 15.0


class FeatureStream:
    """Sends the row at once, and again when it has changed. A peer that reads slower gets the
    newest row when it has read what it was sent. Event loop only."""

    def __init__(
        self,
        feed: FeatureFeed,
        key: FeatureKey,
        names: Names,
        stream: StreamResponse,
        on_end: Callable[[FeatureStream], None],
    ) -> None:
        self._feed = feed
        self._stream = stream
        self._on_end = on_end
        self._newest = self._sent = b""
        self._loop = asyncio.get_running_loop()
        self.is_over = False
        self._timer = self._loop.call_later(_HEARTBEAT_S, self._beat)
        self._row = feed.add(self, key, names)
        stream.on_close = self.end
        stream.on_drain = self._send_newest
        self._send(_RETRY)

    def offer(self, text: bytes) -> None:
        """The row as it is now, as an event."""
        self._newest = text
        self._send_newest()

    def _send_newest(self) -> None:
        """Unless the peer has it, or cannot take it yet."""
        if self._newest != self._sent and not self._stream.is_full:
            self._sent = self._newest
            self._send(self._sent)

    def _beat(self) -> None:
        if not self._stream.is_full:
            self._send(_HEARTBEAT)
        self._timer = self._loop.call_later(_HEARTBEAT_S, self._beat)

    def finish(self, code: str, message: str) -> None:
        """Say why, and close in order."""
        if not self.is_over:
            self._send(b"event: error\ndata: %b\n\n" % _encode({"code": code, "message": message}))
            self._stream.close()
            self.end()

    def end(self) -> None:
        """The connection is closed or about to close. May be called again."""
        if not self.is_over:
            self.is_over = True
            self._timer.cancel()
            self._feed.remove(self, self._row)
            self._on_end(self)

    def _send(self, data: bytes) -> None:
        if not self.is_over:
            self._stream.write(self._stream.framed(data))
