"""The state of one watch of a table over its connections. No I/O."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.client import error_answers, table_calls
from penstock.client.http import HttpResponse
from penstock.client.watching import SILENCE_S
from penstock.errors import ServerError
from penstock.projection_types import TableChange, TableKey
from penstock.types import Gap, Offset
from penstock.wire.sse import Event, Parser

_GONE = ("table_reset",)


class _Change(msgspec.Struct):
    key: TableKey
    value: Any
    is_deleted: bool
    seq: int
    ts: int


class _Lost(msgspec.Struct):
    first: int
    last: int
    reason: str


class _End(msgspec.Struct):
    code: str = ""
    message: str = ""


class TableWatchState:
    """Not for several threads. It resumes after the last event that was received."""

    def __init__(
        self, table: str, after: Offset | None, *, source: str, timeout_s: float | None, now: float
    ) -> None:
        self.stream_url: str | None = table_calls.watch_url(table, after)
        self.last_id = ""
        self._has_ended = False
        self._source = source
        self._timeout_s = timeout_s
        self._idle_since = now
        self._failures = 0
        self._parser = Parser()

    def refused(self, response: HttpResponse) -> Exception:
        """The exception for a stream that did not open."""
        return error_answers.error_of(response, self._source)

    def record_failure(self) -> int:
        """The connection ended; the number of failures in a row. An incomplete event is discarded:
        the server sends it again."""
        self._parser = Parser()
        self._failures += 1
        return self._failures

    def has_ended(self) -> bool:
        """True when the server has ended the watch: the rows must be read again."""
        return self._has_ended

    def deadline(self, now: float) -> float:
        """The deadline for the next bytes: the server sends heartbeats."""
        until = now + SILENCE_S
        return until if self._timeout_s is None else min(until, self._idle_since + self._timeout_s)

    def restart_timeout(self, now: float) -> None:
        self._idle_since = now

    def is_idle(self, now: float) -> bool:
        """True when nothing has arrived for `timeout_s`."""
        return self._timeout_s is not None and now - self._idle_since >= self._timeout_s

    def feed(self, piece: bytes) -> list[TableChange | Gap]:
        """What is in the next bytes, in order."""
        self._failures = 0
        found = []
        for event in self._parser.feed(piece):
            item = self._item(event)
            if item is not None:
                found.append(item)
            if event.id:
                self.last_id = event.id
        return found

    def _item(self, event: Event) -> TableChange | Gap | None:
        try:
            if event.event == "change":
                change = msgspec.json.decode(event.data, type=_Change)
                epoch = int(event.id.partition(".")[0])
                return TableChange(
                    change.key,
                    change.value,
                    change.is_deleted,
                    change.seq,
                    change.ts,
                    Offset(epoch, change.seq),
                )
            if event.event == "tombstone":
                lost = msgspec.json.decode(event.data, type=_Lost)
                missed = lost.last - lost.first + 1
                return Gap(lost.first, lost.last, lost.reason, missed, lost.last + 1, lost.last)
            if event.event == "error":
                end = msgspec.json.decode(event.data, type=_End)
                self._has_ended = end.code in _GONE
        except (msgspec.DecodeError, ValueError) as error:
            raise ServerError(
                self._source, reason=f"it sent an event that is not one: {error}"
            ) from None
        return None
