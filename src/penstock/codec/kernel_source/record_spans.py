"""Records that stay in the buffer they came in: tables of where their texts lie, and their frames.

A table has one entry for each record: start and length of data, tag and node, each as u32. A length
of 0 means no tag or node. There is no meta.
"""

from __future__ import annotations

from penstock.codec.kernel_source import cython_shim as cython
from penstock.codec.kernel_source.characters import (
    CLOSE_BRACE,
    CLOSE_BRACKET,
    COLON,
    COMMA,
    LETTER_A,
    LETTER_G,
    LETTER_T,
    OPEN_BRACE,
    OPEN_BRACKET,
    QUOTE,
    WORD_DATA,
    WORD_NODE,
)
from penstock.codec.kernel_source.frame_encoding import (
    batch_start_bytes,
    check_label,
    check_total,
    encode_appends_interpreted,
    put_append,
    put_batch_start,
    text_of,
)
from penstock.codec.kernel_source.json_text import (
    blanks_end,
    is_plain_json,
    letters_end,
    plain_value_end,
)
from penstock.codec.kernel_source.layout import (
    BODY_EXTRA_BYTES,
    FRAME_BYTES_MIN,
    LABEL_BYTES_MAX,
    OFFSET_BYTES,
    RECORD_HEADER_BYTES,
    RECORD_META_LEN,
    RECORD_NODE_LEN,
    RECORD_TAG_LEN,
    SPAN_BYTES,
    SPAN_DATA,
    SPAN_DATA_LEN,
    SPAN_NODE,
    SPAN_NODE_LEN,
    SPAN_TAG,
    SPAN_TAG_LEN,
)
from penstock.codec.kernel_source.memory import HeldBuffer, OutputBuffer, clear, put32, u16, u32
from penstock.codec.kernel_source.thresholds import JSON_RECORD_BYTES_MIN, NOGIL_BYTES_MIN

# --- Length-prefixed records ----------------------------------------------------------------------


def is_ascii(p, at, size):
    """Is every one of the `size` bytes at `at` below 128?"""
    i: int64_t
    found: cython.int = 0
    for i in range(at, at + size):
        found |= p[i]
    return found < 128


def fill_packed_spans(p, at, end, count, tag_max, node_max, table):
    """Write the spans of `count` length-prefixed records that fill p[at:end] into `table`. False
    when one of them is not plain."""
    i: int64_t
    row: int64_t
    data_size: int64_t
    tag_size: int64_t
    node_size: int64_t
    for i in range(count):
        if end - at < RECORD_HEADER_BYTES or u32(p, at + RECORD_META_LEN) != 0:
            return False
        data_size = u32(p, at)
        tag_size = u16(p, at + RECORD_TAG_LEN)
        node_size = u16(p, at + RECORD_NODE_LEN)
        at += RECORD_HEADER_BYTES
        if end - at < tag_size + node_size + data_size:
            return False
        if tag_size > tag_max or node_size > node_max or not is_ascii(p, at, tag_size + node_size):
            return False
        row = SPAN_BYTES * i
        put32(table, row + SPAN_TAG, at)
        put32(table, row + SPAN_TAG_LEN, tag_size)
        put32(table, row + SPAN_NODE, at + tag_size)
        put32(table, row + SPAN_NODE_LEN, node_size)
        at += tag_size + node_size
        if not is_plain_json(p, at, at + data_size):
            return False
        put32(table, row + SPAN_DATA, at)
        put32(table, row + SPAN_DATA_LEN, data_size)
        at += data_size
    return at == end


def packed_spans(buf, offset: int64_t, count: int64_t, tag_max: int64_t, node_max: int64_t):
    """The table of `count` length-prefixed records that fill buf[offset:]; see `split_records`.

    None when a record is not plain: it is cut short, has meta, too long a tag or node, a label that
    is not ASCII, or data that is not plain JSON.
    """
    source: HeldBuffer = HeldBuffer(buf)
    size: int64_t = source.size
    if offset < 0 or count < 0 or offset > size or size >> 32:
        return None
    if count > (size - offset) // RECORD_HEADER_BYTES:
        return None
    table: OutputBuffer = OutputBuffer(SPAN_BYTES * count)
    is_plain: cython.bint
    if size - offset >= NOGIL_BYTES_MIN:
        with cython.nogil:
            is_plain = fill_packed_spans(
                source.at, offset, size, count, tag_max, node_max, table.at
            )
    else:
        is_plain = fill_packed_spans(source.at, offset, size, count, tag_max, node_max, table.at)
    return table.as_bytes() if is_plain else None


