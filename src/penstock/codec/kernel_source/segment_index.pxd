cdef void put_entry(WritePointer out, int64_t at, uint64_t offset, ReadPointer p, int64_t start) noexcept nogil
