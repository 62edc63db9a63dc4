"""A cursor over untrusted bytes: every read is checked, and every error is a QwpError."""

from __future__ import annotations

import enum
import struct
from itertools import chain
from typing import Any, Final

from penstock.errors import PenstockError


class QwpStatus(enum.IntEnum):
    """The first byte of a reply."""

    OK = 0
    DURABLE = 2
    SCHEMA = 3  # what was sent cannot be taken here; the client stops
    PARSE = 5  # what was sent is not understood; the client stops
    INTERNAL = 6  # the client sends it again
    SECURITY = 8  # the client stops
    WRITE = 9  # the client sends it again
    GAP = 0x0D  # symbols are missing; the client sends them again


class QwpError(PenstockError):
    """A message that is refused: the status and the reason go to the client."""

    def __init__(self, reason: str, status: QwpStatus = QwpStatus.PARSE) -> None:
        super().__init__(reason)
        self.status = status


_VARINT_BITS: Final = 63
_BITS: Final = [tuple(bool(byte >> at & 1) for at in range(8)) for byte in range(256)]


class ByteReader:
    """Reads from the first byte to the last. Every length is compared with the remaining bytes
    before it is used."""

    __slots__ = ("_data", "at", "end")

    def __init__(self, data: bytes, at: int = 0, end: int | None = None) -> None:
        self._data = data
        self.at = at
        self.end = len(data) if end is None else end

    @property
    def left(self) -> int:
        return self.end - self.at

    def take(self, size: int) -> bytes:
        start, stop = self.at, self.at + size
        if stop > self.end:
            raise QwpError(f"the message is cut short: {size} bytes wanted, {self.left} left")
        self.at = stop
        return self._data[start:stop]

    def byte(self) -> int:
        at = self.at
        if at >= self.end:
            raise QwpError("the message is cut short")
        self.at = at + 1
        return self._data[at]

    def varint(self) -> int:
        """An unsigned LEB128 number."""
        found = shift = 0
        while True:
            byte = self.byte()
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                return found
            shift += 7
            if shift >= _VARINT_BITS:
                raise QwpError("a number is longer than 63 bits")

    def text(self, what: str, most: int) -> str:
        """A length and as many bytes of UTF-8."""
        size = self.varint()
        if size > most:
            raise QwpError(f"a {what} has {size} bytes, at most {most} are allowed")
        return utf8(self.take(size), what)

    def numbers(self, code: str, size: int, count: int) -> tuple[Any, ...]:
        """`count` numbers of one `struct` code, little-endian."""
        return struct.unpack(f"<{count}{code}", self.take(size * count))

    def bits(self, count: int) -> list[bool]:
        """One value per bit, lowest first."""
        packed = self.take((count + 7) // 8)
        return list(chain.from_iterable(map(_BITS.__getitem__, packed)))[:count]

    def varints(self, count: int) -> bytes | list[int]:
        """`count` numbers in a row, which mostly have one byte each."""
        short = self._data[self.at : min(self.at + count, self.end)]
        if len(short) == count and short.isascii():
            self.at += count
            return short
        return [self.varint() for _ in range(count)]


def utf8(data: bytes, what: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise QwpError(f"a {what} is not valid UTF-8") from None
