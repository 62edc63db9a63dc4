"""Length-prefixed records, as binary batches and sender frames carry them."""

from __future__ import annotations

from penstock.codec.kernel_source import cython_shim as cython
from penstock.codec.kernel_source.frame_encoding import (
    check_label,
)
from penstock.codec.kernel_source.layout import (
    RECORD_HEADER_BYTES,
    RECORD_META_LEN,
    RECORD_NODE_LEN,
    RECORD_TAG_LEN,
)
from penstock.codec.kernel_source.memory import OutputBuffer, put32, u16, u32

if not cython.compiled:
    from struct import Struct

    LENGTHS = Struct("<IIHH")


def pack_records(texts: list, tag: bytes, node: bytes):
    """The texts as length-prefixed records, each with this tag and node; empty means none."""
    check_label(len(tag), "tag", 0)
    check_label(len(node), "node", 0)
    if not cython.compiled:
        labels = tag + node
        pieces = []
        for text in texts:
            pieces += (LENGTHS.pack(len(text), 0, len(tag), len(node)), labels, text)
        return b"".join(pieces)
    tag_size: int64_t = len(tag)
    node_size: int64_t = len(node)
    extra: int64_t = tag_size + node_size
    total: int64_t = len(texts) * (RECORD_HEADER_BYTES + extra)
    for text in texts:
        if type(text) is not bytes:
            raise TypeError(f"a text is {type(text).__name__}, not bytes")
        total += len(text)
    out: OutputBuffer = OutputBuffer(total if total else 1)
    at: int64_t = 0
    size: int64_t
    for text in texts:
        size = PyBytes_GET_SIZE(text)
        put32(out.at, at, size)
        put32(out.at, at + RECORD_META_LEN, 0)
        put16(out.at, at + RECORD_TAG_LEN, tag_size)
        put16(out.at, at + RECORD_NODE_LEN, node_size)
        at += RECORD_HEADER_BYTES
        if extra:
            memcpy(out.at + at, PyBytes_AS_STRING(tag), tag_size)
            memcpy(out.at + at + tag_size, PyBytes_AS_STRING(node), node_size)
            at += extra
        memcpy(out.at + at, PyBytes_AS_STRING(text), size)
        at += size
    if total == 0:
        return b""
    return out.as_bytes()


def texts_of(values: list):
    """A bytes object for each value, which is a buffer."""
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
    where they end. A column without any text is None. When the buffer ends inside record i, the
    last value is -1 - i.

    A record is u32 data length, u32 meta length, u16 tag length, u16 node length, and then tag,
    node, meta and data.
    """
    if not cython.compiled:
        return split_records_interpreted(buf, offset, count)
    size: int64_t = len(buf)
    if offset < 0 or count < 0 or offset > size or count > (size - offset) // RECORD_HEADER_BYTES:
        return [], None, None, None, -1 - max(count, 0)
    start: ReadPointer = cython.cast(ReadPointer, PyBytes_AS_STRING(buf))
    datas: list = [None] * count
    metas = tags = nodes = None
    at: int64_t = offset
    i: int64_t
    data_size: int64_t
    meta_size: int64_t
    tag_size: int64_t
    node_size: int64_t
    for i in range(count):
        if size - at < RECORD_HEADER_BYTES:
            return [], None, None, None, -1 - i
        data_size = u32(start, at)
        meta_size = u32(start, at + RECORD_META_LEN)
        tag_size = u16(start, at + RECORD_TAG_LEN)
        node_size = u16(start, at + RECORD_NODE_LEN)
        at += RECORD_HEADER_BYTES
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

    def split_records_interpreted(buf, offset, count):
        size = len(buf)
        if (
            offset < 0
            or count < 0
            or offset > size
            or count > (size - offset) // RECORD_HEADER_BYTES
        ):
            return [], None, None, None, -1 - max(count, 0)
        columns = [[None] * count, None, None, None]  # datas, metas, tags, nodes
        unpack = LENGTHS.unpack_from
        at = offset
        for i in range(count):
            if size - at < RECORD_HEADER_BYTES:
                return [], None, None, None, -1 - i
            data_size, meta_size, tag_size, node_size = unpack(buf, at)
            at += RECORD_HEADER_BYTES
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
