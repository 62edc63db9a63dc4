"""Frames of beava's TCP protocol: bytes in, frames out. Pure.

A frame is `u32 length | u16 op | u8 content type | payload`, big-endian; the length counts what
follows it. Requests and answers have the same form.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

import msgspec

PAYLOAD_BYTES_MAX: Final = 4 << 20
JSON: Final = 1
MSGPACK: Final = 2

PING: Final = 0x0000
REGISTER: Final = 0x0001
PUSH: Final = 0x0010
PUSH_SYNC: Final = 0x0011
GET: Final = 0x0020
MGET: Final = 0x0021
GET_MULTI: Final = 0x0022
GET_ANSWER: Final = 0x0023
BATCH_GET: Final = 0x0024
RESET: Final = 0x0040
ERROR: Final = 0xFFFF

_HEAD: Final = struct.Struct(">IHB")
_LENGTH: Final = struct.Struct(">I")
_AFTER_LENGTH: Final = _HEAD.size - _LENGTH.size


class BeavaFrame(msgspec.Struct, frozen=True, gc=False):
    """One request or answer."""

    op: int
    content_type: int
    payload: bytes


class FrameTooLong(Exception):
    """The peer announced a frame that is too long to be read."""

    def __init__(self, declared: int, limit: int) -> None:
        super().__init__(f"frame of {declared} bytes: expected at most {limit}")
        self.declared = declared
        self.limit = limit


class FrameTooShort(Exception):
    """The peer announced a frame without room for its own head: the stream is out of step."""


def encoded(op: int, payload: bytes, content_type: int = JSON) -> bytes:
    """The bytes of a frame."""
    return _HEAD.pack(_AFTER_LENGTH + len(payload), op, content_type) + payload


class BeavaFrameReader:
    """Cuts a byte stream into frames. One thread."""

    def __init__(self, payload_bytes_max: int = PAYLOAD_BYTES_MAX) -> None:
        self._payload_bytes_max = payload_bytes_max
        self._rest = bytearray()  # the beginning of a frame
        self._wanted = _HEAD.size  # bytes of it without which there is nothing to cut

    def feed(self, data: bytes) -> Iterator[BeavaFrame]:
        """The frames that are complete with these bytes. FrameTooLong and FrameTooShort come after
        the frames before them."""
        rest = self._rest
        if rest:  # of a long frame that comes in many pieces, each is copied twice at most
            rest += data
            if len(rest) < self._wanted and len(rest) >= _HEAD.size:
                return
            data = bytes(rest)
            rest.clear()
        at, size = 0, len(data)
        while size - at >= _HEAD.size:
            length, op, content_type = _HEAD.unpack_from(data, at)
            self._check(length)
            end = at + _LENGTH.size + length
            if end > size:
                break
            yield BeavaFrame(op, content_type, data[at + _HEAD.size : end])
            at = end
        rest += data[at:]
        self._wanted = _HEAD.size
        if len(rest) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(rest)
            self._check(length)
            self._wanted = _LENGTH.size + length

    def _check(self, length: int) -> None:
        if length < _AFTER_LENGTH:
            raise FrameTooShort
        if length - _AFTER_LENGTH > self._payload_bytes_max:
            raise FrameTooLong(length, self._payload_bytes_max)
