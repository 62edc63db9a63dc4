"""The changes of one table on an open connection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

import msgspec

from penstock.errors import PenstockError, TableNotFound
from penstock.projection_types import TableChange
from penstock.projections.keyed_table import KeyedTable
from penstock.server.http.message import StreamResponse
from penstock.server.service import Service
from penstock.types import Gap, Offset
from penstock.wire.tables import TableChangeEvent, TableEndEvent, TableGapEvent

_log = logging.getLogger("penstock.server")
_encode = msgspec.json.Encoder().encode
_RETRY: Final = b"retry: 2000\n\n"
_HEARTBEAT: Final = b": hb\n\n"
_HEARTBEAT_S: Final = 15.0
_SCAN_AGAIN = "the table, or its topic, was deleted or created again: read the rows again"


class TableStream:
    """Sends every change past `after`. Waits while its peer reads slower. Event loop only."""

    def __init__(
        self,
        service: Service,
        table: KeyedTable,
        after: Offset,
        stream: StreamResponse,
        on_end: Callable[[TableStream], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._service = service
        self._table = table
        self._after = after
        self._stream = stream
        self._on_end = on_end
        self._is_changed = True
        self._task: asyncio.Task[None] | None = None
        self._sent_s = self._loop.time()
        self.is_over = False
        stream.on_close = self.end
        stream.on_drain = self._go_on
        self._unlisten = table.on_change(lambda: service.bridge.post(self._changed, None))
        self._timer = self._loop.call_later(_HEARTBEAT_S, self._beat)
        self._send(_RETRY)
        self._go_on()

    def finish(self, code: str, message: str) -> None:
        """Say why, and close in order."""
        if not self.is_over:
            event = _encode(TableEndEvent(code=code, message=message))
            self._send(b"event: error\ndata: %b\n\n" % event)
            self._stream.close()
            self.end()

    def end(self) -> None:
        """The connection is closed or about to close. May be called again."""
        if not self.is_over:
            self.is_over = True
            self._timer.cancel()
            self._unlisten()
            self._on_end(self)

    def _changed(self, _: object) -> None:
        self._is_changed = True
        self._go_on()

    def _go_on(self) -> None:
        if self._is_changed and self._task is None and not self.is_over:
            self._task = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        try:
            while self._is_changed and not self._stream.is_full and not self.is_over:
                self._is_changed = False
                page = await self._service.run(self._table.changes, self._after)
                if page is None:
                    # A topic that does not exist yet may come; one that was there is gone.
                    if self._after.epoch:
                        self.finish("table_reset", _SCAN_AGAIN)
                    return
                changes, self._after, is_end = page
                self._send(b"".join(_event(self._after.epoch, change) for change in changes))
                self._is_changed |= not is_end
        except TableNotFound:
            self.finish("table_reset", _SCAN_AGAIN)
        except PenstockError as error:
            _log.error("a stream of table %r ended: %s", self._table.name, error)
            self.finish("internal", "the table's topic could not be read")
        finally:
            self._task = None

    def _send(self, data: bytes) -> None:
        if data and not self.is_over:
            self._sent_s = self._loop.time()
            self._stream.write(self._stream.framed(data))

    def _beat(self) -> None:
        if self._loop.time() - self._sent_s >= _HEARTBEAT_S and not self._stream.is_full:
            self._send(_HEARTBEAT)
        self._changed(None)  # a table that was deleted, and whatever notification was missed
        if not self.is_over:
            self._timer = self._loop.call_later(_HEARTBEAT_S, self._beat)


def _event(epoch: int, change: TableChange | Gap) -> bytes:
    fields: Any
    if isinstance(change, Gap):
        kind, seq = b"tombstone", change.last
        fields = TableGapEvent(first=change.first, last=change.last, reason=change.reason)
    else:
        kind, seq = b"change", change.seq
        fields = TableChangeEvent(
            key=change.key,
            value=change.value,
            is_deleted=change.is_deleted,
            seq=change.seq,
            ts=change.ts,
        )
    return b"id: %d.%d\nevent: %b\ndata: %b\n\n" % (epoch, seq, kind, _encode(fields))
