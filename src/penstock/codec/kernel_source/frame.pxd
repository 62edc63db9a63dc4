cdef int frame_fault(ReadPointer p, int64_t at, int64_t end) noexcept nogil
cdef bint checksum_holds(ReadPointer p, int64_t at) noexcept nogil
cdef int64_t payload_bytes_of(ReadPointer p, int64_t at) noexcept nogil
cdef int64_t value_end(ReadPointer p, int64_t at, int64_t end) noexcept nogil
cdef int64_t meta_bytes_of(ReadPointer p, int64_t body, int64_t size) noexcept nogil
cdef bint tag_matches(ReadPointer p, int64_t start, ReadPointer pattern, int64_t size, bint prefix) noexcept nogil
cdef int64_t data_start(int64_t body, int64_t meta) noexcept nogil
