"""Records of one topic as records of another."""

from __future__ import annotations

from penstock.codec.kernel_source import cython_shim as cython
from penstock.codec.kernel_source.frame import HEADER, frame_fault, payload_bytes_of
from penstock.codec.kernel_source.frame_encoding import (
    check_total,
    encode_control,
    put_checksum,
    put_header,
)
from penstock.codec.kernel_source.layout import (
    APPEND,
    FLAGS_HOPS_SHIFT,
    FRAME_BYTES_MIN,
    FRAME_DATA_LEN,
    FRAME_FLAGS,
    FRAME_HEADER_BYTES,
    FRAME_LEN_BYTES,
    FRAME_NODE_LEN,
    FRAME_SEQ,
    FRAME_TAG_LEN,
    FRAME_TYPE,
    NUMBER_BYTES,
    OFFSET_BYTES,
)
from penstock.codec.kernel_source.memory import (
    HeldBuffer,
    OutputBuffer,
    check_u64,
    copy,
    put32,
    put64,
    u16,
    u32,
    u64,
)
from penstock.codec.kernel_source.statuses import CLEAN

if not cython.compiled:
    from struct import Struct


def readdress(
    buf,
    topic_id: uint64_t,
    first_seq: uint64_t,
    ts: uint64_t,
    flags: cython.int,
    keep_node: cython.bint,
    keep_tag: cython.bint,
    hops_max: cython.int,
):
    """Copies of the Append frames that lie end to end in `buf`, as records of another topic.

    The hop count of each copy is one higher; records with `hops_max` hops are not copied.
    Returns the frames, the start of each as u32, the payload bytes in all, and the seqs of the
    copied records in their source, as u64.
    """
    frames: HeldBuffer = HeldBuffer(buf)
    p: ReadPointer = frames.at
    at: int64_t = 0
    size: int64_t = 0
    total: int64_t = 0
    count: int64_t = 0
    fault: cython.int = CLEAN
    with cython.nogil:
        while at < frames.size:
            fault = frame_fault(p, at, frames.size)
            if fault != CLEAN or p[at + FRAME_TYPE] != APPEND:
                break
            size = u32(p, at)
            if p[at + FRAME_FLAGS] >> FLAGS_HOPS_SHIFT < hops_max:
                count += 1
                total += FRAME_BYTES_MIN + u32(p, at + FRAME_DATA_LEN)
                if keep_node:
                    total += u16(p, at + FRAME_NODE_LEN)
                if keep_tag:
                    total += u16(p, at + FRAME_TAG_LEN)
            at += FRAME_LEN_BYTES + size
    if at != frames.size:
        raise ValueError(f"byte {at}: no whole Append frame starts here")
    check_total(total)
    if not cython.compiled:
        check_u64(topic_id, first_seq, ts, first_seq + max(count - 1, 0))
        return readdress_interpreted(
            p, frames.size, topic_id, first_seq, ts, flags, keep_node, keep_tag, hops_max
        )
    if count and first_seq + cython.cast(uint64_t, count) - 1 < first_seq:
        raise OverflowError("the last seq does not fit 64 bits")
    copies: OutputBuffer = OutputBuffer(total)
    offsets: OutputBuffer = OutputBuffer(OFFSET_BYTES * count)
    seqs: OutputBuffer = OutputBuffer(NUMBER_BYTES * count)
    i: int64_t = 0
    start: int64_t = 0
    node_size: int64_t
    tag_size: int64_t
    data_size: int64_t
    end: int64_t
    payload: int64_t = 0
    hops: cython.int
    at = 0
    with cython.nogil:
        while at < frames.size:
            hops = p[at + FRAME_FLAGS] >> FLAGS_HOPS_SHIFT
            if hops < hops_max:
                node_size = u16(p, at + FRAME_NODE_LEN)
                tag_size = u16(p, at + FRAME_TAG_LEN)
                data_size = u32(p, at + FRAME_DATA_LEN)
                put32(offsets.at, OFFSET_BYTES * i, start)
                put64(seqs.at, NUMBER_BYTES * i, u64(p, at + FRAME_SEQ))
                payload += payload_bytes_of(p, at)
                end = put_header(
                    copies.at,
                    start,
                    APPEND,
                    flags | (hops + 1) << FLAGS_HOPS_SHIFT,
                    topic_id,
                    first_seq + i,
                    ts,
                    node_size if keep_node else 0,
                    tag_size if keep_tag else 0,
                    data_size,
                )
                if keep_node and keep_tag:
                    copy(copies.at, end, p, at + FRAME_HEADER_BYTES, node_size + tag_size)
                    end += node_size + tag_size
                elif keep_node:
                    copy(copies.at, end, p, at + FRAME_HEADER_BYTES, node_size)
                    end += node_size
                elif keep_tag:
                    copy(copies.at, end, p, at + FRAME_HEADER_BYTES + node_size, tag_size)
                    end += tag_size
                copy(copies.at, end, p, at + FRAME_HEADER_BYTES + node_size + tag_size, data_size)
                start = put_checksum(copies.at, start, end + data_size)
                i += 1
            size = u32(p, at)
            at += FRAME_LEN_BYTES + size
    return copies.owner, offsets.owner, payload, seqs.owner


if not cython.compiled:

    def readdress_interpreted(
        p, size, topic_id, first_seq, ts, flags, keep_node, keep_tag, hops_max
    ):
        copies = []
        offsets = []
        seqs = []
        payload = start = at = 0
        while at < size:
            frame_len, _, old_flags, _, seq, _, node_size, tag_size, data_size = HEADER.unpack_from(
                p, at
            )
            hops = old_flags >> FLAGS_HOPS_SHIFT
            if hops < hops_max:
                tag_at = at + FRAME_HEADER_BYTES + node_size
                body = tag_at + tag_size
                node = bytes(p[at + FRAME_HEADER_BYTES : tag_at]) if keep_node else b""
                tag = bytes(p[tag_at:body]) if keep_tag else b""
                data = bytes(p[body : body + data_size])
                copied = encode_control(
                    APPEND,
                    flags | (hops + 1) << FLAGS_HOPS_SHIFT,
                    topic_id,
                    first_seq + len(seqs),
                    ts,
                    node,
                    tag,
                    data,
                )
                offsets.append(start)
                seqs.append(seq)
                payload += payload_bytes_of(p, at)
                copies.append(copied)
                start += len(copied)
            at += FRAME_LEN_BYTES + frame_len
        count = len(seqs)
        table = Struct(f"<{count}I").pack(*offsets), Struct(f"<{count}Q").pack(*seqs)
        return b"".join(copies), table[0], payload, table[1]
