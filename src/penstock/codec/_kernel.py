# ruff: noqa: F821
# (Names of C types and C functions come from _kernel.pxd, which a linter does not read.)
"""The per-record inner loops: encode, scan and project frames, and little else.

One source, two forms. Compiled by Cython it works on pointers and releases the GIL; interpreted it
gives the same bytes, more slowly, with `struct` and `xxhash`. Where one text cannot serve both, a
function has two bodies and says so with `cython.compiled`. `kernel.py` chooses the form.

Frames may come from a damaged disk: no function reads outside the buffers it was given, whatever
the bytes. `scan` and `project` return damage as a value. The others raise ValueError naming the
record when a frame does not lie whole inside the buffer, and IndexError when a range of records
leaves the offset table. The layout is in docs/format/frame.md.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from penstock.codec import _shadow as cython

COMPILED = bool(cython.compiled)

if not cython.compiled:
    import re
    from itertools import accumulate as sums
    from struct import Struct

    from xxhash import xxh3_64_intdigest

    CLEAN, TORN, CHECKSUM, MALFORMED, STRANGER, ABSENT = 0, 1, 2, 3, 4, 9
    WITH_TAG, WITH_META, WITH_DATA, DOLLAR, VERIFY, ARRAY, FRAMES = 1, 2, 4, 8, 16, 32, 64
    DATA_FIRST, META_FIRST, DATA_NEXT = 0x2264227B, 0x226D227B, 0x2264222C

    HEADER = Struct("<IBBQQQHHI")
    HEADER_AND_KEY = Struct("<IBxQQQHHI5s")  # and the start of a body without node and tag
    TAIL = Struct("<BQ")  # the last byte of a body, and the checksum
    COVERED = Struct("<BBQQQHHI")  # the header without its first field
    BETWEEN = Struct("<QI")
    ENTRY = Struct("<IIQIB3x")
    U16, U32, U64 = Struct("<H"), Struct("<I"), Struct("<Q")
    DEPTH_MAX = 128  # limits.JSON_DEPTH_MAX
    TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|["\[\]{},]', re.DOTALL)
    NO_BRACKETS = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[^\[\]{}"]++', re.DOTALL)
    NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
    STEPS = {91: 1, 123: 1, 93: -1, 125: -1}
    UNSAFE = re.compile(rb'["\\\x00-\x1f]')
    ESCAPES = {bytes([c]): b"\\u%04x" % c for c in range(32)}
    ESCAPES |= {b"\b": b"\\b", b"\t": b"\\t", b"\n": b"\\n", b"\f": b"\\f", b"\r": b"\\r"}
    ESCAPES |= {b'"': b'\\"', b"\\": b"\\\\"}

    def u16(p, at):
        return U16.unpack_from(p, at)[0]

    def u32(p, at):
        return U32.unpack_from(p, at)[0]

    def u64(p, at):
        return U64.unpack_from(p, at)[0]

    def put32(out, at, value):
        U32.pack_into(out, at, value)

    def put64(out, at, value):
        U64.pack_into(out, at, value)

    def copy(out, at, p, start, size):
        out[at : at + size] = p[start : start + size]

    def clear(out, at, size):
        out[at : at + size] = bytes(size)

    def letters_end(p, at, end):
        while at < end and 32 <= p[at] < 128 and p[at] != 34 and p[at] != 92:
            at += 1
        return at

    def check_u64(*numbers):
        for number in numbers:
            if not 0 <= number < 1 << 64:
                raise OverflowError(f"{number} does not fit 64 bits without a sign")


class View:
    """A buffer held open. `at` is where it starts; interpreted, the buffer itself."""

    def __init__(self, source):
        if cython.compiled:
            PyObject_GetBuffer(source, cython.address(self.raw), PyBUF_SIMPLE)
            self.at = cython.cast(Bytes, self.raw.buf)
            self.size = self.raw.len
        else:
            self.at = source if isinstance(source, bytes) else memoryview(source).cast("B")
            self.size = len(self.at)

    def __dealloc__(self):
        if cython.compiled:
            PyBuffer_Release(cython.address(self.raw))


class Block:
    """Room of a fixed size that becomes a bytes object. Every byte must be written."""

    def __init__(self, size: int64_t):
        if cython.compiled:
            self.owner = PyBytes_FromStringAndSize(cython.NULL, size)
            self.at = cython.cast(Room, PyBytes_AS_STRING(self.owner))
        else:
            self.at = bytearray(size)

    def taken(self):
        if cython.compiled:
            return self.owner
        else:
            return bytes(self.at)


# --- XXH3-64 with seed 0 and the default secret: compiled form only -------------------------------


def short_avalanche(h):
    h = (h ^ (h >> 33)) * P64_2
    h = (h ^ (h >> 29)) * P64_3
    return h ^ (h >> 32)


def avalanche(h):
    h = (h ^ (h >> 37)) * MX_1
    return h ^ (h >> 32)


def mix16(p, at, secret_at):
    return mul128_fold64(
        u64(p, at) ^ u64(SECRET, secret_at), u64(p, at + 8) ^ u64(SECRET, secret_at + 8)
    )


def hash_to_16(p, size):
    h: uint64_t
    low: uint64_t
    high: uint64_t
    if size > 8:
        low = u64(p, 0) ^ (u64(SECRET, 24) ^ u64(SECRET, 32))
        high = u64(p, size - 8) ^ (u64(SECRET, 40) ^ u64(SECRET, 48))
        h = cython.cast(uint64_t, size) + swap64(low) + high + mul128_fold64(low, high)
        return avalanche(h)
    if size >= 4:
        high = u32(p, 0)
        h = (u32(p, size - 4) + (high << 32)) ^ (u64(SECRET, 8) ^ u64(SECRET, 16))
        h = (h ^ rotl64(h, 49) ^ rotl64(h, 24)) * MX_2
        h = (h ^ ((h >> 35) + cython.cast(uint64_t, size))) * MX_2
        return h ^ (h >> 28)
    if size > 0:
        low = p[0]
        high = p[size >> 1]
        h = (low << 16) | (high << 24) | p[size - 1] | (cython.cast(uint64_t, size) << 8)
        return short_avalanche(h ^ (u32(SECRET, 0) ^ u32(SECRET, 4)))
    return short_avalanche(u64(SECRET, 56) ^ u64(SECRET, 64))


def hash_to_128(p, size):
    h: uint64_t = cython.cast(uint64_t, size) * P64_1
    if size > 96:
        h += mix16(p, 48, 96) + mix16(p, size - 64, 112)
    if size > 64:
        h += mix16(p, 32, 64) + mix16(p, size - 48, 80)
    if size > 32:
        h += mix16(p, 16, 32) + mix16(p, size - 32, 48)
    return avalanche(h + mix16(p, 0, 0) + mix16(p, size - 16, 16))


def hash_to_240(p, size):
    h: uint64_t = cython.cast(uint64_t, size) * P64_1
    at: int64_t
    for at in range(0, 128, 16):
        h += mix16(p, at, at)
    h = avalanche(h)
    for at in range(128, size - 15, 16):
        h += mix16(p, at, at - 125)
    return avalanche(h + mix16(p, size - 16, 119))


def accumulate(acc, p, secret):
    lane: cython.int
    data: uint64_t
    key: uint64_t
    for lane in range(8):
        data = u64(p, 8 * lane)
        key = data ^ u64(secret, 8 * lane)
        acc[lane ^ 1] += data
        acc[lane] += mul32(key, key >> 32)


def hash_long(p, size):
    """Stripes of 64 bytes into eight lanes; after every 16 stripes the lanes are scrambled."""
    acc: uint64_t[8]
    h: uint64_t
    lane: cython.int
    stripe: int64_t
    at: int64_t = 0
    last: int64_t = size - 64
    acc[0], acc[1], acc[2], acc[3] = P32_3, P64_1, P64_2, P64_3
    acc[4], acc[5], acc[6], acc[7] = P64_4, P32_2, P64_5, P32_1
    while size - at > 1024:
        for stripe in range(16):
            accumulate(acc, p + at + 64 * stripe, SECRET + 8 * stripe)
        for lane in range(8):
            h = acc[lane]
            acc[lane] = (h ^ (h >> 47) ^ u64(SECRET, 128 + 8 * lane)) * P32_1
        at += 1024
    stripe = 0
    while at + 64 * stripe < last:
        accumulate(acc, p + at + 64 * stripe, SECRET + 8 * stripe)
        stripe += 1
    accumulate(acc, p + last, SECRET + 121)
    h = cython.cast(uint64_t, size) * P64_1
    for lane in range(0, 8, 2):
        h += mul128_fold64(
            acc[lane] ^ u64(SECRET, 11 + 8 * lane), acc[lane + 1] ^ u64(SECRET, 19 + 8 * lane)
        )
    return avalanche(h)


def hash64(p, at, size):
    if cython.compiled:
        if size <= 16:
            return hash_to_16(p + at, size)
        if size <= 128:
            return hash_to_128(p + at, size)
        if size <= 240:
            return hash_to_240(p + at, size)
        return hash_long(p + at, size)
    else:
        return xxh3_64_intdigest(p[at : at + size])


def xxh3_64(data) -> int:
    """XXH3-64 of a buffer, seed 0."""
    view: View = View(data)
    return hash64(view.at, 0, view.size)


# --- One frame ------------------------------------------------------------------------------------


def frame_fault(p, at, end):
    """Judge one frame by its lengths and type alone. After 0 all its fields lie inside `end`."""
    frame_len: int64_t
    parts: int64_t
    if not cython.compiled and end - at >= 46:
        # The same in one unpacking, for the usual case.
        frame_len, kind, _, _, _, _, node_size, tag_size, data_size = HEADER.unpack_from(p, at)
        parts = node_size + tag_size + data_size
        if 42 + parts == frame_len <= end - at - 4 and 0 < kind < 64:
            return CLEAN
    if end - at < 4:
        return TORN
    frame_len = u32(p, at)
    if frame_len < 42:
        return MALFORMED
    if frame_len > end - at - 4:
        return TORN
    if p[at + 4] == 0 or p[at + 4] > 63:
        return MALFORMED
    parts = u32(p, at + 34)
    parts += u16(p, at + 30) + u16(p, at + 32)
    return CLEAN if 42 + parts == frame_len else MALFORMED


def checksum_holds(p, at):
    """Only after `frame_fault` found nothing."""
    frame_len: int64_t = u32(p, at)
    return hash64(p, at + 4, frame_len - 8) == u64(p, at + frame_len - 4)


def payload_of(p, at):
    """Bytes of data and meta text in the frame at `at`; the whole body if it is not ours."""
    body: int64_t = at + 38 + u16(p, at + 30) + u16(p, at + 32)
    size: int64_t = u32(p, at + 34)
    if size < 6 or p[body + 4] != 58 or p[body + size - 1] != 125:
        return size
    if u32(p, body) == DATA_FIRST:
        return size - 6
    if u32(p, body) == META_FIRST and size >= 11:
        return size - 11
    return size


def value_end(p, at, end):
    """Where the JSON value that starts at `at` meets a comma on its own level, or -1."""
    depth: int64_t = 0
    if cython.compiled:
        c: cython.int
        while at < end:
            c = p[at]
            if c == 34:
                at += 1
                while at < end and p[at] != 34:
                    at += 2 if p[at] == 92 else 1
                if at >= end:
                    return -1
            elif c == 123 or c == 91:
                depth += 1
            elif c == 125 or c == 93:
                depth -= 1
                if depth < 0:
                    return -1
            elif c == 44 and depth == 0:
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


def meta_of(p, body, size):
    """Length of the meta text in an Append body: 0 without meta, -1 if the body is not ours."""
    close: int64_t = body + size - 1
    end: int64_t
    if size < 6 or p[body + 4] != 58 or p[close] != 125:
        return -1
    if u32(p, body) == DATA_FIRST:
        return 0
    if u32(p, body) != META_FIRST:
        return -1
    end = value_end(p, body + 5, close)
    if end <= body + 5 or close - end < 5 or u32(p, end) != DATA_NEXT or p[end + 4] != 58:
        return -1
    return end - body - 5


# --- Records by number ----------------------------------------------------------------------------


def is_dead(dead, size, i):
    return (i >> 3) < size and (dead[i >> 3] >> (i & 7)) & 1


def locate(frames, size, table, stride, i):
    """Where frame `i` starts, or why not as a negative number."""
    fault: cython.int
    frame_len: int64_t
    start: int64_t = u32(table, i * stride)
    total: int64_t = 0
    if stride >= 8:
        total = u32(table, i * stride + 4)
        if total == 0:
            return -ABSENT
    fault = frame_fault(frames, start, size)
    if fault != CLEAN:
        return -fault
    frame_len = u32(frames, start)
    if total != 0 and total != frame_len + 4:
        return -MALFORMED
    return start


def live_at(frames, size, table, stride, dead, dead_size, i):
    if dead_size and is_dead(dead, dead_size, i):
        return -ABSENT
    return locate(frames, size, table, stride, i)


def payload_at(frames, size, table, stride, i):
    """Payload bytes of record `i`, or a negative reason. A segment index entry tells them."""
    start: int64_t
    if stride >= 24:
        if u32(table, i * stride + 4) == 0:
            return -ABSENT
        return u32(table, i * stride + 16)
    start = locate(frames, size, table, stride, i)
    return start if start < 0 else payload_of(frames, start)


def check_range(table: View, stride: int64_t, i0: int64_t, i1: int64_t):
    if stride < 4:
        raise ValueError(f"stride {stride}: an offset takes 4 bytes")
    if not 0 <= i0 <= i1 <= table.size // stride:
        raise IndexError(f"records {i0}..{i1} of an offset table of {table.size // stride}")


def damaged(i, code):
    if code == -ABSENT:
        return IndexError(f"record {i} is not there")
    return ValueError(f"record {i}: its frame does not lie whole in the buffer")


def bitmap(dead):
    return View(b"" if dead is None else dead)


# --- Encoding -------------------------------------------------------------------------------------


def put_head(out, at, kind, flags, topic_id, seq, ts, node_size, tag_size, data_size):
    put32(out, at, 42 + node_size + tag_size + data_size)
    out[at + 4] = kind
    out[at + 5] = (flags & 0xFC) | (tag_size != 0) | ((node_size != 0) << 1)
    put64(out, at + 6, topic_id)
    put64(out, at + 14, seq)
    put64(out, at + 22, ts)
    put16(out, at + 30, node_size)
    put16(out, at + 32, tag_size)
    put32(out, at + 34, data_size)
    return at + 38


def put_checksum(out, start, at):
    put64(out, at, hash64(out, start + 4, at - start - 4))
    return at + 8


def fill_appends(out, offsets, parts, count, topic_id, seq, ts, flags):
    i: int64_t
    start: int64_t
    body_size: int64_t
    at: int64_t = 0
    one: cython.pointer[Parts]
    for i in range(count):
        one = parts + i
        start = at
        put32(offsets, 4 * i, start)
        body_size = one.data.size + (6 if one.meta.size == 0 else 11 + one.meta.size)
        at = put_head(
            out, at, 1, flags, topic_id, seq + i, ts, one.node.size, one.tag.size, body_size
        )
        if one.node.size:
            copy(out, at, one.node.at, 0, one.node.size)
            at += one.node.size
        if one.tag.size:
            copy(out, at, one.tag.at, 0, one.tag.size)
            at += one.tag.size
        if one.meta.size:
            memcpy(out + at, b'{"m":', 5)
            copy(out, at + 5, one.meta.at, 0, one.meta.size)
            at += 5 + one.meta.size
            memcpy(out + at, b',"d":', 5)
        else:
            memcpy(out + at, b'{"d":', 5)
        copy(out, at + 5, one.data.at, 0, one.data.size)
        at += 5 + one.data.size
        out[at] = 125
        at = put_checksum(out, start, at + 1)


def text_of(item, what, i):
    text: Text
    if item is None:
        text.at = cython.NULL
        text.size = 0
    elif isinstance(item, bytes):
        text.at = cython.cast(Bytes, PyBytes_AS_STRING(item))
        text.size = PyBytes_GET_SIZE(item)
    else:
        raise TypeError(f"record {i}: {what} is {type(item).__name__}, not bytes")
    return text


def check_label(size: int64_t, what, i):
    if size > 65535:
        raise ValueError(f"record {i}: {what} of {size} bytes, at most 65535 fit a frame")


def column(values, count: int64_t, what):
    """The list as a tuple, which nobody can change while we hold pointers into its items."""
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
):
    """Append frames for `datas` under the seqs from `first_seq` on.

    `datas` and `metas` are JSON texts. An entry of None (or no list) means no meta, and for tags
    and nodes the default `tag` and `node`; empty is the same as absent.
    Returns the frames, the start of each as u32, and the payload bytes in all.
    """
    if not cython.compiled:
        return encode_appends_interpreted(
            topic_id, first_seq, ts, flags, datas, metas, tags, nodes, tag, node
        )
    held_datas: tuple = tuple(datas)
    count: int64_t = len(held_datas)
    held_metas: tuple = column(metas, count, "metas")
    held_tags: tuple = column(tags, count, "tags")
    held_nodes: tuple = column(nodes, count, "nodes")
    if count and first_seq + cython.cast(uint64_t, count) - 1 < first_seq:
        raise OverflowError("the last seq does not fit 64 bits")
    default_tag: Text = text_of(tag, "tag", 0)
    default_node: Text = text_of(node, "node", 0)
    check_label(default_tag.size, "tag", 0)
    check_label(default_node.size, "node", 0)
    workspace: Block = Block(count * cython.sizeof(Parts))
    parts: cython.pointer[Parts] = cython.cast(cython.pointer[Parts], workspace.at)
    one: cython.pointer[Parts]
    i: int64_t
    total: int64_t = 0
    payload: int64_t = 0
    for i in range(count):
        one = parts + i
        item = held_datas[i]
        if not isinstance(item, bytes):
            raise TypeError(f"record {i}: data is {type(item).__name__}, not bytes")
        one.data.at = cython.cast(Bytes, PyBytes_AS_STRING(item))
        one.data.size = PyBytes_GET_SIZE(item)
        one.meta.at = cython.NULL
        one.meta.size = 0
        one.tag = default_tag
        one.node = default_node
        if held_metas is not None:
            one.meta = text_of(held_metas[i], "meta", i)
        if held_tags is not None and held_tags[i] is not None:
            one.tag = text_of(held_tags[i], "tag", i)
            if one.tag.size > 65535:
                check_label(one.tag.size, "tag", i)
        if held_nodes is not None and held_nodes[i] is not None:
            one.node = text_of(held_nodes[i], "node", i)
            if one.node.size > 65535:
                check_label(one.node.size, "node", i)
        payload += one.data.size + one.meta.size
        total += 52 + one.node.size + one.tag.size + (5 if one.meta.size else 0)
    total += payload
    check_total(total)
    frames: Block = Block(total)
    offsets: Block = Block(4 * count)
    # Giving the GIL away and taking it back costs more than a small batch does.
    if total >= 65536:
        with cython.nogil:
            fill_appends(frames.at, offsets.at, parts, count, topic_id, first_seq, ts, flags)
    else:
        fill_appends(frames.at, offsets.at, parts, count, topic_id, first_seq, ts, flags)
    return frames.owner, offsets.owner, payload


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
    if not 0 < type < 64:
        raise ValueError(f"frame type {type} is not in 1..63")
    for part in (node, tag, data):
        if not isinstance(part, bytes):
            raise TypeError(f"{part.__class__.__name__} in a frame, not bytes")
    check_label(len(node), "node", 0)
    check_label(len(tag), "tag", 0)
    check_total(46 + len(node) + len(tag) + len(data))
    if cython.compiled:
        frame: Block = Block(46 + len(node) + len(tag) + len(data))
        at: int64_t
        at = put_head(frame.at, 0, type, flags, topic_id, seq, ts, len(node), len(tag), len(data))
        for part in (node, tag, data):
            copy(frame.at, at, cython.cast(Bytes, PyBytes_AS_STRING(part)), 0, len(part))
            at += len(part)
        put_checksum(frame.at, 0, at)
        return frame.owner
    else:
        check_u64(topic_id, seq, ts)
        flags = flags & 0xFC | (tag != b"") | (node != b"") << 1
        sizes = len(node), len(tag), len(data)
        covered = COVERED.pack(type, flags, topic_id, seq, ts, *sizes) + node + tag + data
        return U32.pack(len(covered) + 8) + covered + U64.pack(xxh3_64_intdigest(covered))


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
            yield b'%b{"d":%b}' % (pack(1, flags, topic_id, seq, ts, 0, 0, len(data) + 6), data)

    def covered_of(rows, flags, topic_id, first_seq, ts):
        """What the checksums cover, for any records."""
        for seq, (data, meta, tag, node) in enumerate(rows, first_seq):
            body = b'{"m":%b,"d":%b}' % (meta, data) if meta else b'{"d":%b}' % data
            both = flags | (tag != b"") | (node != b"") << 1
            sizes = len(node), len(tag), len(body)
            yield COVERED.pack(1, both, topic_id, seq, ts, *sizes) + node + tag + body

    def encode_appends_interpreted(
        topic_id, first_seq, ts, flags, datas, metas, tags, nodes, tag, node
    ):
        datas = tuple(datas)
        count = len(datas)
        check_u64(topic_id, first_seq, ts, first_seq + max(count - 1, 0))
        check_bytes(datas, "data")
        fixed = flags & 0xFC, topic_id, first_seq, ts
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
            total += 5 * sum(map(bool, metas))
            texts = covered_of(zip(datas, metas, tags, nodes, strict=True), *fixed)
        check_total(total + 52 * count)
        pieces = []
        offsets = []
        push, note, between, digest = pieces.append, offsets.append, BETWEEN.pack, xxh3_64_intdigest
        at = checksum = 0
        for covered in texts:
            note(at)
            length = len(covered) + 8
            at += length + 4
            # Between two frames lie the checksum of one and the length of the next: one packing.
            push(between(checksum, length))
            push(covered)
            checksum = digest(covered)
        if not pieces:
            return b"", b"", 0
        pieces[0] = pieces[0][8:]  # before the first frame there is no checksum
        push(U64.pack(checksum))
        return b"".join(pieces), Struct(f"<{count}I").pack(*offsets), payload


# --- Scanning -------------------------------------------------------------------------------------


def roomier(block, room, needed, width):
    """The block grown to hold `needed` items, or NULL; on NULL the old block is still good."""
    wanted: int64_t = max(needed, 2 * room[0])
    fresh: cython.p_void = realloc(block, wanted * width)
    if fresh != cython.NULL:
        room[0] = wanted
    return fresh


def take(w, p, frame_end):
    """Add the frame at `w.at`, to the last run if it continues it. False when memory ran out."""
    run: cython.pointer[Run]
    fresh: cython.p_void
    kind: uint8_t = p[w.at + 4]
    topic_id: uint64_t = u64(p, w.at + 6)
    seq: uint64_t = u64(p, w.at + 14)
    continues: cython.bint = False
    if kind == 1 and w.run_count > 0:
        run = w.runs + (w.run_count - 1)
        continues = (
            run.kind == 1
            and run.topic_id == topic_id
            and run.next_seq == seq
            and seq != 0
            and (w.at - run.start) >> 32 == 0
        )
    if not continues:
        if w.run_count == w.run_room:
            fresh = roomier(
                w.runs, cython.address(w.run_room), w.run_count + 64, cython.sizeof(Run)
            )
            if fresh == cython.NULL:
                return False
            w.runs = cython.cast(cython.pointer[Run], fresh)
        run = w.runs + w.run_count
        w.run_count += 1
        run.kind = kind
        run.topic_id = topic_id
        run.first_seq = seq
        run.first_ts = u64(p, w.at + 22)
        run.start = w.at
        run.count = 0
        run.payload = 0
        run.first_offset = w.offset_count
    run.end = frame_end
    run.count += 1
    run.next_seq = seq + 1
    run.last_ts = u64(p, w.at + 22)
    if kind == 1:
        run.payload += payload_of(p, w.at)
        if w.offset_count == w.offset_room:
            fresh = roomier(w.offsets, cython.address(w.offset_room), w.offset_count + 256, 4)
            if fresh == cython.NULL:
                return False
            w.offsets = cython.cast(Room, fresh)
        put32(w.offsets, 4 * w.offset_count, w.at - run.start)
        w.offset_count += 1
    return True


def end_of_log(p, at, end):
    """Why no frame is at `at`: CLEAN where nothing was written, else the fault; -1 if one is."""
    if end - at >= 4:
        if u32(p, at) == 0:
            return CLEAN
        fault: cython.int = frame_fault(p, at, end)
        return -1 if fault == CLEAN else fault
    while at < end:
        if p[at] != 0:
            return TORN
        at += 1
    return CLEAN


def walk(w, p, end):
    frame_end: int64_t
    while True:
        w.reason = end_of_log(p, w.at, end)
        if w.reason >= 0:
            return
        if not checksum_holds(p, w.at):
            w.reason = CHECKSUM
            return
        frame_end = w.at + 4 + u32(p, w.at)
        if not take(w, p, frame_end):
            w.out_of_memory = True
            return
        w.at = frame_end


def scan(buf, start: int64_t, end: int64_t):
    """Walk and verify frames from `start`: (items, stop offset, reason).

    An item is (type, topic_id, seq, ts, start, end, count, payload bytes, offsets, last ts).
    Neighbouring Append frames of one topic with consecutive seqs make one item, their starts
    relative to the item's start in `offsets` as u32; a control frame makes one with count 1.
    Reason: 0 clean end, 1 torn, 2 checksum differs, 3 malformed. Nothing at or after the stop
    offset was accepted.
    """
    view: View = View(buf)
    if not 0 <= start <= end <= view.size:
        raise ValueError(f"bytes {start}..{end} of a buffer of {view.size}")
    if not cython.compiled:
        return scan_interpreted(view.at, start, end)
    w: Walk
    memset(cython.address(w), 0, cython.sizeof(Walk))
    w.at = start
    i: int64_t
    run: cython.pointer[Run]
    items: list = []
    try:
        if end - start >= 65536:
            with cython.nogil:
                walk(cython.address(w), view.at, end)
        else:
            walk(cython.address(w), view.at, end)
        if w.out_of_memory:
            raise MemoryError
        for i in range(w.run_count):
            run = w.runs + i
            if run.kind == 1:
                offsets = PyBytes_FromStringAndSize(
                    cython.cast(cython.p_char, w.offsets) + 4 * run.first_offset, 4 * run.count
                )
            else:
                offsets = b""
            items.append(
                (
                    run.kind,
                    run.topic_id,
                    run.first_seq,
                    run.first_ts,
                    run.start,
                    run.end,
                    run.count,
                    run.payload,
                    offsets,
                    run.last_ts,
                )
            )
        return items, w.at, w.reason
    finally:
        free(w.runs)
        free(w.offsets)


if not cython.compiled:

    def scan_interpreted(p, at, end):
        items = []
        offsets = []
        topic = start = first_seq = first_ts = last_ts = payload = 0  # of the run being gathered
        follower = -1  # the seq that would continue it; -1 when there is no run
        is_wide = end - at >= 1 << 32
        push = offsets.append
        unpack, unpack_tail, digest = (
            HEADER_AND_KEY.unpack_from,
            TAIL.unpack_from,
            xxh3_64_intdigest,
        )

        def close_run(run_end):
            packed = Struct(f"<{len(offsets)}I").pack(*offsets)
            run = 1, topic, first_seq, first_ts, start, run_end
            items.append((*run, len(offsets), payload, packed, last_ts))
            offsets.clear()

        while end - at >= 46:
            frame_len, kind, topic_id, seq, ts, node_size, tag_size, size, key = unpack(p, at)
            stop = at + 4 + frame_len
            labels_size = node_size + tag_size
            if stop > end or 42 + labels_size + size != frame_len or not 0 < kind < 64:
                break
            last, checksum = unpack_tail(p, stop - 9)
            if digest(p[at + 4 : stop - 8]) != checksum:
                break
            if kind == 1:
                if seq != follower or topic_id != topic or (is_wide and at - start >> 32):
                    if follower >= 0:
                        close_run(at)
                    topic, start, first_seq, first_ts, payload = topic_id, at, seq, ts, 0
                push(at - start)
                follower = seq + 1
                last_ts = ts
                if last == 125 and size > 5:
                    if labels_size:
                        key = p[stop - 8 - size : stop - 3 - size]
                    if key == b'{"d":':
                        size -= 6
                    elif key == b'{"m":' and size > 10:
                        size -= 11
                payload += size
            else:
                if follower >= 0:
                    close_run(at)
                    follower = -1
                items.append((kind, topic_id, seq, ts, at, stop, 1, 0, b"", ts))
            at = stop
        if follower >= 0:
            close_run(at)
        reason = end_of_log(p, at, end)
        return items, at, CHECKSUM if reason < 0 else reason


def count_frames(buf):
    """How many frames lie end to end in `buf`, by their lengths alone."""
    view: View = View(buf)
    p: Bytes = view.at
    at: int64_t = 0
    size: int64_t
    count: int64_t = 0
    while view.size - at >= 46:
        size = u32(p, at)
        if size < 42 or size > view.size - at - 4:
            break
        at += 4 + size
        count += 1
    return count


def resync(buf, start: int64_t, end: int64_t):
    """The smallest offset from `start` on where a whole frame with a true checksum lies, or -1."""
    view: View = View(buf)
    if not 0 <= start <= end <= view.size:
        raise ValueError(f"bytes {start}..{end} of a buffer of {view.size}")
    if cython.compiled:
        p: Bytes = view.at
        with cython.nogil:
            while start + 46 <= end:
                if u64(p, start) == 0:
                    start += 5  # the next four places would begin with a length of 0 too
                elif frame_fault(p, start, end) == CLEAN and checksum_holds(p, start):
                    break
                else:
                    start += 1
        return start if start + 46 <= end else -1
    else:
        # The top byte of a length that fits, then a type: few places in garbage have both.
        top = min(end - start >> 24, 255)
        plausible = re.compile(rb"(?s)[\x00-" + re.escape(bytes([top])) + rb"][\x01-\x3f]")
        found = plausible.search(view.at, start + 3, end)
        while found:
            at = found.start() - 3
            if frame_fault(view.at, at, end) == CLEAN and checksum_holds(view.at, at):
                return at
            found = plausible.search(view.at, at + 4, end)
        return -1


# --- Projecting -----------------------------------------------------------------------------------


def put_decimal(out, at, value):
    digits: cython.uchar[20]
    left: cython.int = 20
    pair: uint64_t
    while value >= 100:
        pair = value % 100
        value = value // 100
        left -= 2
        digits[left] = PAIRS[2 * pair]
        digits[left + 1] = PAIRS[2 * pair + 1]
    if value >= 10:
        left -= 2
        digits[left] = PAIRS[2 * value]
        digits[left + 1] = PAIRS[2 * value + 1]
    else:
        left -= 1
        digits[left] = 48 + value
    memcpy(out + at, cython.address(digits[left]), 20 - left)
    return at + 20 - left


def put_escaped(out, at, p, start, size):
    """A JSON string's inside: at most six bytes for each one."""
    i: int64_t
    c: cython.uchar
    short: cython.uchar
    for i in range(start, start + size):
        c = p[i]
        if c >= 32 and c != 34 and c != 92:
            out[at] = c
            at += 1
            continue
        short = 0
        if c == 34 or c == 92:
            short = c
        elif c == 8:
            short = 98
        elif c == 9:
            short = 116
        elif c == 10:
            short = 110
        elif c == 12:
            short = 102
        elif c == 13:
            short = 114
        out[at] = 92
        if short:
            out[at + 1] = short
            at += 2
        else:
            memcpy(out + at + 1, b"u00", 3)
            out[at + 4] = 48 + (c >> 4)
            out[at + 5] = (48 if (c & 15) < 10 else 87) + (c & 15)
            at += 6
    return at


