# Loads and stores that are safe at any address and on any byte order, and the buffers of the kernel.

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memcpy, memset

ctypedef const unsigned char *ReadPointer
ctypedef unsigned char *WritePointer

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    #define PK_LE16(v) __builtin_bswap16(v)
    #define PK_LE32(v) __builtin_bswap32(v)
    #define PK_LE64(v) __builtin_bswap64(v)
    #else
    #define PK_LE16(v) (v)
    #define PK_LE32(v) (v)
    #define PK_LE64(v) (v)
    #endif

    static inline uint16_t pk_u16(const unsigned char *p, int64_t at) {
        uint16_t v; memcpy(&v, p + at, 2); return PK_LE16(v);
    }
    static inline uint32_t pk_u32(const unsigned char *p, int64_t at) {
        uint32_t v; memcpy(&v, p + at, 4); return PK_LE32(v);
    }
    static inline uint64_t pk_u64(const unsigned char *p, int64_t at) {
        uint64_t v; memcpy(&v, p + at, 8); return PK_LE64(v);
    }
    static inline void pk_put16(unsigned char *p, int64_t at, uint16_t v) {
        v = PK_LE16(v); memcpy(p + at, &v, 2);
    }
    static inline void pk_put32(unsigned char *p, int64_t at, uint32_t v) {
        v = PK_LE32(v); memcpy(p + at, &v, 4);
    }
    static inline void pk_put64(unsigned char *p, int64_t at, uint64_t v) {
        v = PK_LE64(v); memcpy(p + at, &v, 8);
    }
    static inline void pk_copy(unsigned char *to, int64_t at, const unsigned char *p, int64_t from, int64_t n) {
        memcpy(to + at, p + from, (size_t)n);
    }
    static inline void pk_clear(unsigned char *p, int64_t at, int64_t n) {
        memset(p + at, 0, (size_t)n);
    }
    """
    uint16_t u16 "pk_u16"(const unsigned char *p, int64_t at) noexcept nogil
    uint32_t u32 "pk_u32"(const unsigned char *p, int64_t at) noexcept nogil
    uint64_t u64 "pk_u64"(const unsigned char *p, int64_t at) noexcept nogil
    void put16 "pk_put16"(unsigned char *p, int64_t at, uint16_t v) noexcept nogil
    void put32 "pk_put32"(unsigned char *p, int64_t at, uint32_t v) noexcept nogil
    void put64 "pk_put64"(unsigned char *p, int64_t at, uint64_t v) noexcept nogil
    void copy "pk_copy"(WritePointer to, int64_t at, ReadPointer p, int64_t start, int64_t n) noexcept nogil
    void clear "pk_clear"(WritePointer p, int64_t at, int64_t n) noexcept nogil


# The buffer of any object, held open as long as this object lives.
@cython.final
cdef class HeldBuffer:
    cdef Py_buffer raw
    cdef ReadPointer at
    cdef int64_t size


# The memory of a new bytes object of known size, filled through a pointer.
@cython.final
cdef class OutputBuffer:
    cdef bytes owner
    cdef WritePointer at


# A text somewhere in memory that another object keeps alive.
ctypedef struct TextSpan:
    ReadPointer at
    int64_t size


cdef void *grow(void *block, int64_t *capacity, int64_t needed, int64_t width) noexcept nogil
