"""Records as a JSON page: from frames to the objects of one answer."""

from __future__ import annotations

from penstock.codec.kernel_source import cython_shim as cython
from penstock.codec.kernel_source.characters import CLOSE_BRACKET, OPEN_BRACKET
from penstock.codec.kernel_source.frame import (
    HEADER,
    checksum_holds,
    data_start,
    meta_bytes_of,
    tag_matches,
)
from penstock.codec.kernel_source.frame_encoding import text_of
from penstock.codec.kernel_source.frame_table import bitmap, check_range, live_at
from penstock.codec.kernel_source.json_record import put_object
from penstock.codec.kernel_source.layout import (
    APPEND,
    BODY_KEY_BYTES,
    CHECKSUM_BYTES,
    FRAME_DATA_LEN,
    FRAME_HEADER_BYTES,
    FRAME_LEN_BYTES,
    FRAME_NODE_LEN,
    FRAME_SEQ,
    FRAME_TAG_LEN,
    FRAME_TOPIC_ID,
    FRAME_TYPE,
)
from penstock.codec.kernel_source.memory import (
    U64,
    HeldBuffer,
    OutputBuffer,
    check_u64,
    copy,
    grow,
    u16,
    u32,
    u64,
)
from penstock.codec.kernel_source.statuses import (
    ABSENT,
    ARRAY,
    CHECKSUM,
    CLEAN,
    DOLLAR,
    FRAMES,
    MALFORMED,
    OTHER_RECORD,
    VERIFY,
    WITH_DATA,
    WITH_META,
    WITH_TAG,
)
from penstock.codec.kernel_source.thresholds import NOGIL_RECORDS_MIN, WORKSPACE_KEPT_BYTES_MAX

if not cython.compiled:
    import re

    from xxhash import xxh3_64_intdigest

    UNSAFE = re.compile(rb'["\\\x00-\x1f]')
    ESCAPES = {bytes([c]): b"\\u%04x" % c for c in range(32)}
    ESCAPES |= {b"\b": b"\\b", b"\t": b"\\t", b"\n": b"\\n", b"\f": b"\\f", b"\r": b"\\r"}
    ESCAPES |= {b'"': b'\\"', b"\\": b"\\\\"}


def is_among(nodes, count, p, start, size):
    """Is this text one of the nodes?"""
    i: int64_t
    for i in range(count):
        if nodes[i].size == size and memcmp(nodes[i].at, p + start, size) == 0:
            return True
    return False


def deliverable_at(page):
    """Where the current record of the page starts if it can be delivered, or a negative reason."""
    start: int64_t = live_at(
        page.frames, page.size, page.table, page.stride, page.dead, page.dead_size, page.i
    )
    number: uint64_t = page.i
    if start < 0 or not page.options & VERIFY:
        return start
    if not checksum_holds(page.frames, start):
        return -CHECKSUM
    if (
        page.frames[start + FRAME_TYPE] != APPEND
        or u64(page.frames, start + FRAME_TOPIC_ID) != page.topic_id
        or u64(page.frames, start + FRAME_SEQ) != page.first_seq + number
    ):
        return -OTHER_RECORD
    return start


def fill_page(page):
    """Write records into the page until a limit is reached or a record cannot be read."""
    start: int64_t
    meta: int64_t
    end: int64_t
    needed: int64_t
    node_size: int64_t
    tag_size: int64_t
    data_size: int64_t
    frame_size: int64_t
    fresh: cython.p_void
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
        if node_size and is_among(
            page.nodes, page.node_count, page.frames, start + FRAME_HEADER_BYTES, node_size
        ):
            page.i += 1
            continue
        if page.has_tag and not tag_matches(
            page.frames, start, page.tag.at, page.tag.size, page.tag_prefix
        ):
            page.i += 1
            continue
        meta = 0
        if page.options & (WITH_META | WITH_DATA | FRAMES):
            meta = meta_bytes_of(
                page.frames, start + FRAME_HEADER_BYTES + node_size + tag_size, data_size
            )
            if meta < 0:
                page.status = MALFORMED
                return
        # Names, numbers and punctuation take less than 128 bytes, an escaped byte at most 6.
        needed = page.used + 128 + 6 * (node_size + tag_size) + data_size
        if needed > page.capacity:
            fresh = grow(page.out, cython.address(page.capacity), needed, 1)
            if fresh == cython.NULL:
                page.out_of_memory = True
                return
            page.out = cython.cast(WritePointer, fresh)
        if page.options & FRAMES:
            frame_size = u32(page.frames, start)
            frame_size += FRAME_LEN_BYTES
            copy(page.out, page.used, page.frames, start, frame_size)
            end = page.used + frame_size
        else:
            end = put_object(page, page.used, start, meta)
        if end > page.budget and page.delivered:
            return
        page.used = end
        page.delivered += 1
        page.i += 1


