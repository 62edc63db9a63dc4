cdef bint fill_element_spans(ReadPointer p, int64_t end, int64_t records_max, WritePointer table, int64_t *count) noexcept nogil
