cdef int64_t _block_of(int64_t length, int64_t limit) noexcept nogil
