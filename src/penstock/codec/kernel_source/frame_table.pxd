cdef bint is_dead(ReadPointer dead, int64_t size, int64_t i) noexcept nogil
cdef int64_t locate(ReadPointer frames, int64_t size, ReadPointer table, int64_t stride, int64_t i) noexcept nogil
cdef int64_t live_at(ReadPointer frames, int64_t size, ReadPointer table, int64_t stride, ReadPointer dead, int64_t dead_size, int64_t i) noexcept nogil
cdef int64_t payload_bytes_at(ReadPointer frames, int64_t size, ReadPointer table, int64_t stride, int64_t i) noexcept nogil
cdef int check_range(HeldBuffer table, int64_t stride, int64_t i0, int64_t i1) except -1
cdef HeldBuffer bitmap(object dead)
