"""One frame: is it whole, is its checksum right, and where are its parts?"""

from __future__ import annotations

from penstock.codec.kernel_source import cython_shim as cython
from penstock.codec.kernel_source.characters import (
    BACKSLASH,
    CLOSE_BRACE,
    CLOSE_BRACKET,
    COLON,
    COMMA,
    OPEN_BRACE,
    OPEN_BRACKET,
    QUOTE,
)
from penstock.codec.kernel_source.checksum import hash64
from penstock.codec.kernel_source.layout import (
    BODY_EXTRA_BYTES,
    BODY_EXTRA_BYTES_WITH_META,
    BODY_KEY_BYTES,
    BODY_KEY_COLON,
    CHECKSUM_BYTES,
    DATA_FIRST,
    DATA_NEXT,
    FRAME_BYTES_MIN,
    FRAME_DATA_LEN,
    FRAME_HEADER_BYTES,
    FRAME_LEN_BYTES,
    FRAME_LEN_MIN,
    FRAME_NODE_LEN,
    FRAME_TAG_LEN,
    FRAME_TYPE,
    FRAME_TYPE_MAX,
    META_FIRST,
)
from penstock.codec.kernel_source.memory import u16, u32, u64
from penstock.codec.kernel_source.statuses import CLEAN, MALFORMED, TORN

if not cython.compiled:
    import re
    from struct import Struct

    HEADER = Struct("<IBBQQQHHI")
    TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|["\[\]{},]', re.DOTALL)


def frame_fault(p, at, end):
    """Check one frame by its lengths and type alone. After CLEAN its fields are before `end`."""
    frame_len: int64_t
    parts: int64_t
    if not cython.compiled and end - at >= FRAME_BYTES_MIN:
        # The same in one unpacking, for the usual case.
        frame_len, kind, _, _, _, _, node_size, tag_size, data_size = HEADER.unpack_from(p, at)
        parts = node_size + tag_size + data_size
        if (
            FRAME_LEN_MIN + parts == frame_len <= end - at - FRAME_LEN_BYTES
            and 0 < kind <= FRAME_TYPE_MAX
        ):
            return CLEAN
    if end - at < FRAME_LEN_BYTES:
        return TORN
    frame_len = u32(p, at)
    if frame_len < FRAME_LEN_MIN:
        return MALFORMED
    if frame_len > end - at - FRAME_LEN_BYTES:
        return TORN
    if p[at + FRAME_TYPE] == 0 or p[at + FRAME_TYPE] > FRAME_TYPE_MAX:
        return MALFORMED
    parts = u32(p, at + FRAME_DATA_LEN)
    parts += u16(p, at + FRAME_NODE_LEN) + u16(p, at + FRAME_TAG_LEN)
    return CLEAN if FRAME_LEN_MIN + parts == frame_len else MALFORMED


def checksum_holds(p, at):
    """Call it only after `frame_fault` has returned CLEAN."""
    frame_len: int64_t = u32(p, at)
    covered: int64_t = frame_len - CHECKSUM_BYTES
    start: int64_t = at + FRAME_LEN_BYTES
    return hash64(p, start, covered) == u64(p, start + covered)


def payload_bytes_of(p, at):
    """The bytes of the data and meta texts in the frame at `at`; of the whole body when it has
    another shape."""
    body: int64_t = (
        at + FRAME_HEADER_BYTES + u16(p, at + FRAME_NODE_LEN) + u16(p, at + FRAME_TAG_LEN)
    )
    size: int64_t = u32(p, at + FRAME_DATA_LEN)
    if (
        size < BODY_EXTRA_BYTES
        or p[body + BODY_KEY_COLON] != COLON
        or p[body + size - 1] != CLOSE_BRACE
    ):
        return size
    if u32(p, body) == DATA_FIRST:
        return size - BODY_EXTRA_BYTES
    if u32(p, body) == META_FIRST and size >= BODY_EXTRA_BYTES_WITH_META:
        return size - BODY_EXTRA_BYTES_WITH_META
    return size


def value_end(p, at, end):
    """Where the JSON value that starts at `at` ends: at the first comma on its level, or -1."""
    depth: int64_t = 0
    if cython.compiled:
        c: cython.int
        while at < end:
            c = p[at]
            if c == QUOTE:
                at += 1
                while at < end and p[at] != QUOTE:
                    at += 2 if p[at] == BACKSLASH else 1
                if at >= end:
                    return -1
            elif c in (OPEN_BRACE, OPEN_BRACKET):
                depth += 1
            elif c in (CLOSE_BRACE, CLOSE_BRACKET):
                depth -= 1
                if depth < 0:
                    return -1
            elif c == COMMA and depth == 0:
                return at
            at += 1
        return -1
    else:
        for token in TOKEN.finditer(p, at, end):
            text = token[0]
            if text == b"," and depth == 0:
                return token.start()
            if text == b"{" or text == b"[":
                depth += 1
            elif text == b"}" or text == b"]":
                depth -= 1
                if depth < 0:
                    return -1
            elif text == b'"':  # a string that does not end
                return -1
        return -1


def meta_bytes_of(p, body, size):
    """The bytes of the meta text in an Append body: 0 without meta, -1 for a body of another
    shape."""
    close: int64_t = body + size - 1
    end: int64_t
    if size < BODY_EXTRA_BYTES or p[body + BODY_KEY_COLON] != COLON or p[close] != CLOSE_BRACE:
        return -1
    if u32(p, body) == DATA_FIRST:
        return 0
    if u32(p, body) != META_FIRST:
        return -1
    start: int64_t = body + BODY_KEY_BYTES
    end = value_end(p, start, close)
    if end <= start or close - end < BODY_KEY_BYTES:
        return -1
    if u32(p, end) != DATA_NEXT or p[end + BODY_KEY_COLON] != COLON:
        return -1
    return end - start


def data_start(body, meta):
    """Where the data text begins in the body at `body` whose meta text has `meta` bytes."""
    return body + (2 * BODY_KEY_BYTES + meta if meta else BODY_KEY_BYTES)


def tag_matches(p, start, pattern, size, prefix):
    """Is the tag of the frame at `start` the pattern, or with `prefix`, does it start with it?"""
    tag_size: int64_t = u16(p, start + FRAME_TAG_LEN)
    at: int64_t = start + FRAME_HEADER_BYTES + u16(p, start + FRAME_NODE_LEN)
    if tag_size == 0 or tag_size < size or (tag_size > size and not prefix):
        return False
    if cython.compiled:
        return memcmp(p + at, pattern, size) == 0
    else:
        return p[at : at + size] == pattern