def acquire_workspace():
    """The workspace of the last page, unless another call uses it. Allocating new memory for each
    page would cost more than filling it."""
    global spare_workspace
    workspace: WritePointer = spare_workspace
    spare_workspace = cython.NULL
    return workspace


def release_workspace(workspace, capacity):
    """Keep the workspace for the next page, or free it."""
    global spare_workspace, spare_workspace_bytes
    if spare_workspace == cython.NULL and capacity <= WORKSPACE_KEPT_BYTES_MAX:
        spare_workspace, spare_workspace_bytes = workspace, capacity
    else:
        free(workspace)


def project(
    buf,
    offsets,
    stride: int64_t,
    i0: int64_t,
    i1: int64_t,
    dead,
    nodes,
    limit: int64_t,
    budget: int64_t,
    options: cython.int,
    first_seq: uint64_t,
    topic_id: uint64_t,
    tag=None,
    prefix: cython.bint = False,
):
    """Records i0..i1-1 as JSON objects joined by commas: (json, delivered, next i, status).

    Skips records that are absent, that are marked in `dead`, that one of `nodes` wrote, and whose
    tag is not `tag` (with `prefix`: does not start with it). Stops after `limit` records, or
    before the object that would exceed `budget` bytes, unless it is the first.
    Options: 1 tag, 2 meta, 4 data, 8 names with a dollar, 16 verify each frame and that it is the
    Append of seq first_seq + i in this topic, 32 put brackets around it all, 64 the frames
    themselves, back to back, instead of JSON. Status: 0, or why record `next i` cannot be given:
    1 to 3 as in `scan`, 4 it is not the expected record.
    """
    if not cython.compiled:
        check_u64(first_seq, topic_id)
    frames: HeldBuffer = HeldBuffer(buf)
    table: HeldBuffer = HeldBuffer(offsets)
    bits: HeldBuffer = bitmap(dead)
    check_range(table, stride, i0, i1)
    held: tuple = () if nodes is None else tuple(nodes)
    for node in held:
        if not isinstance(node, bytes):
            raise TypeError(f"node is {node.__class__.__name__}, not bytes")
    if tag is not None and not isinstance(tag, bytes):
        raise TypeError(f"tag is {tag.__class__.__name__}, not bytes")
    if not cython.compiled:
        match = tag, prefix
        fixed = limit, budget, options, first_seq, topic_id
        return project_interpreted(frames, table, stride, i0, i1, bits, held, match, *fixed)
    page: PageState
    i: int64_t
    memset(cython.address(page), 0, cython.sizeof(PageState))
    workspace: OutputBuffer = OutputBuffer(len(held) * cython.sizeof(TextSpan))
    page.nodes = cython.cast(cython.pointer[TextSpan], workspace.at)
    page.node_count = len(held)
    for i in range(page.node_count):
        page.nodes[i] = text_of(held[i], "node", i)
    page.frames, page.size = frames.at, frames.size
    page.table, page.stride = table.at, stride
    page.dead, page.dead_size = bits.at, bits.size
    page.i, page.i1, page.limit, page.budget = i0, i1, limit, budget
    page.options, page.first_seq, page.topic_id = options, first_seq, topic_id
    page.has_tag, page.tag_prefix = tag is not None, prefix
    page.tag = text_of(tag, "tag", 0)
    page.out = acquire_workspace()
    page.capacity = spare_workspace_bytes if page.out != cython.NULL else 0
    try:
        if (i1 - i0 if page.has_tag else min(i1 - i0, limit)) >= NOGIL_RECORDS_MIN:
            with cython.nogil:
                fill_page(cython.address(page))
        else:
            fill_page(cython.address(page))
        if page.out_of_memory:
            raise MemoryError
        if options & ARRAY and not options & FRAMES:
            array: OutputBuffer = OutputBuffer(page.used + 2)
            array.at[0] = OPEN_BRACKET
            if page.used:
                memcpy(array.at + 1, page.out, page.used)
            array.at[page.used + 1] = CLOSE_BRACKET
            text = array.owner
        else:
            text = PyBytes_FromStringAndSize(cython.cast(cython.p_char, page.out), page.used)
        return text, page.delivered, page.i, page.status
    finally:
        release_workspace(page.out, page.capacity)


