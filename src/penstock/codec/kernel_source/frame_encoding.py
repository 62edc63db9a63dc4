"""From records to frames."""

from __future__ import annotations

from penstock.codec.kernel_source import cython_shim as cython
from penstock.codec.kernel_source.characters import CLOSE_BRACE
from penstock.codec.kernel_source.checksum import hash64
from penstock.codec.kernel_source.layout import (
    APPEND,
    BATCH,
    BATCH_BODY_BYTES,
    BATCH_FRAME_BYTES_MIN,
    BODY_EXTRA_BYTES,
    BODY_KEY_BYTES,
    CHECKSUM_BYTES,
    FLAGS_GIVEN,
    FRAME_BYTES_MIN,
    FRAME_DATA_LEN,
    FRAME_FLAGS,
    FRAME_HEADER_BYTES,
    FRAME_LEN_BYTES,
    FRAME_LEN_MIN,
    FRAME_NODE_LEN,
    FRAME_SEQ,
    FRAME_TAG_LEN,
    FRAME_TOPIC_ID,
    FRAME_TS,
    FRAME_TYPE,
    FRAME_TYPE_MAX,
    LABEL_BYTES_MAX,
    OFFSET_BYTES,
)
from penstock.codec.kernel_source.memory import (
    U32,
    U64,
    OutputBuffer,
    check_u64,
    copy,
    put32,
    put64,
)
from penstock.codec.kernel_source.thresholds import NOGIL_BYTES_MIN

if not cython.compiled:
    from struct import Struct

    from xxhash import xxh3_64_intdigest

    COVERED = Struct("<BBQQQHHI")  # the header without its first field
    BETWEEN = Struct("<QI")  # the checksum of one frame and the length of the next


def put_header(out, at, kind, flags, topic_id, seq, ts, node_size, tag_size, data_size):
    """Write the header at `at`; returns where it ends."""
    put32(out, at, FRAME_LEN_MIN + node_size + tag_size + data_size)
    out[at + FRAME_TYPE] = kind
    out[at + FRAME_FLAGS] = (flags & FLAGS_GIVEN) | (tag_size != 0) | ((node_size != 0) << 1)
    put64(out, at + FRAME_TOPIC_ID, topic_id)
    put64(out, at + FRAME_SEQ, seq)
    put64(out, at + FRAME_TS, ts)
    put16(out, at + FRAME_NODE_LEN, node_size)
    put16(out, at + FRAME_TAG_LEN, tag_size)
    put32(out, at + FRAME_DATA_LEN, data_size)
    return at + FRAME_HEADER_BYTES


def put_checksum(out, start, at):
    """Write the checksum of the frame at `start` at `at`; returns where the frame ends."""
    start += FRAME_LEN_BYTES
    put64(out, at, hash64(out, start, at - start))
    return at + CHECKSUM_BYTES


def put_append(out, at, one, topic_id, seq, ts, flags):
    """Write the Append frame of a record at `at`; returns where it ends."""
    start: int64_t = at
    body_size: int64_t = one.data.size + BODY_EXTRA_BYTES
    if one.meta.size:
        body_size += BODY_KEY_BYTES + one.meta.size
    at = put_header(
        out, at, APPEND, flags, topic_id, seq, ts, one.node.size, one.tag.size, body_size
    )
    if one.node.size:
        copy(out, at, one.node.at, 0, one.node.size)
        at += one.node.size
    if one.tag.size:
        copy(out, at, one.tag.at, 0, one.tag.size)
        at += one.tag.size
    if one.meta.size:
        memcpy(out + at, b'{"m":', BODY_KEY_BYTES)
        copy(out, at + BODY_KEY_BYTES, one.meta.at, 0, one.meta.size)
        at += BODY_KEY_BYTES + one.meta.size
        memcpy(out + at, b',"d":', BODY_KEY_BYTES)
    else:
        memcpy(out + at, b'{"d":', BODY_KEY_BYTES)
    copy(out, at + BODY_KEY_BYTES, one.data.at, 0, one.data.size)
    at += BODY_KEY_BYTES + one.data.size
    out[at] = CLOSE_BRACE
    return put_checksum(out, start, at + 1)


