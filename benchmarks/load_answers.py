"""Counts complete answers in a stream of bytes, and reads as few of the bytes as possible.

The generator shares a small machine with the server and takes CPU time from it. Each dialect
therefore finds only the end of an answer and whether it is a refusal.
"""

from __future__ import annotations

from typing import Protocol

_MEMO_MAX = 4_096
_SHOWN = 300


class Refused(Exception):
    """The server refused a request."""


class Answers(Protocol):
    """One connection's incoming bytes. `reply` is to be sent back at once, and emptied."""

    reply: bytes

    def feed(self, data: bytes) -> int:
        """How many answers these bytes complete. Raises Refused."""


class HttpAnswers:
    """HTTP/1.1 answers with a Content-Length."""

    def __init__(self) -> None:
        self.reply = b""
        self._head = b""  # of an answer whose head is not yet complete
        self._missing = 0  # bytes of a body under way
        # Heads repeat: the date changes once a second, the length takes a few values.
        self._lengths: dict[bytes, int] = {}

    def feed(self, data: bytes) -> int:
        if not self._missing and not self._head:
            end = data.find(b"\r\n\r\n")
            length = self._lengths.get(data[:end])
            if length is not None and end + 4 + length == len(data):
                return 1
        return self._walk(data)

    def _walk(self, data: bytes) -> int:
        at = done = 0
        if self._missing:
            if len(data) < self._missing:
                self._missing -= len(data)
                return 0
            at, self._missing, done = self._missing, 0, 1
        elif self._head:
            data, self._head = self._head + data, b""
        size = len(data)
        while at < size:
            end = data.find(b"\r\n\r\n", at)
            if end < 0:
                self._head = data[at:]
                break
            at = end + 4 + self._length(data, at, end)
            if at > size:
                self._missing = at - size
                break
            done += 1
        return done

    def _length(self, data: bytes, start: int, end: int) -> int:
        head = data[start:end]
        length = self._lengths.get(head)
        if length is None:
            length = _content_length(head, data[start : start + _SHOWN])
            if len(self._lengths) >= _MEMO_MAX:
                self._lengths.clear()
            self._lengths[head] = length
        return length


def _content_length(head: bytes, shown: bytes) -> int:
    status, *fields = head.split(b"\r\n")
    if not status.startswith(b"HTTP/1.1 2"):
        raise Refused(shown.decode("utf-8", "replace"))
    for field in fields:
        name, _, value = field.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    raise Refused("an answer without Content-Length cannot be counted: " + head.decode("latin-1"))


class LineAnswers:
    """Answers of a known number of lines, as Redis and NATS send them.

    A line that begins with `-` is an error in both. `error` is text that only a refusal holds.
    NATS asks now and then whether we are there.
    """

    def __init__(self, lines: int, error: bytes = b"") -> None:
        self.reply = b""
        self._each = lines
        self._error = error
        self._lines = 0
        self._at_start = True

    def feed(self, data: bytes) -> int:
        if (
            (self._at_start and data.startswith(b"-"))
            or b"\n-" in data
            or (self._error and self._error in data)
        ):
            raise Refused(data[:_SHOWN].decode("utf-8", "replace"))
        self._at_start = data.endswith(b"\n")
        lines = data.count(b"\n")
        if b"PING\r\n" in data:
            lines -= 1
            self.reply = b"PONG\r\n"
        done, self._lines = divmod(self._lines + lines, self._each)
        return done


class SizedAnswers:
    """Answers of a known size: nothing of them is looked at but their first byte."""

    def __init__(self, size: int) -> None:
        self.reply = b""
        self._size = size
        self._got = 0

    def feed(self, data: bytes) -> int:
        if not self._got and data.startswith(b"-"):
            raise Refused(data[:_SHOWN].decode("utf-8", "replace"))
        done, self._got = divmod(self._got + len(data), self._size)
        return done


class FrameAnswers:
    """WebSocket text messages from a server, one frame each."""

    def __init__(self) -> None:
        self.reply = b""
        self._rest = b""

    def feed(self, data: bytes) -> int:
        if b'"op":"error"' in data:
            raise Refused(data[:_SHOWN].decode("utf-8", "replace"))
        if self._rest:
            data = self._rest + data
        at = done = 0
        size = len(data)
        while at + 2 <= size:
            length, start = data[at + 1], at + 2
            if length == 126:
                length, start = int.from_bytes(data[start : start + 2], "big"), start + 2
            elif length == 127:
                length, start = int.from_bytes(data[start : start + 8], "big"), start + 8
            if start + length > size:
                break
            match data[at] & 0x0F:
                case 1:
                    done += 1
                case 8:
                    raise Refused("the server closed the WebSocket")
                case 9:
                    self.reply += bytes([0x8A, 0x80 | length, 0, 0, 0, 0])
                    self.reply += data[start : start + length]
                case _:
                    pass
            at = start + length
        self._rest = data[at:]
        return done
