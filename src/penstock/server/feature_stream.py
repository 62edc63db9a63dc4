"""The row of one key on an open connection: an event for each change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from penstock.errors import PenstockError
from penstock.feature_types import FeatureKey
from penstock.server.features import FeatureService
from penstock.server.http.message import StreamResponse
from penstock.server.loop_bridge import Bridge

_log = logging.getLogger("penstock.server")
_encode = msgspec.json.Encoder().encode
_RETRY: Final = b"retry: 2000\n\n"
_HEARTBEAT: Final = b": hb\n\n"
_HEARTBEAT_S: Final = 15.0
_PAUSE_S: Final = 0.02  # between two rows, so that a busy topic costs a bounded number of reads


class FeatureStream:
    """Sends the row at once, and again after each commit that changes it. Event loop only."""

    def __init__(
        self,
        features: FeatureService,
        bridge: Bridge,
        table: str,
        key: FeatureKey,
        names: Sequence[str] | None,
        stream: StreamResponse,
        on_end: Callable[[FeatureStream], None],
    ) -> None:
        self._features = features
        self._read = (table, key, names)
        self._stream = stream
        self._on_end = on_end
        self._last: dict[str, Any] | None = None
        self._is_changed = True
        self._task: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self.is_over = False
        stream.on_close = self.end
        stream.on_drain = self._wake
        self._unlisten = features.store.view(table).on_change(lambda: bridge.post(self._notify, 0))
        self._timer = self._loop.call_later(_HEARTBEAT_S, self._beat)
        self._send(_RETRY)
        self._wake()

    def _notify(self, _: int) -> None:
        self._is_changed = True
        self._wake()

    def _wake(self) -> None:
        if self._is_changed and self._task is None and not self.is_over:
            self._task = asyncio.ensure_future(self._send_row())

    async def _send_row(self) -> None:
        try:
            while self._is_changed and not self.is_over and not self._stream.is_full:
                self._is_changed = False
                row = await self._features.get(*self._read)
                if row != self._last:
                    self._last = row
                    self._send(b"event: row\ndata: %b\n\n" % _encode(row))
                await asyncio.sleep(_PAUSE_S)
        except PenstockError as error:
            self.finish("table_failed", str(error))
        except Exception:  # noqa: BLE001 - else the client would wait for ever
            _log.exception("a feature stream of table %r ended", self._read[0])
            self.finish("internal", "the table could not be read")
        finally:
            self._task = None

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
            self._unlisten()
            self._on_end(self)

    def _send(self, data: bytes) -> None:
        if not self.is_over:
            self._stream.write(self._stream.framed(data))