def is_among(nodes, count, p, start, size):
    i: int64_t
    for i in range(count):
        if nodes[i].size == size and memcmp(nodes[i].at, p + start, size) == 0:
            return True
    return False


def judge(page):
    """The start of the page's record if it may be delivered, or a negative reason."""
    start: int64_t = live_at(
        page.frames, page.size, page.table, page.stride, page.dead, page.dead_size, page.i
    )
    number: uint64_t = page.i
    if start < 0 or not page.options & VERIFY:
        return start
    if not checksum_holds(page.frames, start):
        return -CHECKSUM
    if (
        page.frames[start + 4] != 1
        or u64(page.frames, start + 6) != page.topic_id
        or u64(page.frames, start + 14) != page.first_seq + number
    ):
        return -STRANGER
    return start


def put_object(page, at, start, meta):
    """The record's JSON, behind a comma unless it is the first. There is room for it."""
    out: Room = page.out
    p: Bytes = page.frames
    node_size: int64_t = u16(p, start + 30)
    tag_size: int64_t = u16(p, start + 32)
    body: int64_t = start + 38 + node_size + tag_size
    body_end: int64_t = body + u32(p, start + 34) - 1
    dollar: cython.bint = page.options & DOLLAR
    if at:
        out[at] = 44
        at += 1
    if dollar:
        memcpy(out + at, b'{"$seq":', 8)
        at = put_decimal(out, at + 8, u64(p, start + 14))
        memcpy(out + at, b',"$ts":', 7)
        at = put_decimal(out, at + 7, u64(p, start + 22))
    else:
        memcpy(out + at, b'{"seq":', 7)
        at = put_decimal(out, at + 7, u64(p, start + 14))
        memcpy(out + at, b',"ts":', 6)
        at = put_decimal(out, at + 6, u64(p, start + 22))
    if node_size:
        memcpy(out + at, b',"$node":"' if dollar else b',"node":"', 9)
        if dollar:
            out[at + 9] = 34
            at += 1
        at = put_escaped(out, at + 9, p, start + 38, node_size)
        out[at] = 34
        at += 1
    if tag_size and page.options & WITH_TAG:
        memcpy(out + at, b',"$tag":"' if dollar else b',"tag":"', 8)
        if dollar:
            out[at + 8] = 34
            at += 1
        at = put_escaped(out, at + 8, p, start + 38 + node_size, tag_size)
        out[at] = 34
        at += 1
    if meta and page.options & WITH_META:
        memcpy(out + at, b',"meta":', 8)
        copy(out, at + 8, p, body + 5, meta)
        at += 8 + meta
    if page.options & WITH_DATA:
        body += 5 if meta == 0 else 10 + meta
        memcpy(out + at, b',"data":', 8)
        copy(out, at + 8, p, body, body_end - body)
        at += 8 + body_end - body
    out[at] = 125
    return at + 1


