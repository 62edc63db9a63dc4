"""Reading and writing integers and bytes in buffers."""

from __future__ import annotations

from penstock.codec.kernel_source import cython_shim as cython

if not cython.compiled:
    from struct import Struct

    U16, U32, U64 = Struct("<H"), Struct("<I"), Struct("<Q")

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

    def check_u64(*numbers):
        for number in numbers:
            if not 0 <= number < 1 << 64:
                raise OverflowError(f"{number} does not fit 64 bits without a sign")


class HeldBuffer:
    """A buffer held open. `at` is its address; interpreted, it is the buffer itself."""

    def __init__(self, source):
        if cython.compiled:
            PyObject_GetBuffer(source, cython.address(self.raw), PyBUF_SIMPLE)
            self.at = cython.cast(ReadPointer, self.raw.buf)
            self.size = self.raw.len
        else:
            self.at = source if isinstance(source, bytes) else memoryview(source).cast("B")
            self.size = len(self.at)

    def __dealloc__(self):
        if cython.compiled:
            PyBuffer_Release(cython.address(self.raw))


class OutputBuffer:
    """Memory of a fixed size that becomes a bytes object. Every byte must be written."""

    def __init__(self, size: int64_t):
        if cython.compiled:
            self.owner = PyBytes_FromStringAndSize(cython.NULL, size)
            self.at = cython.cast(WritePointer, PyBytes_AS_STRING(self.owner))
        else:
            self.at = bytearray(size)

    def as_bytes(self):
        if cython.compiled:
            return self.owner
        else:
            return bytes(self.at)


def grow(block, capacity, needed, width):
    """The block, reallocated for `needed` items, or NULL. After NULL the old block is valid."""
    wanted: int64_t = max(needed, 2 * capacity[0])
    fresh: cython.p_void = realloc(block, wanted * width)
    if fresh != cython.NULL:
        capacity[0] = wanted
    return fresh