def put_batch_start(out, topic_id, seq, ts, key, count):
    """Write the Batch frame of `count` records at the start of `out`; returns where it ends."""
    at: int64_t = put_header(out, 0, BATCH, 0, topic_id, seq, ts, 0, key.size, BATCH_BODY_BYTES)
    if key.size:
        copy(out, at, key.at, 0, key.size)
        at += key.size
    put32(out, at, count)
    return put_checksum(out, 0, at + BATCH_BODY_BYTES)


def fill_appends(out, base, offsets, parts, count, topic_id, seq, ts, flags):
    """Write the frames of `count` records into `out` from `base` on, and where each begins,
    counted from there, into `offsets`."""
    i: int64_t
    at: int64_t = base
    for i in range(count):
        put32(offsets, OFFSET_BYTES * i, at - base)
        at = put_append(out, at, parts + i, topic_id, seq + i, ts, flags)


def text_of(item, what, i):
    text: TextSpan
    if item is None:
        text.at = cython.NULL
        text.size = 0
    elif isinstance(item, bytes):
        text.at = cython.cast(ReadPointer, PyBytes_AS_STRING(item))
        text.size = PyBytes_GET_SIZE(item)
    else:
        raise TypeError(f"record {i}: {what} is {type(item).__name__}, not bytes")
    return text


def check_label(size, what, i):
    if size > LABEL_BYTES_MAX:
        raise ValueError(
            f"record {i}: {what} of {size} bytes, at most {LABEL_BYTES_MAX} fit a frame"
        )


def column(values, count, what):
    """The list as a tuple, which cannot change while pointers into its items are in use."""
    if values is None:
        return None
    held = tuple(values)
    if len(held) != count:
        raise ValueError(f"{len(held)} {what} for {count} records")
    return held