def fill_page(page):
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
        start = judge(page)
        if start == -ABSENT:
            page.i += 1
            continue
        if start < 0:
            page.status = -start
            return
        node_size = u16(page.frames, start + 30)
        tag_size = u16(page.frames, start + 32)
        data_size = u32(page.frames, start + 34)
        if node_size and is_among(page.nodes, page.node_count, page.frames, start + 38, node_size):
            page.i += 1
            continue
        if page.has_tag and not tag_matches(
            page.frames, start, page.tag.at, page.tag.size, page.tag_prefix
        ):
            page.i += 1
            continue
        meta = 0
        if page.options & (WITH_META | WITH_DATA | FRAMES):
            meta = meta_of(page.frames, start + 38 + node_size + tag_size, data_size)
            if meta < 0:
                page.status = MALFORMED
                return
        # Names, numbers and punctuation take less than 128 bytes.
        needed = page.used + 128 + 6 * (node_size + tag_size) + data_size
        if needed > page.room:
            fresh = roomier(page.out, cython.address(page.room), needed, 1)
            if fresh == cython.NULL:
                page.out_of_memory = True
                return
            page.out = cython.cast(Room, fresh)
        if page.options & FRAMES:
            frame_size = u32(page.frames, start)
            frame_size += 4
            copy(page.out, page.used, page.frames, start, frame_size)
            end = page.used + frame_size
        else:
            end = put_object(page, page.used, start, meta)
        if end > page.budget and page.delivered:
            return
        page.used = end
        page.delivered += 1
        page.i += 1


