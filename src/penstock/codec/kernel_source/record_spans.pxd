cdef bint is_ascii(ReadPointer p, int64_t at, int64_t size) noexcept nogil
cdef bint fill_packed_spans(ReadPointer p, int64_t at, int64_t end, int64_t count, int64_t tag_max, int64_t node_max, WritePointer table) noexcept nogil
cdef int64_t name_end(ReadPointer p, int64_t at, int64_t end) noexcept nogil
cdef int64_t value_start(ReadPointer p, int64_t at, int64_t end) noexcept nogil
cdef int64_t span_of_name(ReadPointer p, int64_t at, int64_t size) noexcept nogil
cdef int64_t fill_json_span(ReadPointer p, int64_t at, int64_t end, int64_t tag_max, int64_t node_max, WritePointer table, int64_t row) noexcept nogil
cdef int64_t fill_json_spans(ReadPointer p, int64_t at, int64_t end, int64_t records_max, int64_t tag_max, int64_t node_max, WritePointer table, int64_t *count) noexcept nogil
cdef bint is_records(ReadPointer p, int64_t at, int64_t size) noexcept nogil
cdef bint fill_body_spans(ReadPointer p, int64_t end, int64_t records_max, int64_t tag_max, int64_t node_max, WritePointer table, int64_t *count, int64_t *array) noexcept nogil
cdef bint check_spans(int64_t size, ReadPointer table, int64_t i) noexcept nogil
cdef int64_t fill_span_frames(WritePointer out, int64_t at, int64_t base, WritePointer offsets, int64_t first, ReadPointer p, ReadPointer table, int64_t count, TextSpan *node, uint64_t topic_id, uint64_t seq, uint64_t ts, int flags) noexcept nogil
