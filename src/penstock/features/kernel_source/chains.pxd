cdef int64_t _take_item(int64_t[:, ::1] items, int64_t[::1] pool) except -1 nogil
