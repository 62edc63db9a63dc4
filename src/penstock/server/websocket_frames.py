"""Reads the frames of a WebSocket client.

A whole message in one frame, which nearly every message is, is unmasked by the kernel. All other
frames (fragments, pings, pongs, closes, and whatever breaks the protocol) go to the `websockets`
library, one whole frame at a time, so that its parser stands between two frames whenever it does
not run.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from websockets.frames import Frame
from websockets.protocol import Protocol

from penstock.wire.stream_messages import masked_messages

_OPCODES: Final = frozenset((0, 1, 2, 8, 9, 10))
_MASKED: Final = 0x80
_RESERVED_BITS: Final = 0x70
_CONTROL_BIT: Final = 0x08
_CONTROL_BYTES_MAX: Final = 125


# A message that came in one frame: its data, unmasked, and whether it is text.
WholeMessage = tuple[bytes, bool]


class WebSocketFrameReader:
    """One connection's. Event loop only. Holds at most one incomplete frame, and none that is
    longer than `bytes_max`: the library refuses those by their header."""

    __slots__ = ("_bytes_max", "_is_passing_on", "_needed", "_protocol", "_rest")

    def __init__(self, protocol: Protocol, bytes_max: int) -> None:
        self._protocol = protocol
        self._bytes_max = bytes_max
        self._rest = bytearray()  # an incomplete frame
        self._needed = 0  # bytes of it, as far as its header is known
        self._is_passing_on = False  # the library reads everything from here on

    def feed(self, data: bytes, frames: deque[WholeMessage | Frame]) -> None:
        """Add the frames that are complete now to `frames`."""
        if self._rest:
            self._rest += data
            if len(self._rest) < self._needed:
                return
            data, self._rest = bytes(self._rest), bytearray()
        at, size = 0, len(data)
        protocol = self._protocol
        while at < size:
            if self._is_passing_on or protocol.close_rcvd is not None:
                self._pass_on(data[at:], frames)
                return
            if protocol.current_size is None:  # no message in fragments is under way
                messages, at = masked_messages(data, at, self._bytes_max)
                frames.extend(messages)
                if at == size:
                    return
            end = self._end(data, at, size)
            if end > size:
                self._rest += data[at:] if at else data
                self._needed = end - at
                return
            if end:
                self._pass_on(data[at:end], frames)
                at = end
            else:
                self._is_passing_on = True

    def _end(self, data: bytes, at: int, size: int) -> int:
        """Where the frame at `at` ends, at least; 0 when the library is to refuse it."""
        if size - at < 2:
            return at + 2
        first, second = data[at], data[at + 1]
        length = second & 0x7F
        if not second & _MASKED or first & _RESERVED_BITS or first & 0x0F not in _OPCODES:
            return 0
        if first & _CONTROL_BIT and length > _CONTROL_BYTES_MAX:
            return 0
        if length < 126:
            start = at + 6
        elif length == 126:
            start = at + 8
            if size < start:
                return start
            length = int.from_bytes(data[at + 2 : at + 4], "big")
        else:
            start = at + 14
            if size < start:
                return start
            length = int.from_bytes(data[at + 2 : at + 10], "big")
        if length > self._bytes_max - (self._protocol.current_size or 0):
            return 0
        return start + length

    def _pass_on(self, data: bytes, frames: deque[WholeMessage | Frame]) -> None:
        protocol = self._protocol
        protocol.receive_data(data)
        frames.extend([event for event in protocol.events_received() if type(event) is Frame])
        if protocol.parser_exc is not None:
            self._is_passing_on = True
