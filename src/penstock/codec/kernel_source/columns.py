"""From frames to columns in the layout of Arrow."""

from __future__ import annotations

from penstock.codec.kernel_source import cython_shim as cython
from penstock.codec.kernel_source.frame import data_start, meta_bytes_of, tag_matches
from penstock.codec.kernel_source.frame_encoding import text_of
from penstock.codec.kernel_source.frame_table import bitmap, check_range
from penstock.codec.kernel_source.json_pages import deliverable_at
from penstock.codec.kernel_source.layout import (
    BODY_EXTRA_BYTES,
    BODY_EXTRA_BYTES_WITH_META,
    BODY_KEY_BYTES,
    FRAME_DATA_LEN,
    FRAME_HEADER_BYTES,
    FRAME_NODE_LEN,
    FRAME_SEQ,
    FRAME_TAG_LEN,
    FRAME_TS,
    NUMBER_BYTES,
    OFFSET_BYTES,
)
from penstock.codec.kernel_source.memory import (
    HeldBuffer,
    OutputBuffer,
    check_u64,
    clear,
    copy,
    put32,
    put64,
    u16,
    u32,
    u64,
)
from penstock.codec.kernel_source.statuses import ABSENT, MALFORMED, VERIFY
from penstock.codec.kernel_source.thresholds import COLUMN_BYTES_MAX, COLUMN_COUNT


def select_records(page, starts, metas, sums):
    """Select the records of a page: where each starts, the bytes of its meta, and the sums of the
    bytes of nodes, tags, metas and data."""
    start: int64_t
    meta: int64_t
    node_size: int64_t
    tag_size: int64_t
    data_size: int64_t
    while page.i < page.i1 and page.delivered < page.limit:
        start = deliverable_at(page)
        if start == -ABSENT:
            page.i += 1
            continue
        if start < 0:
            page.status = -start
            return
        node_size = u16(page.frames, start + FRAME_NODE_LEN)
        tag_size = u16(page.frames, start + FRAME_TAG_LEN)
        data_size = u32(page.frames, start + FRAME_DATA_LEN)
        if page.has_tag and not tag_matches(
            page.frames, start, page.tag.at, page.tag.size, page.tag_prefix
        ):
            page.i += 1
            continue
        meta = meta_bytes_of(
            page.frames, start + FRAME_HEADER_BYTES + node_size + tag_size, data_size
        )
        if meta < 0:
            page.status = MALFORMED
            return
        data_size -= BODY_EXTRA_BYTES_WITH_META + meta if meta else BODY_EXTRA_BYTES
        page.used += node_size + tag_size + meta + data_size
        if page.used > page.budget and page.delivered:
            return
        starts[page.delivered] = start
        metas[page.delivered] = meta
        sums[0] += node_size
        sums[1] += tag_size
        sums[2] += meta
        sums[3] += data_size
        page.delivered += 1
        page.i += 1


def text_start(page, which, start, meta):
    """Where node, tag, meta or data of the record at `start` begins."""
    p: ReadPointer = page.frames
    at: int64_t = start + FRAME_HEADER_BYTES
    if which == 0:
        return at
    at += u16(p, start + FRAME_NODE_LEN)
    if which == 1:
        return at
    at += u16(p, start + FRAME_TAG_LEN)
    if which == 2:
        return at + BODY_KEY_BYTES
    return data_start(at, meta)


def text_size(page, which, start, meta):
    """The bytes of node, tag, meta or data of the record at `start`."""
    p: ReadPointer = page.frames
    size: int64_t
    if which == 0:
        return u16(p, start + FRAME_NODE_LEN)
    if which == 1:
        return u16(p, start + FRAME_TAG_LEN)
    if which == 2:
        return meta
    size = u32(p, start + FRAME_DATA_LEN)
    return size - (BODY_EXTRA_BYTES_WITH_META + meta if meta else BODY_EXTRA_BYTES)


def fill_texts(page, which, starts, metas, offsets, texts, bits):
    """Write one column: offsets, bytes, and a bit for each record that has a text."""
    i: int64_t
    at: int64_t = 0
    size: int64_t
    put32(offsets, 0, 0)
    for i in range(page.delivered):
        size = text_size(page, which, starts[i], metas[i])
        if size:
            copy(texts, at, page.frames, text_start(page, which, starts[i], metas[i]), size)
            bits[i >> 3] |= 1 << (i & 7)
        at += size
        put32(offsets, OFFSET_BYTES * (i + 1), at)


def fill_numbers(page, starts, seqs, tss):
    """Write the columns of seqs and times."""
    i: int64_t
    for i in range(page.delivered):
        put64(seqs, NUMBER_BYTES * i, u64(page.frames, starts[i] + FRAME_SEQ))
        put64(tss, NUMBER_BYTES * i, u64(page.frames, starts[i] + FRAME_TS))


