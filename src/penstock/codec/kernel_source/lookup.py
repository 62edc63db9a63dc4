"""Questions about frames in a table: tags, times, sizes, one record."""

from __future__ import annotations

from penstock.codec.kernel_source import cython_shim as cython
from penstock.codec.kernel_source.frame import data_start, meta_bytes_of, tag_matches
from penstock.codec.kernel_source.frame_encoding import check_total
from penstock.codec.kernel_source.frame_table import (
    bitmap,
    check_range,
    damaged,
    is_dead,
    live_at,
    locate,
    payload_bytes_at,
)
from penstock.codec.kernel_source.layout import (
    BODY_KEY_BYTES,
    FRAME_DATA_LEN,
    FRAME_HEADER_BYTES,
    FRAME_NODE_LEN,
    FRAME_SEQ,
    FRAME_TAG_LEN,
    FRAME_TS,
    OFFSET_BYTES,
)
from penstock.codec.kernel_source.memory import HeldBuffer, OutputBuffer, put32, u16, u32, u64
from penstock.codec.kernel_source.statuses import ABSENT


def find_tags(
    buf, offsets, stride: int64_t, i0: int64_t, i1: int64_t, dead, pattern, prefix: cython.bint
):
    """The numbers, as u32, of live records whose tag equals or starts with the pattern."""
    frames: HeldBuffer = HeldBuffer(buf)
    table: HeldBuffer = HeldBuffer(offsets)
    bits: HeldBuffer = bitmap(dead)
    wanted: HeldBuffer = HeldBuffer(pattern)
    check_range(table, stride, i0, i1)
    found: OutputBuffer = OutputBuffer(OFFSET_BYTES * (i1 - i0))
    i: int64_t
    start: int64_t = 0
    at: int64_t = 0
    with cython.nogil:
        for i in range(i0, i1):
            start = live_at(frames.at, frames.size, table.at, stride, bits.at, bits.size, i)
            if start == -ABSENT:
                continue
            if start < 0:
                break
            if tag_matches(frames.at, start, wanted.at, wanted.size, prefix):
                put32(found.at, at, i)
                at += OFFSET_BYTES
    if i1 > i0 and start < 0 and start != -ABSENT:
        raise damaged(i, start)
    return found.as_bytes()[:at]


def group_tags(
    buf, offsets, stride: int64_t, i0: int64_t, i1: int64_t, dead, base_index: int64_t, groups: dict
):
    """Append i - i0 + base_index as u32 to groups[tag] of each live record with a tag."""
    frames: HeldBuffer = HeldBuffer(buf)
    table: HeldBuffer = HeldBuffer(offsets)
    bits: HeldBuffer = bitmap(dead)
    check_range(table, stride, i0, i1)
    if base_index < 0:
        raise ValueError(f"base_index {base_index} is negative")
    check_total(base_index + i1 - i0)
    i: int64_t
    start: int64_t
    at: int64_t
    size: int64_t
    count: int64_t = 0
    word: OutputBuffer = OutputBuffer(OFFSET_BYTES)
    for i in range(i0, i1):
        start = live_at(frames.at, frames.size, table.at, stride, bits.at, bits.size, i)
        if start < 0 and start != -ABSENT:
            raise damaged(i, start)
        size = u16(frames.at, start + FRAME_TAG_LEN) if start >= 0 else 0
        if size:
            at = start + FRAME_HEADER_BYTES + u16(frames.at, start + FRAME_NODE_LEN)
            tag = bytes(frames.at[at : at + size])
            group = groups.get(tag)
            if group is None:
                group = groups[tag] = bytearray()
            put32(word.at, 0, i - i0 + base_index)
            group += word.at[0:OFFSET_BYTES]
            count += 1
    return count


def frame_ts(buf, offsets, stride: int64_t, i: int64_t):
    """The ts of record `i`."""
    frames: HeldBuffer = HeldBuffer(buf)
    table: HeldBuffer = HeldBuffer(offsets)
    check_range(table, stride, i, i + 1)
    start: int64_t = locate(frames.at, frames.size, table.at, stride, i)
    if start < 0:
        raise damaged(i, start)
    return u64(frames.at, start + FRAME_TS)


def frame_at(buf, offsets, stride: int64_t, i: int64_t):
    """Record `i` as (seq, ts, node, tag, data JSON, meta JSON or None)."""
    frames: HeldBuffer = HeldBuffer(buf)
    table: HeldBuffer = HeldBuffer(offsets)
    check_range(table, stride, i, i + 1)
    p: ReadPointer = frames.at
    start: int64_t = locate(p, frames.size, table.at, stride, i)
    if start < 0:
        raise damaged(i, start)
    tag: int64_t = start + FRAME_HEADER_BYTES + u16(p, start + FRAME_NODE_LEN)
    body: int64_t = tag + u16(p, start + FRAME_TAG_LEN)
    end: int64_t = body + u32(p, start + FRAME_DATA_LEN)
    meta: int64_t = meta_bytes_of(p, body, end - body)
    meta_at: int64_t = body + BODY_KEY_BYTES
    data: int64_t = data_start(body, meta)
    if meta < 0:
        raise ValueError(f"record {i}: its body is neither data nor meta and data")
    return (
        u64(p, start + FRAME_SEQ),
        u64(p, start + FRAME_TS),
        bytes(p[start + FRAME_HEADER_BYTES : tag]),
        bytes(p[tag:body]),
        bytes(p[data : end - 1]),
        bytes(p[meta_at : meta_at + meta]) if meta else None,
    )


