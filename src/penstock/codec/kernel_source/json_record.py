"""One record as a JSON object. Compiled form only."""

from __future__ import annotations

from penstock.codec.kernel_source import cython_shim as cython
from penstock.codec.kernel_source.characters import (
    BACKSLASH,
    BACKSPACE,
    CARRIAGE_RETURN,
    CLOSE_BRACE,
    COMMA,
    FORM_FEED,
    LETTER_A,
    LETTER_B,
    LETTER_F,
    LETTER_N,
    LETTER_R,
    LETTER_T,
    LINE_FEED,
    QUOTE,
    SPACE,
    TAB,
    ZERO,
)
from penstock.codec.kernel_source.frame import data_start
from penstock.codec.kernel_source.layout import (
    BODY_KEY_BYTES,
    FRAME_DATA_LEN,
    FRAME_HEADER_BYTES,
    FRAME_NODE_LEN,
    FRAME_SEQ,
    FRAME_TAG_LEN,
    FRAME_TS,
)
from penstock.codec.kernel_source.memory import copy, u16, u32, u64
from penstock.codec.kernel_source.statuses import DOLLAR, WITH_DATA, WITH_META, WITH_TAG


def put_decimal(out, at, value):
    """Write a number in decimal, two digits at a time; returns where it ends."""
    digits: cython.uchar[20]
    left: cython.int = 20
    pair: uint64_t
    while value >= 100:
        pair = value % 100
        value = value // 100
        left -= 2
        digits[left] = PAIRS[2 * pair]
        digits[left + 1] = PAIRS[2 * pair + 1]
    if value >= 10:
        left -= 2
        digits[left] = PAIRS[2 * value]
        digits[left + 1] = PAIRS[2 * value + 1]
    else:
        left -= 1
        digits[left] = ZERO + value
    memcpy(out + at, cython.address(digits[left]), 20 - left)
    return at + 20 - left


def put_escaped(out, at, p, start, size):
    """Write the content of a JSON string: at most six bytes for each byte."""
    i: int64_t
    c: cython.uchar
    short: cython.uchar
    for i in range(start, start + size):
        c = p[i]
        if c >= SPACE and c != QUOTE and c != BACKSLASH:
            out[at] = c
            at += 1
            continue
        short = 0
        if c in (QUOTE, BACKSLASH):
            short = c
        elif c == BACKSPACE:
            short = LETTER_B
        elif c == TAB:
            short = LETTER_T
        elif c == LINE_FEED:
            short = LETTER_N
        elif c == FORM_FEED:
            short = LETTER_F
        elif c == CARRIAGE_RETURN:
            short = LETTER_R
        out[at] = BACKSLASH
        if short:
            out[at + 1] = short
            at += 2
        else:
            memcpy(out + at + 1, b"u00", 3)
            out[at + 4] = ZERO + (c >> 4)
            out[at + 5] = (ZERO if (c & 15) < 10 else LETTER_A - 10) + (c & 15)
            at += 6
    return at


def put_object(page, at, start, meta):
    """Write the record as a JSON object, behind a comma unless it is the first. The caller has
    made sure that it fits."""
    out: WritePointer = page.out
    p: ReadPointer = page.frames
    node_size: int64_t = u16(p, start + FRAME_NODE_LEN)
    tag_size: int64_t = u16(p, start + FRAME_TAG_LEN)
    body: int64_t = start + FRAME_HEADER_BYTES + node_size + tag_size
    body_end: int64_t = body + u32(p, start + FRAME_DATA_LEN) - 1
    dollar: cython.bint = page.options & DOLLAR
    if at:
        out[at] = COMMA
        at += 1
    if dollar:
        memcpy(out + at, b'{"$seq":', 8)
        at = put_decimal(out, at + 8, u64(p, start + FRAME_SEQ))
        memcpy(out + at, b',"$ts":', 7)
        at = put_decimal(out, at + 7, u64(p, start + FRAME_TS))
    else:
        memcpy(out + at, b'{"seq":', 7)
        at = put_decimal(out, at + 7, u64(p, start + FRAME_SEQ))
        memcpy(out + at, b',"ts":', 6)
        at = put_decimal(out, at + 6, u64(p, start + FRAME_TS))
    if node_size:
        memcpy(out + at, b',"$node":"' if dollar else b',"node":"', 9)
        if dollar:
            out[at + 9] = QUOTE
            at += 1
        at = put_escaped(out, at + 9, p, start + FRAME_HEADER_BYTES, node_size)
        out[at] = QUOTE
        at += 1
    if tag_size and page.options & WITH_TAG:
        memcpy(out + at, b',"$tag":"' if dollar else b',"tag":"', 8)
        if dollar:
            out[at + 8] = QUOTE
            at += 1
        at = put_escaped(out, at + 8, p, start + FRAME_HEADER_BYTES + node_size, tag_size)
        out[at] = QUOTE
        at += 1
    if meta and page.options & WITH_META:
        memcpy(out + at, b',"meta":', 8)
        copy(out, at + 8, p, body + BODY_KEY_BYTES, meta)
        at += 8 + meta
    if page.options & WITH_DATA:
        body = data_start(body, meta)
        memcpy(out + at, b',"data":', 8)
        copy(out, at + 8, p, body, body_end - body)
        at += 8 + body_end - body
    out[at] = CLOSE_BRACE
    return at + 1
