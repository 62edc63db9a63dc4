"""A watch session on an open connection: its events as an event stream."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from penstock.server import events
from penstock.server.http.message import StreamResponse
from penstock.server.last_event_id import cursor_id
from penstock.server.service import Service
from penstock.server.subscription import Cursor, Subscription
from penstock.server.watch_sessions import WatchSession
from penstock.types import Gap, JsonPage

RETRY: Final = b"retry: 2000\n\n"
_HEARTBEAT: Final = b": hb\n\n"
_FIELDS: Final = 0  # where a framing stands for what is shared: only the members of an event


class EventStream:
    """Event loop only."""

    def __init__(
        self,
        service: Service,
        session: WatchSession,
        stream: StreamResponse,
        on_end: Callable[[EventStream], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.session = session
        self._stream = stream
        self._on_end = on_end
        self.is_over = False
        self._subscription = Subscription(service, self, is_strong=session.is_strong)
        self._heartbeat_s = session.heartbeat_ms / 1000
        self._sent_s = self._loop.time()
        self._timer = self._loop.call_later(self._heartbeat_s, self._beat)
        stream.on_drain = self._subscription.pump
        stream.on_close = self.end
        self._send(RETRY)
        self._join(service)

    def _join(self, service: Service) -> None:
        session, subscription = self.session, self._subscription
        may_name = session.key.may_name
        for prefix, wanted in session.patterns.items():
            subscription.add_pattern(prefix, wanted, may_name)
            for name in service.core.catalogue.names(prefix):
                handle = service.core.catalogue.find(name)
                if name not in session.cursors and may_name(name) and handle is not None:
                    # Created while nobody was connected.
                    session.cursors[name] = Cursor(name, 0, handle.epoch, wanted)
        for cursor in list(session.cursors.values()):
            handle = service.core.catalogue.find(cursor.name)
            if handle is None:
                self.deleted(cursor)
            else:
                subscription.add(cursor, handle)
        self._end_if_empty()
        subscription.pump()

    # The sink of the subscription.

    @property
    def is_full(self) -> bool:
        return self._stream.is_full

    def added(self, cursor: Cursor) -> None:
        self.session.cursors[cursor.name] = cursor

    def record(self, cursor: Cursor, after: int, page: JsonPage) -> None:
        feed = cursor.feed
        if feed is None:
            return
        stream, name = self._stream, cursor.name
        is_alone = len(self.session.cursors) == 1  # everything is the same for all such streams
        key = (stream.framing if is_alone else _FIELDS), after, cursor.epoch, cursor.kind
        held = feed.shared.get(key)
        if held is None or held[0] is not page:  # another page of this place may hold more
            text = _one_line(name, after, page)
            held = page, stream.framed(self._event(b"record", text)) if is_alone else text
            feed.keep(key, held)
        data = held[1] if is_alone else stream.framed(self._event(b"record", held[1]))
        self._sent_s = self._loop.time()
        stream.write(data)

    def tombstone(self, cursor: Cursor, gap: Gap) -> None:
        reason = "from_seq_too_old" if cursor.is_first else gap.reason
        self._send(self._event(b"tombstone", events.tombstone_fields(cursor.name, gap, reason)))

    def caught_up(self, cursor: Cursor, head: int) -> None:
        self._send(self._event(b"caught-up", events.head_fields(cursor.name, head)))

    def deleted(self, cursor: Cursor) -> None:
        self.session.cursors.pop(cursor.name, None)
        self._send(self._event(b"topic-deleted", events.deleted_fields(cursor.name)))
        self._end_if_empty()

    def _end_if_empty(self) -> None:
        if not self.session.cursors and not self.session.patterns and not self.is_over:
            self._stream.close()
            self.end()

    def failed(self, error: Exception) -> None:
        self.finish("internal", "the log could not be read")

    # Its life.

    def finish(self, code: str, message: str) -> None:
        """Say why, and close in order."""
        if not self.is_over:
            fields = b'"code":"%b","message":"%b"' % (code.encode(), message.encode())
            self._send(self._event(b"error", fields))
            self._stream.close()
            self.end()

    def end(self) -> None:
        """The connection is closed or about to close. May be called again."""
        if not self.is_over:
            self.is_over = True
            self._timer.cancel()
            self._subscription.close()
            self._on_end(self)

    def _event(self, kind: bytes, fields: bytes) -> bytes:
        cursors = {name: cursor.seq for name, cursor in self.session.cursors.items()}
        return b"id: %b\nevent: %b\ndata: {%b}\n\n" % (
            cursor_id(cursors),
            kind,
            fields,
        )

    def _send(self, data: bytes) -> None:
        if not self.is_over:
            self._sent_s = self._loop.time()
            self._stream.write(self._stream.framed(data))

    def _beat(self) -> None:
        """One timer per stream, set again only when it fires, so that frames have no timer cost."""
        left_s = self._sent_s + self._heartbeat_s - self._loop.time()
        if left_s <= 0:
            if not self._stream.is_full:
                self._send(_HEARTBEAT)
            left_s = self._heartbeat_s
        self._timer = self._loop.call_later(left_s, self._beat)


def _one_line(name: str, after: int, page: JsonPage) -> bytes:
    """The members of a record event. Payloads are kept as they were sent, and between the tokens
    of a JSON text there may be line ends, which would end the event: they become blanks."""
    fields = events.record_fields(name, after, page)
    if b"\n" in fields or b"\r" in fields:
        return fields.replace(b"\n", b" ").replace(b"\r", b" ")
    return fields
