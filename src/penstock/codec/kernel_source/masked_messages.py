"""Messages in the frames of a WebSocket client."""

from __future__ import annotations

from penstock.codec.kernel_source import cython_shim as cython
from penstock.codec.kernel_source.layout import (
    MESSAGE_BINARY,
    MESSAGE_LONG,
    MESSAGE_LONGEST,
    MESSAGE_MASKED,
    MESSAGE_TEXT,
)
from penstock.codec.kernel_source.memory import OutputBuffer, put64, u32, u64


def message_start(p, at, end, bytes_max):
    """Where the masked data begins of the whole message whose frame begins at `at`, or -1 when it
    is another kind of frame, is longer than `bytes_max`, or its header is not complete."""
    size: int64_t
    if end - at < 6 or (p[at] != MESSAGE_TEXT and p[at] != MESSAGE_BINARY):
        return -1
    size = p[at + 1] - MESSAGE_MASKED
    if size < 0:
        return -1
    at += 6
    if size == MESSAGE_LONG:
        at += 2
    elif size == MESSAGE_LONGEST:
        at += 8
    return at if at <= end and message_bytes(p, at, size) <= bytes_max else -1


def message_bytes(p, start, size):
    """The length of the message whose data begins at `start`; `size` is the first byte of the
    length. At most 2**62: a length beyond it is no less too long."""
    i: int64_t
    width: int64_t
    if size < MESSAGE_LONG:
        return size
    width = 2 if size == MESSAGE_LONG else 8
    size = 0
    for i in range(start - 4 - width, start - 4):
        if size >> 54:
            return 1 << 62
        size = size << 8 | p[i]
    return size


def unmask(p, start, size, out):
    """Write the `size` masked bytes at `start`, behind their mask, into `out`, unmasked."""
    i: int64_t
    mask: uint64_t = u32(p, start - 4)
    whole: int64_t = size // 8 * 8
    mask |= mask << 32
    for i in range(0, whole, 8):
        put64(out, i, u64(p, start + i) ^ mask)
    for i in range(whole, size):
        out[i] = p[start + i] ^ p[start - 4 + i % 4]


def masked_messages(data: bytes, at: int64_t, bytes_max: int64_t):
    """([(data, is it text?), …], where the next frame begins) of the whole messages at the
    beginning of data[at:], each in one frame. They end before a frame that is not complete, is of
    another kind or is longer than `bytes_max`."""
    end: int64_t = len(data)
    start: int64_t
    size: int64_t
    found: list = []
    if at < 0:
        raise ValueError(f"{at} is not an offset")
    p: ReadPointer = cython.cast(ReadPointer, PyBytes_AS_STRING(data)) if cython.compiled else data
    message: OutputBuffer
    while True:
        start = message_start(p, at, end, bytes_max)
        if start < 0:
            return found, at
        size = message_bytes(p, start, p[at + 1] - MESSAGE_MASKED)
        if size > end - start:
            return found, at
        message = OutputBuffer(size)
        unmask(p, start, size, message.at)
        found.append((message.as_bytes(), p[at] == MESSAGE_TEXT))
        at = start + size
