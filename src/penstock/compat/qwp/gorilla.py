"""Timestamps as differences of differences, in a stream of bits, lowest first."""

from __future__ import annotations

from typing import Final

from penstock.compat.qwp.byte_reader import ByteReader, QwpError

_RAW: Final = 2  # values that start the stream as they are
_REFILL: Final = 8
_LONGEST: Final = 4 + 32  # bits of one value
_LOW: Final = -(1 << 63)
_HIGH: Final = (1 << 63) - 1


def decode(reader: ByteReader, count: int) -> list[int]:
    """The next `count` values. The stream ends with a whole byte."""
    values = list(reader.numbers("q", 8, min(count, _RAW)))
    if count <= _RAW:
        return values
    before, last = values
    delta = last - before
    window = have = 0  # bits that were read and not used yet, and how many
    for _ in range(count - _RAW):
        if have < _LONGEST and reader.left:
            more = reader.take(min(_REFILL, reader.left))
            window |= int.from_bytes(more, "little") << have
            have += 8 * len(more)
        change, used = _next(window)
        if used > have:
            raise QwpError("the message is cut short in its timestamps")
        window >>= used
        have -= used
        delta += change
        last += delta
        if not _LOW <= last <= _HIGH:
            raise QwpError("a timestamp does not fit 64 bits")
        values.append(last)
    reader.at -= have // 8  # bytes that belong to what follows
    return values


def _next(window: int) -> tuple[int, int]:
    """(the difference of the next two differences, how many bits say it)"""
    if not window & 1:
        return 0, 1
    if not window & 2:
        return _signed(window >> 2, 7), 9
    if not window & 4:
        return _signed(window >> 3, 9), 12
    if not window & 8:
        return _signed(window >> 4, 12), 16
    return _signed(window >> 4, 32), 36


def _signed(bits: int, width: int) -> int:
    value = bits & ((1 << width) - 1)
    return value - (1 << width) if value >> (width - 1) else value