def take_spare():
    """The workspace of the last page, if nobody else has it: new memory is dear."""
    global spare_block
    block: Room = spare_block
    spare_block = cython.NULL
    return block


def give_spare(block, room):
    global spare_block, spare_bytes
    if spare_block == cython.NULL and room <= 1 << 22:
        spare_block, spare_bytes = block, room
    else:
        free(block)


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

    Records that are absent, marked in `dead`, written by one of `nodes`, or of which the tag is
    not `tag` (with `prefix`: does not start with it; no tag never does) are passed over. Stops
    after `limit` records, or before the object that would pass `budget` bytes unless it is the
    first. Options: 1 tag, 2 meta, 4 data, 8 names with a dollar, 16 verify each frame and that it
    is the Append of seq first_seq + i in this topic, 32 put brackets around it all, 64 the frames
    themselves, back to back, instead of JSON. Status: 0, or why record `next i` cannot be given:
    1 to 3 as in `scan`, 4 another record than expected.
    """
    if not cython.compiled:
        check_u64(first_seq, topic_id)
    frames: View = View(buf)
    table: View = View(offsets)
    bits: View = bitmap(dead)
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
    page: Page
    i: int64_t
    memset(cython.address(page), 0, cython.sizeof(Page))
    workspace: Block = Block(len(held) * cython.sizeof(Text))
    page.nodes = cython.cast(cython.pointer[Text], workspace.at)
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
    page.out = take_spare()
    page.room = spare_bytes if page.out != cython.NULL else 0
    try:
        if (i1 - i0 if page.has_tag else min(i1 - i0, limit)) >= 64:
            with cython.nogil:
                fill_page(cython.address(page))
        else:
            fill_page(cython.address(page))
        if page.out_of_memory:
            raise MemoryError
        if options & ARRAY and not options & FRAMES:
            array: Block = Block(page.used + 2)
            array.at[0] = 91
            if page.used:
                memcpy(array.at + 1, page.out, page.used)
            array.at[page.used + 1] = 93
            text = array.owner
        else:
            text = PyBytes_FromStringAndSize(cython.cast(cython.p_char, page.out), page.used)
        return text, page.delivered, page.i, page.status
    finally:
        give_spare(page.out, page.room)


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
            tag_at = start + 38 + node_size
            body = tag_at + tag_size
            end = body + size
            if options & VERIFY:
                if xxh3_64_intdigest(p[start + 4 : end]) != U64.unpack_from(p, end)[0]:
                    status = CHECKSUM
                    break
                if kind != 1 or topic != topic_id or seq != first_seq + i:
                    status = STRANGER
                    break
            if node_size and p[start + 38 : tag_at] in nodes:
                i += 1
                continue
            if pattern is not None and not tag_matches(p, start, pattern, len(pattern), prefix):
                i += 1
                continue
            if options & FRAMES:
                if meta_of(p, body, size) < 0:
                    status = MALFORMED
                    break
                text = bytes(p[start : end + 8])
                if used + len(text) > budget and texts:
                    break
                used += len(text)
                texts.append(text)
                i += 1
                continue
            text = head % (seq, ts)
            if node_size:
                text += node_name % escaped(p[start + 38 : tag_at])
            if tag_size and options & WITH_TAG:
                text += tag_name % escaped(p[tag_at:body])
            if options & (WITH_META | WITH_DATA):
                meta = meta_of(p, body, size)
                if meta < 0:
                    status = MALFORMED
                    break
                if meta and options & WITH_META:
                    text += b',"meta":%b' % p[body + 5 : body + 5 + meta]
                if options & WITH_DATA:
                    text += b',"data":%b' % p[body + (10 + meta if meta else 5) : end - 1]
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


# --- Columns --------------------------------------------------------------------------------------


def choose(page, starts, metas, sums):
    """Pick the records of a page, verified; where each starts, the size of its meta, and what
    all take: of nodes, tags, metas and data."""
    start: int64_t
    meta: int64_t
    node_size: int64_t
    tag_size: int64_t
    data_size: int64_t
    while page.i < page.i1 and page.delivered < page.limit:
        start = judge(page)
        if start == -ABSENT:
            page.i += 1
            continue
        if start < 0:
            page.status = -start
            return
        node_size = u16(page.frames, start + 30)
        tag_size = u16(page.frames, start + 32)
        data_size = u32(page.frames, start + 34)
        if page.has_tag and not tag_matches(
            page.frames, start, page.tag.at, page.tag.size, page.tag_prefix
        ):
            page.i += 1
            continue
        meta = meta_of(page.frames, start + 38 + node_size + tag_size, data_size)
        if meta < 0:
            page.status = MALFORMED
            return
        data_size -= 6 + (5 + meta if meta else 0)
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


def place_of_text(page, which, start, meta):
    """Where node, tag, meta or data of the record at `start` begins."""
    p: Bytes = page.frames
    at: int64_t = start + 38
    if which == 0:
        return at
    at += u16(p, start + 30)
    if which == 1:
        return at
    at += u16(p, start + 32)
    if which == 2:
        return at + 5
    return at + (10 + meta if meta else 5)


def size_of_text(page, which, start, meta):
    p: Bytes = page.frames
    size: int64_t
    if which == 0:
        return u16(p, start + 30)
    if which == 1:
        return u16(p, start + 32)
    if which == 2:
        return meta
    size = u32(p, start + 34)
    return size - (11 + meta if meta else 6)


def fill_texts(page, which, starts, metas, offsets, texts, bits):
    """One column: offsets, bytes, and a bit for each that is there."""
    i: int64_t
    at: int64_t = 0
    size: int64_t
    put32(offsets, 0, 0)
    for i in range(page.delivered):
        size = size_of_text(page, which, starts[i], metas[i])
        if size:
            copy(texts, at, page.frames, place_of_text(page, which, starts[i], metas[i]), size)
            bits[i >> 3] |= 1 << (i & 7)
        at += size
        put32(offsets, 4 * (i + 1), at)


def fill_numbers(page, starts, seqs, tss):
    i: int64_t
    for i in range(page.delivered):
        put64(seqs, 8 * i, u64(page.frames, starts[i] + 14))
        put64(tss, 8 * i, u64(page.frames, starts[i] + 22))


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
    8 data). A bit says that the record has one. Every frame is verified, unless the topic is 0:
    then somebody has done so, and they need not follow one another. Which records are left out,
    the limit and the status are as in `project`; the budget counts the bytes of all texts.
    """
    if not cython.compiled:
        check_u64(first_seq, topic_id)
    frames: View = View(buf)
    table: View = View(offsets)
    bits: View = bitmap(dead)
    check_range(table, stride, i0, i1)
    if tag is not None and not isinstance(tag, bytes):
        raise TypeError(f"tag is {tag.__class__.__name__}, not bytes")
    most: int64_t = max(0, min(i1 - i0, limit))
    budget = min(budget, 0x7FFFFFFF)
    if not cython.compiled:
        fixed = i0, i1, bits, most, budget, wanted, first_seq, topic_id
        return columns_interpreted(frames, table, stride, *fixed, tag, prefix)
    page: Page
    memset(cython.address(page), 0, cython.sizeof(Page))
    workspace: Block = Block(16 * most + 32)
    sums: cython.pointer[int64_t] = cython.cast(cython.pointer[int64_t], workspace.at)
    starts: cython.pointer[int64_t] = sums + 4
    metas: cython.pointer[int64_t] = starts + most
    memset(sums, 0, 32)
    page.frames, page.size = frames.at, frames.size
    page.table, page.stride = table.at, stride
    page.dead, page.dead_size = bits.at, bits.size
    page.i, page.i1, page.limit, page.budget = i0, i1, most, budget
    page.options, page.first_seq, page.topic_id = VERIFY if topic_id else 0, first_seq, topic_id
    page.has_tag, page.tag_prefix = tag is not None, prefix
    page.tag = text_of(tag, "tag", 0)
    with cython.nogil:
        choose(cython.address(page), starts, metas, sums)
    count: int64_t = page.delivered
    seqs: Block = Block(8 * count)
    tss: Block = Block(8 * count)
    fill_numbers(cython.address(page), starts, seqs.at, tss.at)
    texts: list = [None, None, None, None]
    which: cython.int
    places: Block
    found: Block
    there: Block
    for which in range(4):
        if (wanted >> which) & 1:
            places = Block(4 * (count + 1))
            found = Block(sums[which])
            there = Block((count + 7) // 8)
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
        page = Columns()
        page.frames, page.size = frames.at, frames.size
        page.table, page.stride = table.at, stride
        page.dead, page.dead_size = bits.at, bits.size
        page.i, page.i1, page.limit, page.budget = i0, i1, most, budget
        page.options, page.first_seq, page.topic_id = VERIFY if topic_id else 0, first_seq, topic_id
        page.has_tag, page.tag_prefix = tag is not None, prefix
        page.tag = Pattern(tag)
        starts, metas, sums = [0] * most, [0] * most, [0] * 4
        choose(page, starts, metas, sums)
        count = page.delivered
        seqs, tss = bytearray(8 * count), bytearray(8 * count)
        fill_numbers(page, starts, seqs, tss)
        texts = [None] * 4
        for which in range(4):
            if (wanted >> which) & 1:
                places, found = bytearray(4 * (count + 1)), bytearray(sums[which])
                there = bytearray((count + 7) // 8)
                fill_texts(page, which, starts, metas, places, found, there)
                texts[which] = (bytes(places), bytes(found), bytes(there))
        return count, page.i, page.status, bytes(seqs), bytes(tss), texts

    class Columns:
        """What the compiled form keeps in a Page."""

        delivered = used = status = 0

    class Pattern:
        def __init__(self, tag):
            self.at = tag or b""
            self.size = len(self.at)


# --- Looking records over -------------------------------------------------------------------------


def tag_matches(p, start, pattern, size, prefix):
    tag_size: int64_t = u16(p, start + 32)
    at: int64_t = start + 38 + u16(p, start + 30)
    if tag_size == 0 or tag_size < size or (tag_size > size and not prefix):
        return False
    if cython.compiled:
        return memcmp(p + at, pattern, size) == 0
    else:
        return p[at : at + size] == pattern


def find_tags(
    buf, offsets, stride: int64_t, i0: int64_t, i1: int64_t, dead, pattern, prefix: cython.bint
):
    """The numbers, as u32, of live records whose tag equals or starts with the pattern."""
    frames: View = View(buf)
    table: View = View(offsets)
    bits: View = bitmap(dead)
    wanted: View = View(pattern)
    check_range(table, stride, i0, i1)
    found: Block = Block(4 * (i1 - i0))
    i: int64_t
    start: int64_t = 0
    at: int64_t = 0
    with cython.nogil:
        for i in range(i0, i1):
            start = live_at(frames.at, frames.size, table.at, stride, bits.at, bits.size, i)
            if start == -ABSENT:
                continue
            if start < 0:
                break
            if tag_matches(frames.at, start, wanted.at, wanted.size, prefix):
                put32(found.at, at, i)
                at += 4
    if i1 > i0 and start < 0 and start != -ABSENT:
        raise damaged(i, start)
    return found.taken()[:at]


def measure(buf, offsets, stride: int64_t, i0: int64_t, i1: int64_t, dead):
    """(live records, their payload bytes) among i0..i1-1.

    Entries of a segment index (stride 24) carry the payload bytes, so `buf` is not read and may
    be empty. The same holds for `measure_some`.
    """
    frames: View = View(buf)
    table: View = View(offsets)
    bits: View = bitmap(dead)
    check_range(table, stride, i0, i1)
    i: int64_t
    size: int64_t = 0
    count: int64_t = 0
    payload: int64_t = 0
    with cython.nogil:
        for i in range(i0, i1):
            if is_dead(bits.at, bits.size, i):
                continue
            size = payload_at(frames.at, frames.size, table.at, stride, i)
            if size == -ABSENT:
                continue
            if size < 0:
                break
            count += 1
            payload += size
    if i1 > i0 and size < 0 and size != -ABSENT:
        raise damaged(i, size)
    return count, payload


def measure_some(buf, offsets, stride: int64_t, indices):
    """Payload bytes of the records numbered in `indices` (u32); absent ones have none."""
    frames: View = View(buf)
    table: View = View(offsets)
    numbers: View = View(indices)
    check_range(table, stride, 0, 0)
    known: int64_t = table.size // stride
    i: int64_t = 0
    at: int64_t
    size: int64_t = 0
    payload: int64_t = 0
    with cython.nogil:
        for at in range(0, numbers.size - 3, 4):
            i = u32(numbers.at, at)
            if i >= known:
                break
            size = payload_at(frames.at, frames.size, table.at, stride, i)
            if size == -ABSENT:
                continue
            if size < 0:
                break
            payload += size
    if i >= known and numbers.size >= 4:
        raise IndexError(f"record {i} of an offset table of {known}")
    if size < 0 and size != -ABSENT:
        raise damaged(i, size)
    return payload


def filter_indices(indices, start: int64_t, stop: int64_t, dead):
    """Of record numbers (u32), those in start..stop-1 that are not dead, in the same order."""
    numbers: View = View(indices)
    bits: View = bitmap(dead)
    kept: Block = Block(numbers.size)
    i: int64_t
    at: int64_t
    end: int64_t = 0
    with cython.nogil:
        for at in range(0, numbers.size - 3, 4):
            i = u32(numbers.at, at)
            if start <= i < stop and not is_dead(bits.at, bits.size, i):
                put32(kept.at, end, i)
                end += 4
    return kept.taken()[:end]


def shift_offsets(offsets, by: int64_t):
    """Every u32 of `offsets` plus `by`."""
    table: View = View(offsets)
    moved: Block = Block(table.size // 4 * 4)
    at: int64_t
    value: int64_t
    for at in range(0, table.size - 3, 4):
        value = u32(table.at, at)
        value += by
        if value < 0 or value >> 32:
            raise OverflowError(f"offset {value} does not fit 32 bits")
        put32(moved.at, at, value)
    return moved.taken()


# --- Records of one topic as records of another ---------------------------------------------------


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

    Each has come one hop further; those that have come `hops_max` hops already are left out.
    Returns the frames, the start of each as u32, the payload bytes in all, and the seqs that the
    copied records have where they come from, as u64.
    """
    frames: View = View(buf)
    p: Bytes = frames.at
    at: int64_t = 0
    size: int64_t = 0
    total: int64_t = 0
    count: int64_t = 0
    fault: cython.int = CLEAN
    with cython.nogil:
        while at < frames.size:
            fault = frame_fault(p, at, frames.size)
            if fault != CLEAN or p[at + 4] != 1:
                break
            size = u32(p, at)
            if p[at + 5] >> 4 < hops_max:
                count += 1
                total += 46 + u32(p, at + 34)
                if keep_node:
                    total += u16(p, at + 30)
                if keep_tag:
                    total += u16(p, at + 32)
            at += 4 + size
    if at != frames.size:
        raise ValueError(f"byte {at}: no whole record starts here")
    check_total(total)
    if not cython.compiled:
        check_u64(topic_id, first_seq, ts, first_seq + max(count - 1, 0))
        return readdress_interpreted(
            p, frames.size, topic_id, first_seq, ts, flags, keep_node, keep_tag, hops_max
        )
    if count and first_seq + cython.cast(uint64_t, count) - 1 < first_seq:
        raise OverflowError("the last seq does not fit 64 bits")
    copies: Block = Block(total)
    offsets: Block = Block(4 * count)
    seqs: Block = Block(8 * count)
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
            hops = p[at + 5] >> 4
            if hops < hops_max:
                node_size = u16(p, at + 30)
                tag_size = u16(p, at + 32)
                data_size = u32(p, at + 34)
                put32(offsets.at, 4 * i, start)
                put64(seqs.at, 8 * i, u64(p, at + 14))
                payload += payload_of(p, at)
                end = put_head(
                    copies.at,
                    start,
                    1,
                    flags | (hops + 1) << 4,
                    topic_id,
                    first_seq + i,
                    ts,
                    node_size if keep_node else 0,
                    tag_size if keep_tag else 0,
                    data_size,
                )
                if keep_node and keep_tag:
                    copy(copies.at, end, p, at + 38, node_size + tag_size)
                    end += node_size + tag_size
                elif keep_node:
                    copy(copies.at, end, p, at + 38, node_size)
                    end += node_size
                elif keep_tag:
                    copy(copies.at, end, p, at + 38 + node_size, tag_size)
                    end += tag_size
                copy(copies.at, end, p, at + 38 + node_size + tag_size, data_size)
                start = put_checksum(copies.at, start, end + data_size)
                i += 1
            size = u32(p, at)
            at += 4 + size
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
            frame_len, _, old, _, seq, _, node_size, tag_size, data_size = HEADER.unpack_from(p, at)
            hops = old >> 4
            if hops < hops_max:
                tag_at = at + 38 + node_size
                body = tag_at + tag_size
                node = bytes(p[at + 38 : tag_at]) if keep_node else b""
                tag = bytes(p[tag_at:body]) if keep_tag else b""
                data = bytes(p[body : body + data_size])
                copied = encode_control(
                    1, flags | (hops + 1) << 4, topic_id, first_seq + len(seqs), ts, node, tag, data
                )
                offsets.append(start)
                seqs.append(seq)
                payload += payload_of(p, at)
                copies.append(copied)
                start += len(copied)
            at += 4 + frame_len
        count = len(seqs)
        table = Struct(f"<{count}I").pack(*offsets), Struct(f"<{count}Q").pack(*seqs)
        return b"".join(copies), table[0], payload, table[1]


# --- Segment index entries ------------------------------------------------------------------------


def put_entry(out, at, offset, p, start):
    """offset u32 · frame bytes u32 · ts u64 · payload bytes u32 · flags u8 · three zeros."""
    if cython.compiled:
        put32(out, at, offset)
        put32(out, at + 4, u32(p, start) + 4)
        put64(out, at + 8, u64(p, start + 22))
        put32(out, at + 16, payload_of(p, start))
        put32(out, at + 20, p[start + 5])
    else:
        frame_len, _, flags, _, _, ts, _, _, _ = HEADER.unpack_from(p, start)
        ENTRY.pack_into(out, at, offset, frame_len + 4, ts, payload_of(p, start), flags)


def build_index(buf, offsets, count: int64_t, base: int64_t):
    """Index entries of the first `count` records, for frames that will lie from `base` on."""
    frames: View = View(buf)
    table: View = View(offsets)
    check_range(table, 4, 0, count)
    entries: Block = Block(24 * count)
    i: int64_t
    start: int64_t = 0
    if base < 0:
        raise ValueError(f"base {base} is negative")
    with cython.nogil:
        for i in range(count):
            start = locate(frames.at, frames.size, table.at, 4, i)
            if start < 0 or (base + start) >> 32:
                break
            put_entry(entries.at, 24 * i, base + start, frames.at, start)
    if start < 0:
        raise damaged(i, start)
    check_total(base + start)
    return entries.taken()


def copy_live(buf, offsets, stride: int64_t, i0: int64_t, i1: int64_t, dead, base: int64_t):
    """Frames of live records laid end to end from `base` on, and index entries for all.

    The entry of a dead or absent record is 24 zero bytes.
    """
    frames: View = View(buf)
    table: View = View(offsets)
    bits: View = bitmap(dead)
    check_range(table, stride, i0, i1)
    if base < 0:
        raise ValueError(f"base {base} is negative")
    i: int64_t
    at: int64_t = 0
    start: int64_t = 0
    size: int64_t = 0
    total: int64_t = 0
    with cython.nogil:
        for i in range(i0, i1):
            start = live_at(frames.at, frames.size, table.at, stride, bits.at, bits.size, i)
            if start >= 0:
                size = u32(frames.at, start)
                total += 4 + size
            elif start != -ABSENT:
                break
    if i1 > i0 and start < 0 and start != -ABSENT:
        raise damaged(i, start)
    check_total(base + total)
    copied: Block = Block(total)
    entries: Block = Block(24 * (i1 - i0))
    with cython.nogil:
        for i in range(i0, i1):
            start = live_at(frames.at, frames.size, table.at, stride, bits.at, bits.size, i)
            if start < 0:
                clear(entries.at, 24 * (i - i0), 24)
                continue
            size = u32(frames.at, start)
            size += 4
            if at + size > total:
                break  # someone wrote into the buffer since it was measured
            copy(copied.at, at, frames.at, start, size)
            put_entry(entries.at, 24 * (i - i0), base + at, frames.at, start)
            at += size
    if at != total:
        raise ValueError("the buffer changed while its frames were copied")
    return copied.taken(), entries.taken()


def ts_bound(index, count: int64_t, ts: uint64_t):
    """How many of the first `count` index entries lie before time `ts`.

    Times never fall from entry to entry. An entry of no record counts as its next record does.
    """
    table: View = View(index)
    check_range(table, 24, 0, count)
    low: int64_t = 0
    high: int64_t = count
    middle: int64_t
    present: int64_t
    while low < high:
        middle = (low + high) // 2
        present = middle
        while present < high and u32(table.at, 24 * present + 4) == 0:
            present += 1
        if present < high and u64(table.at, 24 * present + 8) < ts:
            low = present + 1
        else:
            high = middle
    return low


# --- Records as Python objects --------------------------------------------------------------------


def group_tags(
    buf, offsets, stride: int64_t, i0: int64_t, i1: int64_t, dead, base_index: int64_t, groups: dict
):
    """Append i - i0 + base_index as u32 to groups[tag] of each live record with a tag."""
    frames: View = View(buf)
    table: View = View(offsets)
    bits: View = bitmap(dead)
    check_range(table, stride, i0, i1)
    if base_index < 0:
        raise ValueError(f"base_index {base_index} is negative")
    check_total(base_index + i1 - i0)
    i: int64_t
    start: int64_t
    at: int64_t
    size: int64_t
    count: int64_t = 0
    word: Block = Block(4)
    for i in range(i0, i1):
        start = live_at(frames.at, frames.size, table.at, stride, bits.at, bits.size, i)
        if start < 0 and start != -ABSENT:
            raise damaged(i, start)
        size = u16(frames.at, start + 32) if start >= 0 else 0
        if size:
            at = start + 38 + u16(frames.at, start + 30)
            tag = bytes(frames.at[at : at + size])
            group = groups.get(tag)
            if group is None:
                group = groups[tag] = bytearray()
            put32(word.at, 0, i - i0 + base_index)
            group += word.at[0:4]
            count += 1
    return count


def frame_ts(buf, offsets, stride: int64_t, i: int64_t):
    """The ts of record `i`."""
    frames: View = View(buf)
    table: View = View(offsets)
    check_range(table, stride, i, i + 1)
    start: int64_t = locate(frames.at, frames.size, table.at, stride, i)
    if start < 0:
        raise damaged(i, start)
    return u64(frames.at, start + 22)


def frame_at(buf, offsets, stride: int64_t, i: int64_t):
    """Record `i` as (seq, ts, node, tag, data JSON, meta JSON or None)."""
    frames: View = View(buf)
    table: View = View(offsets)
    check_range(table, stride, i, i + 1)
    p: Bytes = frames.at
    start: int64_t = locate(p, frames.size, table.at, stride, i)
    if start < 0:
        raise damaged(i, start)
    tag: int64_t = start + 38 + u16(p, start + 30)
    body: int64_t = tag + u16(p, start + 32)
    end: int64_t = body + u32(p, start + 34)
    meta: int64_t = meta_of(p, body, end - body)
    data: int64_t = body + (10 + meta if meta else 5)
    if meta < 0:
        raise ValueError(f"record {i}: its body is neither data nor meta and data")
    return (
        u64(p, start + 14),
        u64(p, start + 22),
        bytes(p[start + 38 : tag]),
        bytes(p[tag:body]),
        bytes(p[data : end - 1]),
        bytes(p[body + 5 : body + 5 + meta]) if meta else None,
    )


# --- many JSON texts at once ----------------------------------------------------------------------


def sizes(texts: list):
    """(total, largest) bytes of the texts; (-1, 0) when one is not a bytes object."""
    if not cython.compiled:
        if set(map(type, texts)) - {bytes}:
            return -1, 0
        return sum(map(len, texts)), max(map(len, texts), default=0)
    total: int64_t = 0
    largest: int64_t = 0
    size: int64_t
    for text in texts:
        if type(text) is not bytes:
            return -1, 0
        size = len(text)
        total += size
        if size > largest:
            largest = size
    return total, largest


def string_end(p, at, end):
    """Just behind the string whose first character is at `at`, or -1: it does not end, or has
    something in it that is not plain."""
    c: cython.int
    while True:
        at = letters_end(p, at, end)
        if at >= end:
            return -1
        c = p[at]
        if c == 34:
            return at + 1
        if c != 92:
            return -1
        at += 1
        if at >= end:
            return -1
        c = p[at]
        if c == 117:  # four digits, and no surrogate
            if end - at < 5 or not (
                is_hex(p[at + 1]) and is_hex(p[at + 2]) and is_hex(p[at + 3]) and is_hex(p[at + 4])
            ):
                return -1
            if (p[at + 1] == 100 or p[at + 1] == 68) and p[at + 2] > 55:
                return -1
            at += 4
        elif not (
            c == 34 or c == 92 or c == 47 or c == 98 or c == 102 or c == 110 or c == 114 or c == 116
        ):
            return -1
        at += 1


def is_hex(c):
    return 48 <= c <= 57 or 97 <= c <= 102 or 65 <= c <= 70


def digits_end(p, at, end):
    """Just behind digits that begin at `at`, or -1 when there are none."""
    start: int64_t = at
    while at < end and 48 <= p[at] <= 57:
        at += 1
    return at if at > start else -1


def number_end(p, at, end):
    """Just behind the number that begins at `at`, or -1."""
    if p[at] == 45:
        at += 1
    if at < end and p[at] == 48:
        at += 1
    else:
        at = digits_end(p, at, end)
        if at < 0:
            return -1
    if at < end and p[at] == 46:
        at = digits_end(p, at + 1, end)
        if at < 0:
            return -1
    if at < end and (p[at] == 101 or p[at] == 69):
        at += 1
        if at < end and (p[at] == 43 or p[at] == 45):
            at += 1
        at = digits_end(p, at, end)
    return at


def word_end(p, at, end):
    """Just behind true, false or null at `at`, or -1."""
    if end - at >= 4 and p[at] == 116 and p[at + 1] == 114 and p[at + 2] == 117:
        return at + 4 if p[at + 3] == 101 else -1
    if end - at >= 4 and p[at] == 110 and p[at + 1] == 117 and p[at + 2] == 108:
        return at + 4 if p[at + 3] == 108 else -1
    if end - at >= 5 and p[at] == 102 and p[at + 1] == 97 and p[at + 2] == 108:
        return at + 5 if p[at + 3] == 115 and p[at + 4] == 101 else -1
    return -1


def blanks_end(p, at, end):
    while at < end and p[at] <= 32 and (p[at] == 32 or p[at] == 10 or p[at] == 13 or p[at] == 9):
        at += 1
    return at


def is_plain_json(p, at, end):
    """Is this one JSON value: in ASCII, without blanks around, not nested too deep?"""
    objects: uint64_t = 0  # one bit for each of the last 64 open brackets: is it an object's?
    outer: uint64_t = 0  # the same of the first 64, while more are open
    depth: int64_t = 0
    after: int64_t = 0  # 0: a value comes; 1: or its array ends; 2: a name or the end; 3: a name
    c: cython.int
    while True:
        if depth:
            at = blanks_end(p, at, end)
        if at >= end:
            return False
        c = p[at]
        if after >= 2:
            if c == 34:
                at = string_end(p, at + 1, end)
                if at < 0:
                    return False
                at = blanks_end(p, at, end)
                if at >= end or p[at] != 58:
                    return False
                at += 1
                after = 0
                continue
            if c != 125 or after == 3:
                return False
        elif c == 123 or c == 91:
            if depth == DEPTH_MAX:
                return False
            if depth == 64:
                outer = objects
            depth += 1
            objects = (objects << 1) | (c == 123)
            after = 2 if c == 123 else 1
            at += 1
            continue
        elif c != 93 or after == 0:
            if c == 34:
                at = string_end(p, at + 1, end)
            elif c == 45 or 48 <= c <= 57:
                at = number_end(p, at, end)
            else:
                at = word_end(p, at, end)
            if at < 0:
                return False
            if depth == 0:
                return at == end
            at = blanks_end(p, at, end)
            if at >= end:
                return False
            c = p[at]
        # Behind a value, or at the end of an empty array or object.
        while c == 93 or c == 125:
            if (c == 125) != (objects & 1):
                return False
            objects >>= 1
            depth -= 1
            if depth == 64:
                objects = outer
            at += 1
            if depth == 0:
                return at == end
            at = blanks_end(p, at, end)
            if at >= end:
                return False
            c = p[at]
        if c != 44:
            return False
        at += 1
        after = 3 if objects & 1 else 0


def are_plain_json(texts: list):
    """Is each of them one JSON value in ASCII, without blanks around, nested at most DEPTH_MAX
    deep? False also for some that are: with escaped surrogates."""
    size: int64_t
    for text in texts:
        if type(text) is not bytes:
            raise TypeError(f"a text is {type(text).__name__}, not bytes")
        size = len(text)
        if cython.compiled:
            if not is_plain_json(cython.cast(Bytes, PyBytes_AS_STRING(text)), 0, size):
                return False
        elif not is_plain_json(text, 0, size):
            return False
    return True


def is_plain_text(text):
    """The same of one text; False for what is no bytes object."""
    if type(text) is not bytes:
        return False
    if cython.compiled:
        return is_plain_json(cython.cast(Bytes, PyBytes_AS_STRING(text)), 0, PyBytes_GET_SIZE(text))
    return is_plain_json(text, 0, len(text))


if not cython.compiled:

    def brackets_of(text):
        """The brackets outside of strings, up to a string that does not end."""
        if b"\\" in text:
            return NO_BRACKETS.sub(b"", text).partition(b'"')[0]
        return b"".join(text.split(b'"')[::2]).translate(None, NOT_BRACKETS)

    def is_deep(text, most):
        if text.count(b"[") + text.count(b"{") <= most:
            return False
        brackets = inner = brackets_of(text)
        for _ in range(min(8, most // 2)):  # the innermost go, at most two levels at once
            inner = inner.replace(b"[]", b"").replace(b"{}", b"")
        return bool(inner) and max(sums(map(STEPS.__getitem__, brackets), initial=0)) > most


def nesting(text: bytes):
    """How deep a JSON text nests: the most arrays and objects that are open at once, so 0 for a
    scalar and 1 for `[]`. Brackets in strings do not count. Any bytes may be asked about."""
    if not cython.compiled:
        return max(sums(map(STEPS.__getitem__, brackets_of(text)), initial=0))
    size: int64_t = len(text)
    return nesting_of(cython.cast(Bytes, PyBytes_AS_STRING(text)), size, size)


def first_deep(texts: list, most: int64_t):
    """The number of the first text that nests deeper than `most`, or -1. None is passed over, and
    so are texts of at most 2 * `most` bytes: as JSON, they cannot nest deeper."""
    i: int64_t
    size: int64_t
    for i in range(len(texts)):
        text = texts[i]
        if text is None:
            continue
        if not isinstance(text, bytes):
            raise TypeError(f"a text is {type(text).__name__}, not bytes")
        size = len(text)
        if size <= 2 * most:
            continue
        if cython.compiled:
            if nesting_of(cython.cast(Bytes, PyBytes_AS_STRING(text)), size, most) > most:
                return i
        elif is_deep(text, most):
            return i
    return -1


def lay_records(texts: list, tag: bytes, node: bytes):
    """The texts as records of a binary batch, each with this tag and node; empty is none."""
    if not cython.compiled:
        between = tag + node
        sizes = len(tag).to_bytes(2, "little") + len(node).to_bytes(2, "little")
        laid = []
        for text in texts:
            laid += (len(text).to_bytes(4, "little"), bytes(4), sizes, between, text)
        return b"".join(laid)
    extra: int64_t = len(tag) + len(node)
    total: int64_t = len(texts) * (12 + extra)
    for text in texts:
        if type(text) is not bytes:
            raise TypeError(f"a text is {type(text).__name__}, not bytes")
        total += len(text)
    out: Block = Block(total if total else 1)
    at: int64_t = 0
    size: int64_t
    i: int64_t
    for text in texts:
        size = len(text)
        for i in range(4):
            out.at[at + i] = (size >> (8 * i)) & 255
            out.at[at + 4 + i] = 0
        size = len(tag)
        out.at[at + 8] = size & 255
        out.at[at + 9] = (size >> 8) & 255
        memcpy(out.at + at + 12, PyBytes_AS_STRING(tag), size)
        size = len(node)
        out.at[at + 10] = size & 255
        out.at[at + 11] = (size >> 8) & 255
        memcpy(out.at + at + 12 + len(tag), PyBytes_AS_STRING(node), size)
        at += 12 + extra
        size = len(text)
        memcpy(out.at + at, PyBytes_AS_STRING(text), size)
        at += size
    if total == 0:
        return b""
    return out.taken()


def texts_of(values: list):
    """The bytes of every value (a buffer)."""
    if not cython.compiled:
        return list(map(bytes, values))
    raw = cython.declare(Py_buffer)
    i: int64_t
    count: int64_t = len(values)
    texts: list = [None] * count
    for i in range(count):
        PyObject_GetBuffer(values[i], cython.address(raw), PyBUF_SIMPLE)
        try:
            texts[i] = PyBytes_FromStringAndSize(cython.cast(cython.p_char, raw.buf), raw.len)
        finally:
            PyBuffer_Release(cython.address(raw))
    return texts


def split_records(buf: bytes, offset: int64_t, count: int64_t):
    """Cut `count` length-prefixed records out of buf[offset:]: datas, metas, tags, nodes, and
    where they end. A column in which nothing occurs is None. When the bytes do not suffice, the
    last value is -1 - i for the record i that is cut short.

    A record is u32 data length, u32 meta length, u16 tag length, u16 node length, and then tag,
    node, meta and data.
    """
    if not cython.compiled:
        return split_records_interpreted(buf, offset, count)
    size: int64_t = len(buf)
    if offset < 0 or count < 0 or offset > size or count > (size - offset) // 12:
        return [], None, None, None, -1 - max(count, 0)
    start: Bytes = cython.cast(Bytes, PyBytes_AS_STRING(buf))
    datas: list = [None] * count
    metas = tags = nodes = None
    at: int64_t = offset
    i: int64_t
    data_size: int64_t
    meta_size: int64_t
    tag_size: int64_t
    node_size: int64_t
    for i in range(count):
        if size - at < 12:
            return [], None, None, None, -1 - i
        data_size = u32(start, at)
        meta_size = u32(start, at + 4)
        tag_size = u16(start, at + 8)
        node_size = u16(start, at + 10)
        at += 12
        if size - at < tag_size + node_size + meta_size + data_size:
            return [], None, None, None, -1 - i
        if tag_size:
            tags = [None] * count if tags is None else tags
            tags[i] = PyBytes_FromStringAndSize(cython.cast(cython.p_char, start + at), tag_size)
            at += tag_size
        if node_size:
            nodes = [None] * count if nodes is None else nodes
            nodes[i] = PyBytes_FromStringAndSize(cython.cast(cython.p_char, start + at), node_size)
            at += node_size
        if meta_size:
            metas = [None] * count if metas is None else metas
            metas[i] = PyBytes_FromStringAndSize(cython.cast(cython.p_char, start + at), meta_size)
            at += meta_size
        datas[i] = PyBytes_FromStringAndSize(cython.cast(cython.p_char, start + at), data_size)
        at += data_size
    return datas, metas, tags, nodes, at


if not cython.compiled:
    LENGTHS = Struct("<IIHH")

    def split_records_interpreted(buf, offset, count):
        size = len(buf)
        if offset < 0 or count < 0 or offset > size or count > (size - offset) // 12:
            return [], None, None, None, -1 - max(count, 0)
        columns = [[None] * count, None, None, None]  # datas, metas, tags, nodes
        unpack = LENGTHS.unpack_from
        at = offset
        for i in range(count):
            if size - at < 12:
                return [], None, None, None, -1 - i
            data_size, meta_size, tag_size, node_size = unpack(buf, at)
            at += 12
            if size - at < tag_size + node_size + meta_size + data_size:
                return [], None, None, None, -1 - i
            for which, length in ((2, tag_size), (3, node_size), (1, meta_size)):
                if length:
                    if columns[which] is None:
                        columns[which] = [None] * count
                    columns[which][i] = buf[at : at + length]
                    at += length
            columns[0][i] = buf[at : at + data_size]
            at += data_size
        return (*columns, at)


# --- records that are encoded without being taken apart -------------------------------------------


def record_at(one, p, at, end):
    """The parts of the length-prefixed record at `at`; returns its end, or -1 when it is cut
    short."""
    if end - at < 12:
        return -1
    one.data.size = u32(p, at)
    one.meta.size = u32(p, at + 4)
    one.tag.size = u16(p, at + 8)
    one.node.size = u16(p, at + 10)
    at += 12
    if end - at < one.tag.size + one.node.size + one.meta.size + one.data.size:
        return -1
    one.tag.at = p + at
    one.node.at = one.tag.at + one.tag.size
    one.meta.at = one.node.at + one.node.size
    one.data.at = one.meta.at + one.meta.size
    return at + one.tag.size + one.node.size + one.meta.size + one.data.size


def is_ascii(p, size):
    i: int64_t
    found: cython.int = 0
    for i in range(size):
        found |= p[i]
    return found < 128


def weigh_records(p, at, end, count, tag_max, node_max, largest):
    """The payload bytes of records that need no closer look, or -1."""
    one: Parts
    total: int64_t = 0
    while count > 0:
        count -= 1
        at = record_at(cython.address(one), p, at, end)
        if at < 0 or one.meta.size or one.tag.size > tag_max or one.node.size > node_max:
            return -1
        if not (is_ascii(one.tag.at, one.tag.size) and is_ascii(one.node.at, one.node.size)):
            return -1
        if not is_plain_json(one.data.at, 0, one.data.size):
            return -1
        total += one.data.size
        if one.data.size > largest[0]:
            largest[0] = one.data.size
    return total if at == end else -1


def weigh_laid(buf: bytes, offset: int64_t, count: int64_t, tag_max: int64_t, node_max: int64_t):
    """(payload bytes, those of the largest) of `count` length-prefixed records that fill
    buf[offset:]; see `split_records`. (-1, 0) when one needs a closer look: it is cut short, has
    meta, a longer tag or node, or anything that is not ASCII or not plain JSON."""
    size: int64_t = len(buf)
    if offset < 0 or count < 0 or offset > size or count > (size - offset) // 12:
        return -1, 0
    if not cython.compiled:
        datas, metas, tags, nodes, end = split_records_interpreted(buf, offset, count)
        if end != size or metas is not None:
            return -1, 0
        for labels_, most in ((tags, tag_max), (nodes, node_max)):
            if any(len(one) > most or not one.isascii() for one in labels_ or () if one):
                return -1, 0
        if not all(is_plain_json(data, 0, len(data)) for data in datas):
            return -1, 0
        return sum(map(len, datas)), max(map(len, datas), default=0)
    largest: int64_t = 0
    total: int64_t
    start: Bytes = cython.cast(Bytes, PyBytes_AS_STRING(buf))
    most: cython.pointer[int64_t] = cython.address(largest)
    if size - offset >= 65536:  # as in `encode_appends`
        with cython.nogil:
            total = weigh_records(start, offset, size, count, tag_max, node_max, most)
    else:
        total = weigh_records(start, offset, size, count, tag_max, node_max, most)
    return total, largest if total >= 0 else 0


def encode_laid(
    topic_id: uint64_t,
    first_seq: uint64_t,
    ts: uint64_t,
    flags: cython.int,
    buf: bytes,
    offset: int64_t,
    count: int64_t,
    node,
):
    """What `encode_appends` gives for `count` length-prefixed records at buf[offset:]; `node` is
    that of records without one. ValueError when they do not lie whole inside the buffer."""
    size: int64_t = len(buf)
    if offset < 0 or count < 0 or offset > size or count > (size - offset) // 12:
        raise ValueError("the records do not lie inside the buffer")
    if not cython.compiled:
        datas, metas, tags, nodes, end = split_records_interpreted(buf, offset, count)
        if end < 0:
            raise ValueError(f"record {-1 - end} is cut short")
        return encode_appends_interpreted(
            topic_id, first_seq, ts, flags, datas, metas, tags, nodes, None, node
        )
    if count and first_seq + cython.cast(uint64_t, count) - 1 < first_seq:
        raise OverflowError("the last seq does not fit 64 bits")
    default_node: Text = text_of(node, "node", 0)
    check_label(default_node.size, "node", 0)
    start: Bytes = cython.cast(Bytes, PyBytes_AS_STRING(buf))
    workspace: Block = Block(count * cython.sizeof(Parts))
    parts: cython.pointer[Parts] = cython.cast(cython.pointer[Parts], workspace.at)
    one: cython.pointer[Parts]
    i: int64_t
    at: int64_t = offset
    total: int64_t = 0
    payload: int64_t = 0
    for i in range(count):
        one = parts + i
        at = record_at(one, start, at, size)
        if at < 0:
            raise ValueError(f"record {i} is cut short")
        if one.node.size == 0:
            one.node = default_node
        payload += one.data.size + one.meta.size
        total += 52 + one.node.size + one.tag.size + (5 if one.meta.size else 0)
    total += payload
    check_total(total)
    frames: Block = Block(total)
    offsets: Block = Block(4 * count)
    if total >= 65536:
        with cython.nogil:
            fill_appends(frames.at, offsets.at, parts, count, topic_id, first_seq, ts, flags)
    else:
        fill_appends(frames.at, offsets.at, parts, count, topic_id, first_seq, ts, flags)
    return frames.owner, offsets.owner, payload