def encode_appends(
    topic_id: uint64_t,
    first_seq: uint64_t,
    ts: uint64_t,
    flags: cython.int,
    datas,
    metas,
    tags,
    nodes,
    tag,
    node,
    batch_key=None,
):
    """Append frames for `datas` under the seqs from `first_seq` on.

    `datas` and `metas` are JSON texts. An entry of None (or no list) means no meta, and for tags
    and nodes the default `tag` and `node`; empty is the same as absent. Unless `batch_key` is None,
    a Batch frame with this key, which may be empty, comes first.
    Returns the frames, where each Append frame starts, counted from the first of them, as u32, and
    the payload bytes in all.
    """
    if not cython.compiled:
        return encode_appends_interpreted(
            topic_id, first_seq, ts, flags, datas, metas, tags, nodes, tag, node, batch_key
        )
    held_datas: tuple = tuple(datas)
    count: int64_t = len(held_datas)
    held_metas: tuple = column(metas, count, "metas")
    held_tags: tuple = column(tags, count, "tags")
    held_nodes: tuple = column(nodes, count, "nodes")
    if count and first_seq + cython.cast(uint64_t, count) - 1 < first_seq:
        raise OverflowError("the last seq does not fit 64 bits")
    default_tag: TextSpan = text_of(tag, "tag", 0)
    default_node: TextSpan = text_of(node, "node", 0)
    check_label(default_tag.size, "tag", 0)
    check_label(default_node.size, "node", 0)
    key: TextSpan = text_of(batch_key, "batch key", 0)
    check_label(key.size, "batch key", 0)
    workspace: OutputBuffer = OutputBuffer(count * cython.sizeof(RecordParts))
    parts: cython.pointer[RecordParts] = cython.cast(cython.pointer[RecordParts], workspace.at)
    one: cython.pointer[RecordParts]
    i: int64_t
    total: int64_t = batch_start_bytes(batch_key)
    base: int64_t = 0
    payload: int64_t = 0
    for i in range(count):
        one = parts + i
        item = held_datas[i]
        if not isinstance(item, bytes):
            raise TypeError(f"record {i}: data is {type(item).__name__}, not bytes")
        one.data.at = cython.cast(ReadPointer, PyBytes_AS_STRING(item))
        one.data.size = PyBytes_GET_SIZE(item)
        one.meta.at = cython.NULL
        one.meta.size = 0
        one.tag = default_tag
        one.node = default_node
        if held_metas is not None:
            one.meta = text_of(held_metas[i], "meta", i)
        if held_tags is not None and held_tags[i] is not None:
            one.tag = text_of(held_tags[i], "tag", i)
            if one.tag.size > LABEL_BYTES_MAX:
                check_label(one.tag.size, "tag", i)
        if held_nodes is not None and held_nodes[i] is not None:
            one.node = text_of(held_nodes[i], "node", i)
            if one.node.size > LABEL_BYTES_MAX:
                check_label(one.node.size, "node", i)
        payload += one.data.size + one.meta.size
        total += FRAME_BYTES_MIN + BODY_EXTRA_BYTES + one.node.size + one.tag.size
        if one.meta.size:
            total += BODY_KEY_BYTES
    total += payload
    check_total(total)
    frames: OutputBuffer = OutputBuffer(total)
    offsets: OutputBuffer = OutputBuffer(OFFSET_BYTES * count)
    if batch_key is not None:
        base = put_batch_start(frames.at, topic_id, first_seq, ts, key, count)
    # Releasing and acquiring the GIL costs more than encoding a small batch.
    if total >= NOGIL_BYTES_MIN:
        with cython.nogil:
            fill_appends(frames.at, base, offsets.at, parts, count, topic_id, first_seq, ts, flags)
    else:
        fill_appends(frames.at, base, offsets.at, parts, count, topic_id, first_seq, ts, flags)
    return frames.owner, offsets.owner, payload


def batch_start_bytes(key):
    """The size of the Batch frame with this key; 0 for None, which means no such frame."""
    return 0 if key is None else BATCH_FRAME_BYTES_MIN + len(key)


def check_total(total):
    if total >= 1 << 32:
        raise ValueError(f"{total} bytes of frames in one batch, offsets take 32 bits")


def encode_control(
    type: cython.int,
    flags: cython.int,
    topic_id: uint64_t,
    seq: uint64_t,
    ts: uint64_t,
    node,
    tag,
    data,
):
    """One frame of any type."""
    if not 0 < type <= FRAME_TYPE_MAX:
        raise ValueError(f"frame type {type} is not in 1..{FRAME_TYPE_MAX}")
    for part in (node, tag, data):
        if not isinstance(part, bytes):
            raise TypeError(f"{part.__class__.__name__} in a frame, not bytes")
    check_label(len(node), "node", 0)
    check_label(len(tag), "tag", 0)
    check_total(FRAME_BYTES_MIN + len(node) + len(tag) + len(data))
    if cython.compiled:
        frame: OutputBuffer = OutputBuffer(FRAME_BYTES_MIN + len(node) + len(tag) + len(data))
        at: int64_t
        at = put_header(frame.at, 0, type, flags, topic_id, seq, ts, len(node), len(tag), len(data))
        for part in (node, tag, data):
            copy(frame.at, at, cython.cast(ReadPointer, PyBytes_AS_STRING(part)), 0, len(part))
            at += len(part)
        put_checksum(frame.at, 0, at)
        return frame.owner
    else:
        check_u64(topic_id, seq, ts)
        flags = flags & FLAGS_GIVEN | (tag != b"") | (node != b"") << 1
        sizes = len(node), len(tag), len(data)
        covered = COVERED.pack(type, flags, topic_id, seq, ts, *sizes) + node + tag + data
        return (
            U32.pack(len(covered) + CHECKSUM_BYTES) + covered + U64.pack(xxh3_64_intdigest(covered))
        )


