# Memory of rows, and the C signatures of row_blocks.py.

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

cdef extern from *:
    """
    #define PK_LOW_HALF 0xFFFFFFFFULL
    """
    const uint64_t LOW_HALF "PK_LOW_HALF"


@cython.final
cdef class RowBlocks:
    cdef uint64_t *words
    cdef uint64_t *heads
    cdef uint64_t[BLOCK_SIZES] released
    cdef int64_t end, capacity, rows, row_capacity


cdef uint64_t *_resized(uint64_t *words, int64_t old, int64_t new) except NULL
cdef int64_t _head(RowBlocks blocks, int64_t row) except -1
cdef int64_t _block_size(int64_t number) noexcept
cdef int64_t _block_number(int64_t size) noexcept
cdef int64_t _allocate(RowBlocks blocks, int64_t size) except -1
cdef void _release(RowBlocks blocks, int64_t at, int64_t size) noexcept
cdef void _fill_zeros(RowBlocks blocks, int64_t at, int64_t size) noexcept
cdef int64_t _block_words(int64_t count, int64_t mode, int64_t width) noexcept
cdef int _append_word(RowBlocks blocks, int64_t row, uint64_t word) except -1
cdef int64_t _store_text(RowBlocks blocks, str text) except -1
cdef void _release_text(RowBlocks blocks, int64_t at) noexcept
cdef int _empty_row(RowBlocks blocks, int64_t head, int64_t width, int64_t text_word) except -1
cdef bytes _word_bytes(RowBlocks blocks, int64_t at, int64_t count)