# --- Records in a JSON body -----------------------------------------------------------------------


def name_end(p, at, end):
    """The closing quote of the plain string whose opening quote is at `at`, or -1."""
    if at >= end or p[at] != QUOTE:
        return -1
    at = letters_end(p, at + 1, end)
    return at if at < end and p[at] == QUOTE else -1


def value_start(p, at, end):
    """Where the value begins behind the name whose closing quote is at `at`, or -1."""
    at = blanks_end(p, at + 1, end)
    if at >= end or p[at] != COLON:
        return -1
    at = blanks_end(p, at + 1, end)
    return at if at < end else -1


def span_of_name(p, at, size):
    """Which span of a record has this name, or -1."""
    if size == 4 and u32(p, at) == WORD_DATA:
        return SPAN_DATA
    if size == 4 and u32(p, at) == WORD_NODE:
        return SPAN_NODE
    if size == 3 and p[at] == LETTER_T and p[at + 1] == LETTER_A and p[at + 2] == LETTER_G:
        return SPAN_TAG
    return -1


def fill_json_span(p, at, end, tag_max, node_max, table, row):
    """Write the spans of the record at `at` into the entry at `row`; returns where the record ends,
    or -1 when it is not plain."""
    start: int64_t
    span: int64_t
    found: int64_t = 0  # one bit for each span
    clear(table, row, SPAN_BYTES)
    if p[at] != OPEN_BRACE:
        return -1
    while True:
        start = blanks_end(p, at + 1, end)
        at = name_end(p, start, end)
        if at < 0:
            return -1
        span = span_of_name(p, start + 1, at - start - 1)
        at = value_start(p, at, end)
        if span < 0 or at < 0 or found >> span & 1:
            return -1
        found |= 1 << span
        start = at
        if span == SPAN_DATA:
            at = plain_value_end(p, start, end)
            if at < 0:
                return -1
            put32(table, row + SPAN_DATA_LEN, at - start)
        else:
            at = name_end(p, start, end)
            start += 1
            if at < 0 or at - start > (tag_max if span == SPAN_TAG else node_max):
                return -1
            put32(table, row + span + SPAN_DATA_LEN, at - start)
            at += 1
        put32(table, row + span, start)
        at = blanks_end(p, at, end)
        if at >= end:
            return -1
        if p[at] == CLOSE_BRACE:
            return at + 1 if found & 1 else -1
        if p[at] != COMMA:
            return -1


def fill_json_spans(p, at, end, records_max, tag_max, node_max, table, count):
    """Write the spans of the array of records at `at` into `table`, and their number into `count`;
    returns where the array ends, or -1 when it is empty, too long or not plain."""
    if p[at] != OPEN_BRACKET:
        return -1
    while count[0] < records_max:
        at = blanks_end(p, at + 1, end)
        if at >= end:
            return -1
        at = fill_json_span(p, at, end, tag_max, node_max, table, SPAN_BYTES * count[0])
        if at < 0:
            return -1
        count[0] += 1
        at = blanks_end(p, at, end)
        if at >= end:
            return -1
        if p[at] == CLOSE_BRACKET:
            return at + 1
        if p[at] != COMMA:
            return -1
    return -1


def is_records(p, at, size):
    """Is this the name of the member with the records?"""
    if size != 7:
        return False
    if cython.compiled:
        return memcmp(p + at, b"records", 7) == 0
    else:
        return p[at : at + 7] == b"records"


