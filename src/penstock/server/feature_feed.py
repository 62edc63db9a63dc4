"""The rows of one table that somebody watches. Each is read and encoded once for all its streams.

A commit starts one round over all rows. The pause after a round grows with its duration, so that
watchers take at most a third of the event loop, however many there are.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.errors import NotReady, PenstockError, SchemaMismatch
from penstock.feature_types import FeatureKey
from penstock.server.features import FeatureService
from penstock.server.loop_bridge import Bridge

if TYPE_CHECKING:
    from penstock.server.feature_stream import FeatureStream

_log = logging.getLogger("penstock.server")
_encode = msgspec.json.Encoder().encode
_PAUSE_S: Final = 0.02  # between two rounds, so that a busy topic costs a bounded number of reads
_PAUSES: Final = 2  # as many times the duration of a round
_RETRY_S: Final = 0.5  # while a table is not ready
_TURN: Final = 32  # rows that are read without a break for others on the loop
# What no commit tells: a table that was removed, built anew, or is read from another topic.
_CHECK_S: Final = 15.0

Names = Sequence[str] | None


class WatchedRow:
    """One row, as those who asked for the same key and features see it. Event loop only."""

    def __init__(self, key: FeatureKey, names: Names) -> None:
        self.key = key
        self.names = names
        self.streams: set[FeatureStream] = set()


class FeatureFeed:
    """The watched rows of one table. `on_end` is called after the last stream has left, or was
    ended. Event loop only."""

    def __init__(
        self, features: FeatureService, bridge: Bridge, table: str, on_end: Callable[[str], None]
    ) -> None:
        self._features = features
        self._bridge = bridge
        self._table = table
        self._on_end = on_end
        self._rows: dict[bytes, WatchedRow] = {}
        self._loop = asyncio.get_running_loop()
        self._is_changed = False
        self._task: asyncio.Task[None] | None = None
        self._view: object = None  # the table as it was registered when we began to listen
        self._unlisten: Callable[[], None] = lambda: None
        self._timer = self._loop.call_later(_CHECK_S, self._check)

    def add(self, stream: FeatureStream, key: FeatureKey, names: Names) -> WatchedRow:
        """The row for a new stream, which is offered the row as it is after this call."""
        row = self._rows.setdefault(_encode((key, names)), WatchedRow(key, names))
        row.streams.add(stream)
        self._changed(None)
        return row

    def remove(self, stream: FeatureStream, row: WatchedRow) -> None:
        row.streams.discard(stream)
        if not row.streams:
            self._rows.pop(_encode((row.key, row.names)), None)
        if not self._rows:
            self._timer.cancel()
            self._unlisten()
            self._on_end(self._table)

    def _check(self) -> None:
        self._changed(None)
        self._timer = self._loop.call_later(_CHECK_S, self._check)

    def _changed(self, _: object) -> None:
        self._is_changed = True
        if self._task is None:
            self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        try:
            while self._is_changed and self._rows:
                self._is_changed = False
                began_s = self._loop.time()
                await self._round()
                took_s = self._loop.time() - began_s
                await asyncio.sleep(max(_PAUSE_S, _PAUSES * took_s))
        except NotReady:
            self._loop.call_later(_RETRY_S, self._changed, None)
        except PenstockError as error:
            self._finish("table_failed", str(error))
        except Exception:  # noqa: BLE001 - else the clients would wait for ever
            _log.exception("the streams of feature table %r ended", self._table)
            self._finish("internal", "the table could not be read")
        finally:
            self._task = None

    async def _round(self) -> None:
        self._listen()
        for number, row in enumerate(list(self._rows.values()), 1):
            await self._read(row)
            if number % _TURN == 0:
                await asyncio.sleep(0)

    async def _read(self, row: WatchedRow) -> None:
        streams = list(row.streams)  # the row has what was committed before they came
        try:
            found = await self._features.get(self._table, row.key, row.names)
        except SchemaMismatch as error:  # the table has another key, or not this feature any more
            for stream in streams:
                stream.finish("table_failed", str(error))
            return
        text = b"event: row\ndata: %b\n\n" % _encode(found)
        for stream in streams:
            stream.offer(text)

    def _listen(self) -> None:
        """To the topic of the table as it is registered now. Before the rows are read."""
        view = self._features.store.view(self._table)
        if view is not self._view:
            self._unlisten()
            self._view = view
            self._unlisten = view.on_change(lambda: self._bridge.post(self._changed, None))

    def _finish(self, code: str, message: str) -> None:
        for row in list(self._rows.values()):
            for stream in list(row.streams):
                stream.finish(code, message)