def measure(buf, offsets, stride: int64_t, i0: int64_t, i1: int64_t, dead):
    """(live records, their payload bytes) among i0..i1-1.

    Entries of a segment index (stride 24) have the payload bytes, so `buf` is not read and may
    be empty. The same holds for `measure_some`.
    """
    frames: HeldBuffer = HeldBuffer(buf)
    table: HeldBuffer = HeldBuffer(offsets)
    bits: HeldBuffer = bitmap(dead)
    check_range(table, stride, i0, i1)
    i: int64_t
    size: int64_t = 0
    count: int64_t = 0
    payload: int64_t = 0
    with cython.nogil:
        for i in range(i0, i1):
            if is_dead(bits.at, bits.size, i):
                continue
            size = payload_bytes_at(frames.at, frames.size, table.at, stride, i)
            if size == -ABSENT:
                continue
            if size < 0:
                break
            count += 1
            payload += size
    if i1 > i0 and size < 0 and size != -ABSENT:
        raise damaged(i, size)
    return count, payload


def measure_some(buf, offsets, stride: int64_t, indices):
    """Payload bytes of the records numbered in `indices` (u32); absent ones have none."""
    frames: HeldBuffer = HeldBuffer(buf)
    table: HeldBuffer = HeldBuffer(offsets)
    numbers: HeldBuffer = HeldBuffer(indices)
    check_range(table, stride, 0, 0)
    known: int64_t = table.size // stride
    i: int64_t = 0
    at: int64_t
    size: int64_t = 0
    payload: int64_t = 0
    with cython.nogil:
        for at in range(numbers.size // OFFSET_BYTES):
            i = u32(numbers.at, OFFSET_BYTES * at)
            if i >= known:
                break
            size = payload_bytes_at(frames.at, frames.size, table.at, stride, i)
            if size == -ABSENT:
                continue
            if size < 0:
                break
            payload += size
    if i >= known and numbers.size >= OFFSET_BYTES:
        raise IndexError(f"record {i} of an offset table of {known}")
    if size < 0 and size != -ABSENT:
        raise damaged(i, size)
    return payload


def filter_indices(indices, start: int64_t, stop: int64_t, dead):
    """Of record numbers (u32), those in start..stop-1 that are not dead, in the same order."""
    numbers: HeldBuffer = HeldBuffer(indices)
    bits: HeldBuffer = bitmap(dead)
    kept: OutputBuffer = OutputBuffer(numbers.size)
    i: int64_t
    at: int64_t
    end: int64_t = 0
    with cython.nogil:
        for at in range(numbers.size // OFFSET_BYTES):
            i = u32(numbers.at, OFFSET_BYTES * at)
            if start <= i < stop and not is_dead(bits.at, bits.size, i):
                put32(kept.at, end, i)
                end += OFFSET_BYTES
    return kept.as_bytes()[:end]


def shift_offsets(offsets, by: int64_t):
    """Every u32 of `offsets` plus `by`."""
    table: HeldBuffer = HeldBuffer(offsets)
    moved: OutputBuffer = OutputBuffer(table.size // OFFSET_BYTES * OFFSET_BYTES)
    at: int64_t
    value: int64_t
    for at in range(table.size // OFFSET_BYTES):
        value = u32(table.at, OFFSET_BYTES * at)
        value += by
        if value < 0 or value >> 32:
            raise OverflowError(f"offset {value} does not fit 32 bits")
        put32(moved.at, OFFSET_BYTES * at, value)
    return moved.as_bytes()


def join_frames(parts: list, tables: list):
    """Runs of frames end to end, and where each frame begins, as u32. `tables` has the offsets of
    the frames in each run."""
    if len(parts) != len(tables):
        raise ValueError(f"{len(tables)} offset tables for {len(parts)} runs of frames")
    if not cython.compiled:
        return join_frames_interpreted(parts, tables)
    i: int64_t
    j: int64_t
    count: int64_t = len(parts)
    frames: HeldBuffer
    table: HeldBuffer
    total: int64_t = 0
    table_bytes: int64_t = 0
    held: list = [None] * (2 * count)
    for i in range(count):
        frames = HeldBuffer(parts[i])
        table = HeldBuffer(tables[i])
        held[2 * i] = frames
        held[2 * i + 1] = table
        total += frames.size
        table_bytes += table.size // OFFSET_BYTES * OFFSET_BYTES
    check_total(total)
    joined: OutputBuffer = OutputBuffer(total)
    offsets: OutputBuffer = OutputBuffer(table_bytes)
    at: int64_t = 0
    end: int64_t = 0
    value: int64_t
    for i in range(count):
        frames = held[2 * i]
        table = held[2 * i + 1]
        copy(joined.at, at, frames.at, 0, frames.size)
        for j in range(table.size // OFFSET_BYTES):
            value = u32(table.at, OFFSET_BYTES * j)
            value += at
            if value >> 32:
                raise OverflowError(f"offset {value} does not fit 32 bits")
            put32(offsets.at, end, value)
            end += OFFSET_BYTES
        at += frames.size
    return joined.owner, offsets.owner


if not cython.compiled:

    def join_frames_interpreted(parts, tables):
        joined = b"".join(parts)
        check_total(len(joined))
        offsets = []
        at = 0
        for part, table in zip(parts, tables, strict=True):
            offsets.append(shift_offsets(table, at))
            at += len(part)
        return joined, b"".join(offsets)