def fill_body_spans(p, end, records_max, tag_max, node_max, table, count, array):
    """Write the spans of the records in a JSON body, as in `json_spans`. False when the body is not
    plain."""
    start: int64_t
    is_array: cython.bint
    at: int64_t = blanks_end(p, 0, end)
    if at >= end or p[at] != OPEN_BRACE:
        return False
    while True:
        start = blanks_end(p, at + 1, end)
        at = name_end(p, start, end)
        if at < 0:
            return False
        is_array = is_records(p, start + 1, at - start - 1)
        at = value_start(p, at, end)
        if at < 0 or (is_array and count[0]):
            return False
        if is_array:
            array[0] = at
            at = fill_json_spans(p, at, end, records_max, tag_max, node_max, table, count)
            array[1] = at
        else:
            at = plain_value_end(p, at, end)
        if at < 0:
            return False
        at = blanks_end(p, at, end)
        if at >= end:
            return False
        if p[at] == CLOSE_BRACE:
            return count[0] > 0 and blanks_end(p, at + 1, end) == end
        if p[at] != COMMA:
            return False


def json_spans(body, records_max: int64_t, tag_max: int64_t, node_max: int64_t):
    """(table, start, end) of the records in a JSON object with a member `records`, the array
    body[start:end] of objects with `data` and perhaps `tag` and `node`.

    None when the body is not plain: it is not JSON in ASCII; it has no records, or more than
    `records_max`; a record has another member, too long a tag or node, or one with an escape; data
    is not plain JSON; or a member occurs twice.
    """
    source: HeldBuffer = HeldBuffer(body)
    size: int64_t = source.size
    if size >> 32:
        return None
    most: int64_t = max(0, min(records_max, size // JSON_RECORD_BYTES_MIN))
    table: OutputBuffer = OutputBuffer(SPAN_BYTES * most)
    is_plain: cython.bint
    if not cython.compiled:
        found, span = [0], [0, 0]
        if not fill_body_spans(source.at, size, most, tag_max, node_max, table.at, found, span):
            return None
        return table.as_bytes()[: SPAN_BYTES * found[0]], span[0], span[1]
    count: int64_t = 0
    array: int64_t[2]
    counter: cython.pointer[int64_t] = cython.address(count)
    array[0] = array[1] = 0
    if size >= NOGIL_BYTES_MIN:
        with cython.nogil:
            is_plain = fill_body_spans(
                source.at, size, most, tag_max, node_max, table.at, counter, array
            )
    else:
        is_plain = fill_body_spans(
            source.at, size, most, tag_max, node_max, table.at, counter, array
        )
    if not is_plain:
        return None
    return table.owner[: SPAN_BYTES * count], array[0], array[1]


# --- Sizes and frames -----------------------------------------------------------------------------


def check_spans(size, table, i):
    """Does entry `i` lie inside a buffer of `size` bytes?"""
    row: int64_t = SPAN_BYTES * i
    start: int64_t
    span: int64_t
    for span in range(3):
        start = u32(table, row + 2 * OFFSET_BYTES * span)
        if start + u32(table, row + 2 * OFFSET_BYTES * span + SPAN_DATA_LEN) > size:
            return False
    return (
        u32(table, row + SPAN_TAG_LEN) <= LABEL_BYTES_MAX
        and u32(table, row + SPAN_NODE_LEN) <= LABEL_BYTES_MAX
    )


def span_sizes(table):
    """(payload bytes, payload bytes of the largest record) of the records in a table."""
    rows: HeldBuffer = HeldBuffer(table)
    i: int64_t
    size: int64_t
    total: int64_t = 0
    largest: int64_t = 0
    for i in range(rows.size // SPAN_BYTES):
        size = u32(rows.at, SPAN_BYTES * i + SPAN_DATA_LEN)
        total += size
        if size > largest:
            largest = size
    return total, largest


def fill_span_frames(
    out, at, base, offsets, first, p, table, count, node, topic_id, seq, ts, flags
):
    """Write the frames of the records of a table at `at`, as `fill_appends` does; returns where
    they end. The first of them is record number `first`."""
    i: int64_t
    row: int64_t
    one: RecordParts
    one.meta.at = cython.NULL
    one.meta.size = 0
    for i in range(count):
        row = SPAN_BYTES * i
        one.data.at = p + u32(table, row + SPAN_DATA)
        one.data.size = u32(table, row + SPAN_DATA_LEN)
        one.tag.at = p + u32(table, row + SPAN_TAG)
        one.tag.size = u32(table, row + SPAN_TAG_LEN)
        one.node.at = p + u32(table, row + SPAN_NODE)
        one.node.size = u32(table, row + SPAN_NODE_LEN)
        if one.node.size == 0:
            one.node = node[0]
        put32(offsets, OFFSET_BYTES * (first + i), at - base)
        at = put_append(out, at, cython.address(one), topic_id, seq + first + i, ts, flags)
    return at


def encode_spans(
    topic_id: uint64_t,
    first_seq: uint64_t,
    ts: uint64_t,
    flags: cython.int,
    texts,
    tables,
    node,
    batch_key=None,
):
    """The same as `encode_appends`, for records that lie in several texts, each with its table.
    `node` is the node of records without one. ValueError when a record lies outside its text or a
    label does not fit a frame."""
    if len(texts) != len(tables):
        raise ValueError(f"{len(tables)} tables for {len(texts)} texts")
    sources: list = [HeldBuffer(item) for item in texts]
    rows: list = [HeldBuffer(item) for item in tables]
    source: HeldBuffer
    table: HeldBuffer
    parts: int64_t = len(rows)
    part: int64_t
    i: int64_t
    for part in range(parts):
        source = sources[part]
        table = rows[part]
        for i in range(table.size // SPAN_BYTES):
            if not check_spans(source.size, table.at, i):
                raise ValueError(f"record {i}: its texts are not inside the buffer")
    if not cython.compiled:
        return encode_spans_interpreted(
            topic_id, first_seq, ts, flags, sources, rows, node, batch_key
        )
    default_node: TextSpan = text_of(node, "node", 0)
    check_label(default_node.size, "node", 0)
    key: TextSpan = text_of(batch_key, "batch key", 0)
    check_label(key.size, "batch key", 0)
    row: int64_t
    node_size: int64_t
    base: int64_t = 0
    count: int64_t = 0
    payload: int64_t = 0
    total: int64_t = batch_start_bytes(batch_key)
    for part in range(parts):
        table = rows[part]
        for i in range(table.size // SPAN_BYTES):
            row = SPAN_BYTES * i
            node_size = u32(table.at, row + SPAN_NODE_LEN)
            payload += u32(table.at, row + SPAN_DATA_LEN)
            total += u32(table.at, row + SPAN_TAG_LEN)
            total += node_size if node_size else default_node.size
        count += table.size // SPAN_BYTES
    if count and first_seq + cython.cast(uint64_t, count) - 1 < first_seq:
        raise OverflowError("the last seq does not fit 64 bits")
    total += payload + (FRAME_BYTES_MIN + BODY_EXTRA_BYTES) * count
    check_total(total)
    frames: OutputBuffer = OutputBuffer(total)
    offsets: OutputBuffer = OutputBuffer(OFFSET_BYTES * count)
    nodes: cython.pointer[TextSpan] = cython.address(default_node)
    if batch_key is not None:
        base = put_batch_start(frames.at, topic_id, first_seq, ts, key, count)
    at: int64_t = base
    done: int64_t = 0
    for part in range(parts):
        source = sources[part]
        table = rows[part]
        count = table.size // SPAN_BYTES
        if source.size >= NOGIL_BYTES_MIN:
            with cython.nogil:
                at = fill_span_frames(
                    frames.at, at, base, offsets.at, done, source.at, table.at, count, nodes,
                    topic_id, first_seq, ts, flags,
                )  # fmt: skip
        else:
            at = fill_span_frames(
                frames.at, at, base, offsets.at, done, source.at, table.at, count, nodes,
                topic_id, first_seq, ts, flags,
            )  # fmt: skip
        done += count
    return frames.owner, offsets.owner, payload


if not cython.compiled:
    from struct import Struct

    SPANS = Struct("<IIIIII")

    def encode_spans_interpreted(topic_id, first_seq, ts, flags, sources, rows, node, batch_key):
        datas, tags, nodes = [], [], []
        for source, held in zip(sources, rows, strict=True):
            buf = bytes(source.at)
            table = held.at[: held.size // SPAN_BYTES * SPAN_BYTES]
            for data, data_size, tag, tag_size, own, own_size in SPANS.iter_unpack(table):
                datas.append(buf[data : data + data_size])
                tags.append(buf[tag : tag + tag_size] or None)
                nodes.append(buf[own : own + own_size] or None)
        return encode_appends_interpreted(
            topic_id, first_seq, ts, flags, datas, None, tags, nodes, None, node, batch_key
        )
