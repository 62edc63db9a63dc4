"""The spool frame: a sender stores it and sends the same bytes.

`magic | u32 payload length | u64 fsn | u32 crc32c | payload`, little-endian. The checksum covers
length, number and payload, and is verified on disk and on the wire.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from google_crc32c import extend, value

FRAME_MAGIC: Final = b"PSfr"
_HEAD: Final = struct.Struct("<4sIQI")  # magic, payload length, fsn, crc32c
_SUMMED: Final = struct.Struct("<IQ")  # the length and the fsn, as in the head
FRAME_HEAD_BYTES: Final = _HEAD.size
PAYLOAD_BYTES_MAX: Final = (1 << 32) - 1
FSN_MAX: Final = (1 << 63) - 1


class BadFrame(ValueError):
    """The bytes are not a valid frame."""


def encode_head(fsn: int, parts: Sequence[bytes]) -> bytes:
    """The head of a frame whose payload is the concatenation of `parts`."""
    size = sum(map(len, parts))
    if not 0 <= fsn <= FSN_MAX:
        raise ValueError(f"invalid frame number {fsn}: expected 0 to {FSN_MAX}")
    if size > PAYLOAD_BYTES_MAX:
        raise ValueError(f"a payload of {size} bytes: the maximum is {PAYLOAD_BYTES_MAX}")
    checksum = value(_SUMMED.pack(size, fsn))
    for part in parts:
        checksum = extend(checksum, part)
    return _HEAD.pack(FRAME_MAGIC, size, fsn, checksum)


def encode_frame(fsn: int, payload: bytes) -> bytes:
    return encode_frame_parts(fsn, (payload,))


def encode_frame_parts(fsn: int, parts: Sequence[bytes]) -> bytes:
    """A frame whose payload is the concatenation of `parts`."""
    return b"".join((encode_head(fsn, parts), *parts))


def decode_frame(data: bytes) -> tuple[int, bytes]:
    """The number and the payload of a frame. Raises BadFrame."""
    if len(data) < FRAME_HEAD_BYTES:
        raise BadFrame(f"{len(data)} bytes are less than the head of a frame")
    magic, size, fsn, checksum = _HEAD.unpack_from(data)
    if magic != FRAME_MAGIC:
        raise BadFrame("its magic number is wrong")
    if size != len(data) - FRAME_HEAD_BYTES:
        raise BadFrame(
            f"its length is {size}, but it has {len(data) - FRAME_HEAD_BYTES} payload bytes"
        )
    payload = data[FRAME_HEAD_BYTES:]
    if extend(value(data[4:16]), payload) != checksum:
        raise BadFrame("its checksum differs")
    if fsn > FSN_MAX:
        raise BadFrame(f"invalid frame number {fsn}: expected 0 to {FSN_MAX}")
    return fsn, payload


def read_frame(data: bytes, offset: int) -> tuple[int, int] | None:
    """The number and the length of the valid frame at an offset; None without one."""
    if offset < 0 or offset + FRAME_HEAD_BYTES > len(data):
        return None
    magic, size, fsn, checksum = _HEAD.unpack_from(data, offset)
    start = offset + FRAME_HEAD_BYTES
    if magic != FRAME_MAGIC or fsn > FSN_MAX or start + size > len(data):
        return None
    if extend(value(data[offset + 4 : offset + 16]), data[start : start + size]) != checksum:
        return None
    return fsn, FRAME_HEAD_BYTES + size