def columns(
    buf,
    offsets,
    stride: int64_t,
    i0: int64_t,
    i1: int64_t,
    dead,
    limit: int64_t,
    budget: int64_t,
    wanted: cython.int,
    first_seq: uint64_t,
    topic_id: uint64_t,
    tag=None,
    prefix: cython.bint = False,
):
    """Records i0..i1-1 column by column, as Arrow lays them out: (count, next i, status, seqs,
    tss, texts).

    Numbers are 8 bytes each. `texts` has an entry for node, tag, meta and data in this order:
    (offsets of 4 bytes, bytes, bits), None for one that is not `wanted` (1 node, 2 tag, 4 meta,
    8 data). A bit is set when the record has such a text. Every frame is verified, unless the
    topic is 0: then the caller has verified them, and their seqs need not be consecutive. Skipped
    records, limit and status are as in `project`; the budget counts the bytes of all texts.
    """
    if not cython.compiled:
        check_u64(first_seq, topic_id)
    frames: HeldBuffer = HeldBuffer(buf)
    table: HeldBuffer = HeldBuffer(offsets)
    bits: HeldBuffer = bitmap(dead)
    check_range(table, stride, i0, i1)
    if tag is not None and not isinstance(tag, bytes):
        raise TypeError(f"tag is {tag.__class__.__name__}, not bytes")
    most: int64_t = max(0, min(i1 - i0, limit))
    budget = min(budget, COLUMN_BYTES_MAX)
    if not cython.compiled:
        fixed = i0, i1, bits, most, budget, wanted, first_seq, topic_id
        return columns_interpreted(frames, table, stride, *fixed, tag, prefix)
    page: PageState
    memset(cython.address(page), 0, cython.sizeof(PageState))
    workspace: OutputBuffer = OutputBuffer((2 * most + COLUMN_COUNT) * cython.sizeof(int64_t))
    sums: cython.pointer[int64_t] = cython.cast(cython.pointer[int64_t], workspace.at)
    starts: cython.pointer[int64_t] = sums + COLUMN_COUNT
    metas: cython.pointer[int64_t] = starts + most
    memset(sums, 0, COLUMN_COUNT * cython.sizeof(int64_t))
    page.frames, page.size = frames.at, frames.size
    page.table, page.stride = table.at, stride
    page.dead, page.dead_size = bits.at, bits.size
    page.i, page.i1, page.limit, page.budget = i0, i1, most, budget
    page.options, page.first_seq, page.topic_id = VERIFY if topic_id else 0, first_seq, topic_id
    page.has_tag, page.tag_prefix = tag is not None, prefix
    page.tag = text_of(tag, "tag", 0)
    with cython.nogil:
        select_records(cython.address(page), starts, metas, sums)
    count: int64_t = page.delivered
    seqs: OutputBuffer = OutputBuffer(NUMBER_BYTES * count)
    tss: OutputBuffer = OutputBuffer(NUMBER_BYTES * count)
    fill_numbers(cython.address(page), starts, seqs.at, tss.at)
    texts: list = [None] * COLUMN_COUNT
    which: cython.int
    places: OutputBuffer
    found: OutputBuffer
    there: OutputBuffer
    for which in range(COLUMN_COUNT):
        if (wanted >> which) & 1:
            places = OutputBuffer(OFFSET_BYTES * (count + 1))
            found = OutputBuffer(sums[which])
            there = OutputBuffer((count + 7) // 8)
            clear(there.at, 0, (count + 7) // 8)
            with cython.nogil:
                fill_texts(
                    cython.address(page), which, starts, metas, places.at, found.at, there.at
                )
            texts[which] = (places.owner, found.owner, there.owner)
    return count, page.i, page.status, seqs.owner, tss.owner, texts


if not cython.compiled:

    def columns_interpreted(
        frames,
        table,
        stride,
        i0,
        i1,
        bits,
        most,
        budget,
        wanted,
        first_seq,
        topic_id,
        tag,
        prefix,
    ):
        page = InterpretedPage()
        page.frames, page.size = frames.at, frames.size
        page.table, page.stride = table.at, stride
        page.dead, page.dead_size = bits.at, bits.size
        page.i, page.i1, page.limit, page.budget = i0, i1, most, budget
        page.options, page.first_seq, page.topic_id = VERIFY if topic_id else 0, first_seq, topic_id
        page.has_tag, page.tag_prefix = tag is not None, prefix
        page.tag = TagPattern(tag)
        starts, metas, sums = [0] * most, [0] * most, [0] * COLUMN_COUNT
        select_records(page, starts, metas, sums)
        count = page.delivered
        seqs, tss = bytearray(NUMBER_BYTES * count), bytearray(NUMBER_BYTES * count)
        fill_numbers(page, starts, seqs, tss)
        texts = [None] * COLUMN_COUNT
        for which in range(COLUMN_COUNT):
            if (wanted >> which) & 1:
                places, found = bytearray(OFFSET_BYTES * (count + 1)), bytearray(sums[which])
                there = bytearray((count + 7) // 8)
                fill_texts(page, which, starts, metas, places, found, there)
                texts[which] = (bytes(places), bytes(found), bytes(there))
        return count, page.i, page.status, bytes(seqs), bytes(tss), texts

    class InterpretedPage:
        """An object with the fields of the struct PageState."""

        delivered = used = status = 0

    class TagPattern:
        """The tag to look for, with its size."""

        def __init__(self, tag):
            self.at = tag or b""
            self.size = len(self.at)
