"""The index entries of a segment, and copies of its live frames."""

from __future__ import annotations

from penstock.codec.kernel_source import cython_shim as cython
from penstock.codec.kernel_source.frame import HEADER, payload_bytes_of
from penstock.codec.kernel_source.frame_encoding import check_total
from penstock.codec.kernel_source.frame_table import bitmap, check_range, damaged, live_at, locate
from penstock.codec.kernel_source.layout import (
    ENTRY_BYTES,
    ENTRY_FLAGS,
    ENTRY_FRAME_BYTES,
    ENTRY_PAYLOAD_BYTES,
    ENTRY_TS,
    FRAME_FLAGS,
    FRAME_LEN_BYTES,
    FRAME_TS,
    OFFSET_BYTES,
)
from penstock.codec.kernel_source.memory import (
    HeldBuffer,
    OutputBuffer,
    clear,
    copy,
    put32,
    put64,
    u32,
    u64,
)
from penstock.codec.kernel_source.statuses import ABSENT

if not cython.compiled:
    from struct import Struct

    ENTRY = Struct("<IIQIB3x")


def put_entry(out, at, offset, p, start):
    """offset u32 · frame bytes u32 · ts u64 · payload bytes u32 · flags u8 · three zeros."""
    if cython.compiled:
        put32(out, at, offset)
        put32(out, at + ENTRY_FRAME_BYTES, u32(p, start) + FRAME_LEN_BYTES)
        put64(out, at + ENTRY_TS, u64(p, start + FRAME_TS))
        put32(out, at + ENTRY_PAYLOAD_BYTES, payload_bytes_of(p, start))
        put32(out, at + ENTRY_FLAGS, p[start + FRAME_FLAGS])
    else:
        frame_len, _, flags, _, _, ts, _, _, _ = HEADER.unpack_from(p, start)
        ENTRY.pack_into(
            out, at, offset, frame_len + FRAME_LEN_BYTES, ts, payload_bytes_of(p, start), flags
        )


def build_index(buf, offsets, count: int64_t, base: int64_t):
    """Index entries of the first `count` records, for frames that will lie from `base` on."""
    frames: HeldBuffer = HeldBuffer(buf)
    table: HeldBuffer = HeldBuffer(offsets)
    check_range(table, OFFSET_BYTES, 0, count)
    entries: OutputBuffer = OutputBuffer(ENTRY_BYTES * count)
    i: int64_t
    start: int64_t = 0
    if base < 0:
        raise ValueError(f"base {base} is negative")
    with cython.nogil:
        for i in range(count):
            start = locate(frames.at, frames.size, table.at, OFFSET_BYTES, i)
            if start < 0 or (base + start) >> 32:
                break
            put_entry(entries.at, ENTRY_BYTES * i, base + start, frames.at, start)
    if start < 0:
        raise damaged(i, start)
    check_total(base + start)
    return entries.as_bytes()


def copy_live(buf, offsets, stride: int64_t, i0: int64_t, i1: int64_t, dead, base: int64_t):
    """The frames of live records, end to end from `base` on, and index entries for all records.

    The entry of a dead or absent record is 24 zero bytes.
    """
    frames: HeldBuffer = HeldBuffer(buf)
    table: HeldBuffer = HeldBuffer(offsets)
    bits: HeldBuffer = bitmap(dead)
    check_range(table, stride, i0, i1)
    if base < 0:
        raise ValueError(f"base {base} is negative")
    i: int64_t
    at: int64_t = 0
    start: int64_t = 0
    size: int64_t = 0
    total: int64_t = 0
    with cython.nogil:
        for i in range(i0, i1):
            start = live_at(frames.at, frames.size, table.at, stride, bits.at, bits.size, i)
            if start >= 0:
                size = u32(frames.at, start)
                total += FRAME_LEN_BYTES + size
            elif start != -ABSENT:
                break
    if i1 > i0 and start < 0 and start != -ABSENT:
        raise damaged(i, start)
    check_total(base + total)
    copied: OutputBuffer = OutputBuffer(total)
    entries: OutputBuffer = OutputBuffer(ENTRY_BYTES * (i1 - i0))
    with cython.nogil:
        for i in range(i0, i1):
            start = live_at(frames.at, frames.size, table.at, stride, bits.at, bits.size, i)
            if start < 0:
                clear(entries.at, ENTRY_BYTES * (i - i0), ENTRY_BYTES)
                continue
            size = u32(frames.at, start)
            size += FRAME_LEN_BYTES
            if at + size > total:
                break  # the buffer has changed since it was measured
            copy(copied.at, at, frames.at, start, size)
            put_entry(entries.at, ENTRY_BYTES * (i - i0), base + at, frames.at, start)
            at += size
    if at != total:
        raise ValueError("the buffer changed while its frames were copied")
    return copied.as_bytes(), entries.as_bytes()


def ts_bound(index, count: int64_t, ts: uint64_t):
    """How many of the first `count` index entries lie before time `ts`.

    Times never fall from entry to entry. The entry of an absent record counts as the next
    record's does.
    """
    table: HeldBuffer = HeldBuffer(index)
    check_range(table, ENTRY_BYTES, 0, count)
    low: int64_t = 0
    high: int64_t = count
    middle: int64_t
    present: int64_t
    while low < high:
        middle = (low + high) // 2
        present = middle
        while present < high and u32(table.at, ENTRY_BYTES * present + ENTRY_FRAME_BYTES) == 0:
            present += 1
        if present < high and u64(table.at, ENTRY_BYTES * present + ENTRY_TS) < ts:
            low = present + 1
        else:
            high = middle
    return low