if not cython.compiled:

    def check_bytes(values, what):
        if set(map(type, values)) - {bytes}:
            for i, value in enumerate(values):
                if not isinstance(value, bytes):
                    raise TypeError(f"record {i}: {what} is {type(value).__name__}, not bytes")

    def labels(values, default, count, what):
        """Tag or node of each record, checked."""
        default = b"" if default is None else default
        distinct = [default]
        if values is not None:
            values = column(values, count, f"{what}s")
            distinct = values = [default if value is None else value for value in values]
        check_bytes(distinct, what)
        for i, value in enumerate(distinct):
            check_label(len(value), what, i)
        return [default] * count if values is None else values

    def plain_covered(datas, flags, topic_id, first_seq, ts):
        """What the checksums cover, for records of data alone."""
        pack = COVERED.pack
        for seq, data in enumerate(datas, first_seq):
            size = len(data) + BODY_EXTRA_BYTES
            yield b'%b{"d":%b}' % (pack(APPEND, flags, topic_id, seq, ts, 0, 0, size), data)

    def covered_of(rows, flags, topic_id, first_seq, ts):
        """What the checksums cover, for any records."""
        for seq, (data, meta, tag, node) in enumerate(rows, first_seq):
            body = b'{"m":%b,"d":%b}' % (meta, data) if meta else b'{"d":%b}' % data
            both = flags | (tag != b"") | (node != b"") << 1
            sizes = len(node), len(tag), len(body)
            yield COVERED.pack(APPEND, both, topic_id, seq, ts, *sizes) + node + tag + body

    def encode_appends_interpreted(
        topic_id, first_seq, ts, flags, datas, metas, tags, nodes, tag, node, batch_key
    ):
        datas = tuple(datas)
        count = len(datas)
        check_u64(topic_id, first_seq, ts, first_seq + max(count - 1, 0))
        check_bytes(datas, "data")
        fixed = flags & FLAGS_GIVEN, topic_id, first_seq, ts
        total = payload = sum(map(len, datas))
        if metas is tags is nodes is tag is node is None:
            texts = plain_covered(datas, *fixed)
        else:
            metas = column(metas, count, "metas") or (None,) * count
            metas = [b"" if meta is None else meta for meta in metas]
            check_bytes(metas, "meta")
            tags = labels(tags, tag, count, "tag")
            nodes = labels(nodes, node, count, "node")
            payload += sum(map(len, metas))
            total = payload + sum(map(len, tags)) + sum(map(len, nodes))
            total += BODY_KEY_BYTES * sum(map(bool, metas))
            texts = covered_of(zip(datas, metas, tags, nodes, strict=True), *fixed)
        check_total(
            batch_start_bytes(batch_key) + total + (FRAME_BYTES_MIN + BODY_EXTRA_BYTES) * count
        )
        start = b""
        if batch_key is not None:
            check_bytes([batch_key], "batch key")
            number = U32.pack(count)
            start = encode_control(BATCH, 0, topic_id, first_seq, ts, b"", batch_key, number)
        pieces = []
        offsets = []
        push, push_offset, between, digest = (
            pieces.append,
            offsets.append,
            BETWEEN.pack,
            xxh3_64_intdigest,
        )
        at = checksum = 0
        for covered in texts:
            push_offset(at)
            length = len(covered) + CHECKSUM_BYTES
            at += length + FRAME_LEN_BYTES
            # Between two frames lie the checksum of one and the length of the next: one packing.
            push(between(checksum, length))
            push(covered)
            checksum = digest(covered)
        if not pieces:
            return start, b"", 0
        # Before the first frame there is no checksum.
        pieces[0] = start + pieces[0][CHECKSUM_BYTES:]
        push(U64.pack(checksum))
        return b"".join(pieces), Struct(f"<{count}I").pack(*offsets), payload