if not cython.compiled:

    def escaped(text):
        text = bytes(text)
        return UNSAFE.sub(lambda found: ESCAPES[found[0]], text) if UNSAFE.search(text) else text

    def project_interpreted(
        frames,
        table,
        stride,
        i0,
        i1,
        dead,
        nodes,
        match,
        limit,
        budget,
        options,
        first_seq,
        topic_id,
    ):
        p = frames.at
        pattern, prefix = match
        head = b'{"$seq":%d,"$ts":%d' if options & DOLLAR else b'{"seq":%d,"ts":%d'
        node_name = b',"$node":"%b"' if options & DOLLAR else b',"node":"%b"'
        tag_name = b',"$tag":"%b"' if options & DOLLAR else b',"tag":"%b"'
        texts = []
        used = 0 if options & FRAMES else -1  # the first object has no comma before it
        status = CLEAN
        i = i0
        while i < i1 and len(texts) < limit:
            start = live_at(p, frames.size, table.at, stride, dead.at, dead.size, i)
            if start == -ABSENT:
                i += 1
                continue
            if start < 0:
                status = -start
                break
            _, kind, _, topic, seq, ts, node_size, tag_size, size = HEADER.unpack_from(p, start)
            tag_at = start + FRAME_HEADER_BYTES + node_size
            body = tag_at + tag_size
            end = body + size
            if options & VERIFY:
                if (
                    xxh3_64_intdigest(p[start + FRAME_LEN_BYTES : end])
                    != U64.unpack_from(p, end)[0]
                ):
                    status = CHECKSUM
                    break
                if kind != APPEND or topic != topic_id or seq != first_seq + i:
                    status = OTHER_RECORD
                    break
            if node_size and p[start + FRAME_HEADER_BYTES : tag_at] in nodes:
                i += 1
                continue
            if pattern is not None and not tag_matches(p, start, pattern, len(pattern), prefix):
                i += 1
                continue
            if options & FRAMES:
                if meta_bytes_of(p, body, size) < 0:
                    status = MALFORMED
                    break
                text = bytes(p[start : end + CHECKSUM_BYTES])
                if used + len(text) > budget and texts:
                    break
                used += len(text)
                texts.append(text)
                i += 1
                continue
            text = head % (seq, ts)
            if node_size:
                text += node_name % escaped(p[start + FRAME_HEADER_BYTES : tag_at])
            if tag_size and options & WITH_TAG:
                text += tag_name % escaped(p[tag_at:body])
            if options & (WITH_META | WITH_DATA):
                meta = meta_bytes_of(p, body, size)
                if meta < 0:
                    status = MALFORMED
                    break
                meta_at = body + BODY_KEY_BYTES
                if meta and options & WITH_META:
                    text += b',"meta":%b' % p[meta_at : meta_at + meta]
                if options & WITH_DATA:
                    text += b',"data":%b' % p[data_start(body, meta) : end - 1]
            text += b"}"
            if used + 1 + len(text) > budget and texts:
                break
            used += 1 + len(text)
            texts.append(text)
            i += 1
        if options & FRAMES:
            return b"".join(texts), len(texts), i, status
        joined = b",".join(texts)
        return b"[%b]" % joined if options & ARRAY else joined, len(texts), i, status
