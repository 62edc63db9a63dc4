"""Parser of event streams (`text/event-stream`)."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from penstock import limits
from penstock.errors import InvalidArgument

EVENT_BYTES_MAX: Final = 64 * limits.MIB  # of one event, while it is being received

_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\n|\r")


class Event(msgspec.Struct, frozen=True):
    """One event as it was received. `id` is the last one seen so far in the stream."""

    data: bytes
    event: str = "message"
    id: str = ""


class Parser:
    """Bytes in, in pieces of any size; events out. Not for several threads."""

    def __init__(self, event_bytes_max: int = EVENT_BYTES_MAX) -> None:
        self.last_id = ""
        self.retry_ms: int | None = None
        self._max = event_bytes_max
        self._rest = bytearray()  # an unfinished line
        self._looked = 0  # how much of it is known to have no line end
        self._data: list[bytes] = []
        self._size = 0
        self._event = ""
        self._is_first = True
        self._ended_in_cr = False

    def feed(self, piece: bytes) -> list[Event]:
        """Events that are complete now. InvalidArgument when one grows beyond its bound."""
        if self._ended_in_cr and piece:
            self._ended_in_cr = False
            if piece[:1] == b"\n":  # the second half of a line end
                piece = piece[1:]
        self._rest += piece
        found: list[Event] = []
        at = 0
        search = _LINE_END.search
        while (end := search(self._rest, max(at, self._looked))) is not None:
            line = bytes(self._rest[at : end.start()])
            at = end.end()
            if at == len(self._rest) and end.group() == b"\r":
                self._ended_in_cr = True
            event = self._line(line)
            if event is not None:
                found.append(event)
        del self._rest[:at]
        self._looked = len(self._rest)
        if self._size + len(self._rest) > self._max:
            raise InvalidArgument(f"an event of the stream has more than {self._max} bytes")
        return found

    def _line(self, line: bytes) -> Event | None:
        if self._is_first:
            self._is_first = False
            line = line.removeprefix(_BOM)
        if not line:
            return self._dispatch()
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
            self._size += len(value) + 1
        elif field == b"event":
            self._event = value.decode(errors="replace")
        elif field == b"id":
            if b"\0" not in value:
                self.last_id = value.decode(errors="replace")
        elif field == b"retry" and value.isdigit() and len(value) < 10:
            self.retry_ms = int(value)
        return None

    def _dispatch(self) -> Event | None:
        event = None
        if self._data:
            event = Event(b"\n".join(self._data), self._event or "message", self.last_id)
        self._data, self._size, self._event = [], 0, ""
        return event
