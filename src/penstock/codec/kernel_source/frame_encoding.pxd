# One record to encode.
ctypedef struct RecordParts:
    TextSpan data
    TextSpan meta
    TextSpan tag
    TextSpan node


cdef TextSpan text_of(object item, str what, int64_t i) except *
cdef int64_t put_header(WritePointer out, int64_t at, int kind, int flags, uint64_t topic_id, uint64_t seq, uint64_t ts, int64_t node_size, int64_t tag_size, int64_t data_size) noexcept nogil
cdef int64_t put_checksum(WritePointer out, int64_t start, int64_t at) noexcept nogil
cdef int64_t put_append(WritePointer out, int64_t at, RecordParts *one, uint64_t topic_id, uint64_t seq, uint64_t ts, int flags) noexcept nogil
cdef int64_t put_batch_start(WritePointer out, uint64_t topic_id, uint64_t seq, uint64_t ts, TextSpan key, int64_t count) noexcept nogil
cdef void fill_appends(WritePointer out, int64_t base, WritePointer offsets, RecordParts *parts, int64_t count, uint64_t topic_id, uint64_t seq, uint64_t ts, int flags) noexcept nogil
cdef int check_label(int64_t size, str what, int64_t i) except -1
cdef int check_total(int64_t total) except -1
cdef tuple column(object values, int64_t count, str what)
cdef int64_t batch_start_bytes(object key) except -1
