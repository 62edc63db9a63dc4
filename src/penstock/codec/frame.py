"""One frame and its bytes. For control frames, one at a time; the kernel does appends in bulk.

The layout is normative in docs/format/frame.md.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import TYPE_CHECKING, Final

from penstock.codec import kernel
from penstock.codec.kernel_source import layout

if TYPE_CHECKING:
    from typing_extensions import Buffer

HEADER_BYTES: Final = layout.FRAME_HEADER_BYTES
CHECKSUM_BYTES: Final = layout.CHECKSUM_BYTES
FRAME_BYTES_MIN: Final = layout.FRAME_BYTES_MIN
TYPE_MAX: Final = layout.FRAME_TYPE_MAX

_HEADER = struct.Struct("<IBBQQQHHI")
_CHECKSUM = struct.Struct("<Q")


class FrameType(IntEnum):
    """What a frame records. Types 1 to 11 are given by the format, those above are ours."""

    APPEND = 1
    TOPIC_CREATE = 2
    TOPIC_DELETE = 3
    ROUTER_CREATE = 4
    ROUTER_DELETE = 5
    DELETE = 6
    EVICT_WATERMARK = 7
    CHECKPOINT_MARK = 8
    CONFIG_UPDATE = 9
    LEASE = 10
    HEAD_WATERMARK = 11
    BATCH = 12
    DURABLE_MARK = 13
    LOSS = 14
    SCAR = 15
    POSITION = 16
    LEASES = 17
    COPIES = 18


class Flags(IntFlag):
    """Bits of the flags byte. The first two follow from the lengths and are set when encoding."""

    HAS_TAG = 1
    HAS_NODE = 2
    DURABLE = 4

    # The upper half counts how often the record was copied by a router.
    HOPS = 0xF0


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame's fields. `type` is a plain number: a newer version may write one we do not know."""

    type: int
    flags: int
    topic_id: int
    seq: int
    ts: int
    node: bytes
    tag: bytes
    data: bytes


def encode_frame(frame: Frame) -> bytes:
    """The bytes of one frame, checksum included."""
    return kernel.encode_control(
        frame.type,
        frame.flags,
        frame.topic_id,
        frame.seq,
        frame.ts,
        frame.node,
        frame.tag,
        frame.data,
    )


def decode_frame(buf: Buffer, offset: int) -> tuple[Frame, int]:
    """The frame at `offset` and where it ends. ValueError says why there is none."""
    view = memoryview(buf).cast("B")
    left = len(view) - offset
    if offset < 0 or left < FRAME_BYTES_MIN:
        raise ValueError(f"no frame at {offset}: {left} bytes are left")
    frame_len, kind, flags, topic_id, seq, ts, *sizes = _HEADER.unpack_from(view, offset)
    node_at = offset + HEADER_BYTES
    tag_at = node_at + sizes[0]
    data_at = tag_at + sizes[1]
    checksum_at = data_at + sizes[2]
    end = checksum_at + CHECKSUM_BYTES
    if frame_len > left - 4:
        raise ValueError(f"frame at {offset} is torn: {frame_len + 4} bytes, {left} are left")
    if end != offset + 4 + frame_len or not 0 < kind <= TYPE_MAX:
        raise ValueError(f"frame at {offset} is malformed: type {kind}, {frame_len + 4} bytes")
    (checksum,) = _CHECKSUM.unpack_from(view, checksum_at)
    if kernel.xxh3_64(view[offset + 4 : checksum_at]) != checksum:
        raise ValueError(f"frame at {offset}: checksum differs")
    node, tag = bytes(view[node_at:tag_at]), bytes(view[tag_at:data_at])
    data = bytes(view[data_at:checksum_at])
    return Frame(kind, flags, topic_id, seq, ts, node, tag, data), end
