cdef int64_t message_start(ReadPointer p, int64_t at, int64_t end, int64_t bytes_max) noexcept nogil
cdef int64_t message_bytes(ReadPointer p, int64_t start, int64_t size) noexcept nogil
cdef void unmask(ReadPointer p, int64_t start, int64_t size, WritePointer out) noexcept nogil
