"""A spool frame: what a sender stores, and sends exactly as it stored it.

`magic | u32 payload length | u64 fsn | u32 crc32c | payload`, little-endian. The checksum covers
length, number and payload, so that a frame vouches for itself on a disk and on the wire.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from google_crc32c import extend, value

FRAME_MAGIC: Final = b"PSfr"
_HEAD: Final = struct.Struct("<4sIQI")  # magic, payload length, fsn, crc32c
_SUMMED: Final = struct.Struct("<IQ")  # the length and the fsn again, as they lie in the head
FRAME_HEAD_BYTES: Final = _HEAD.size
PAYLOAD_BYTES_MAX: Final = (1 << 32) - 1
FSN_MAX: Final = (1 << 63) - 1


class BadFrame(ValueError):
    """These bytes are not a frame; the text says why."""


def encode_head(fsn: int, parts: Sequence[bytes]) -> bytes:
    """The head of a frame whose payload is `parts`, one after the other."""
    size = sum(map(len, parts))
    if not 0 <= fsn <= FSN_MAX:
        raise ValueError(f"{fsn} is no frame number")
    if size > PAYLOAD_BYTES_MAX:
        raise ValueError(f"a payload of {size} bytes is over {PAYLOAD_BYTES_MAX}")
    checksum = value(_SUMMED.pack(size, fsn))
    for part in parts:
        checksum = extend(checksum, part)
    return _HEAD.pack(FRAME_MAGIC, size, fsn, checksum)


def encode_frame(fsn: int, payload: bytes) -> bytes:
    return encode_frame_parts(fsn, (payload,))


def encode_frame_parts(fsn: int, parts: Sequence[bytes]) -> bytes:
    """A frame of a payload in pieces, which are copied once."""
    return b"".join((encode_head(fsn, parts), *parts))


def decode_frame(data: bytes) -> tuple[int, bytes]:
    """The number and the payload of one whole frame, or BadFrame."""
    if len(data) < FRAME_HEAD_BYTES:
        raise BadFrame(f"{len(data)} bytes are less than a frame's head")
    magic, size, fsn, checksum = _HEAD.unpack_from(data)
    if magic != FRAME_MAGIC:
        raise BadFrame("it does not begin as a frame does")
    if size != len(data) - FRAME_HEAD_BYTES:
        raise BadFrame(f"it says {size} payload bytes and has {len(data) - FRAME_HEAD_BYTES}")
    payload = data[FRAME_HEAD_BYTES:]
    if extend(value(data[4:16]), payload) != checksum:
        raise BadFrame("its checksum differs")
    if fsn > FSN_MAX:
        raise BadFrame(f"{fsn} is no frame number")
    return fsn, payload


def read_frame(data: bytes, offset: int) -> tuple[int, int] | None:
    """The number and the length of the whole, valid frame at an offset, if there is one."""
    if offset < 0 or offset + FRAME_HEAD_BYTES > len(data):
        return None
    magic, size, fsn, checksum = _HEAD.unpack_from(data, offset)
    start = offset + FRAME_HEAD_BYTES
    if magic != FRAME_MAGIC or fsn > FSN_MAX or start + size > len(data):
        return None
    if extend(value(data[offset + 4 : offset + 16]), data[start : start + size]) != checksum:
        return None
    return fsn, FRAME_HEAD_BYTES + size
