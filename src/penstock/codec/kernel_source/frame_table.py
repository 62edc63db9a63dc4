"""Frames by number, through a table of offsets or of segment index entries."""

from __future__ import annotations

from penstock.codec.kernel_source import cython_shim as cython
from penstock.codec.kernel_source.frame import frame_fault, payload_bytes_of
from penstock.codec.kernel_source.layout import (
    ENTRY_BYTES,
    ENTRY_FRAME_BYTES,
    ENTRY_PAYLOAD_BYTES,
    ENTRY_TS,
    FRAME_LEN_BYTES,
    OFFSET_BYTES,
)
from penstock.codec.kernel_source.memory import HeldBuffer, u32
from penstock.codec.kernel_source.statuses import ABSENT, CLEAN, MALFORMED


def is_dead(dead, size, i):
    """Is the bit of record `i` set in the bitmap of removed records?"""
    return (i >> 3) < size and (dead[i >> 3] >> (i & 7)) & 1


def locate(frames, size, table, stride, i):
    """Where frame `i` starts, or the reason why it cannot be read, as a negative number."""
    fault: cython.int
    frame_len: int64_t
    start: int64_t = u32(table, i * stride)
    total: int64_t = 0
    if stride >= ENTRY_TS:
        total = u32(table, i * stride + ENTRY_FRAME_BYTES)
        if total == 0:
            return -ABSENT
    fault = frame_fault(frames, start, size)
    if fault != CLEAN:
        return -fault
    frame_len = u32(frames, start)
    if total != 0 and total != frame_len + FRAME_LEN_BYTES:
        return -MALFORMED
    return start


def live_at(frames, size, table, stride, dead, dead_size, i):
    """The same as `locate`, and -ABSENT for a record that is marked in `dead`."""
    if dead_size and is_dead(dead, dead_size, i):
        return -ABSENT
    return locate(frames, size, table, stride, i)


def payload_bytes_at(frames, size, table, stride, i):
    """Payload bytes of record `i`, or a negative reason. An entry of a segment index has them."""
    start: int64_t
    if stride >= ENTRY_BYTES:
        if u32(table, i * stride + ENTRY_FRAME_BYTES) == 0:
            return -ABSENT
        return u32(table, i * stride + ENTRY_PAYLOAD_BYTES)
    start = locate(frames, size, table, stride, i)
    return start if start < 0 else payload_bytes_of(frames, start)


def check_range(table, stride, i0, i1):
    if stride < OFFSET_BYTES:
        raise ValueError(
            f"stride {stride}: expected at least {OFFSET_BYTES}, the bytes of an offset"
        )
    if not 0 <= i0 <= i1 <= table.size // stride:
        raise IndexError(f"records {i0}..{i1} of an offset table of {table.size // stride}")


def damaged(i, code):
    """The error for a negative number that `locate` returned."""
    if code == -ABSENT:
        return IndexError(f"record {i} is absent")
    return ValueError(f"record {i}: its frame is not whole inside the buffer")


def bitmap(dead):
    return HeldBuffer(b"" if dead is None else dead)
