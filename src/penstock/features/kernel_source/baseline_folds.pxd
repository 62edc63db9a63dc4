cdef int64_t _bucket_at(int64_t key, int64_t start, int64_t window_ms, int64_t[:, ::1] keys, double[:, ::1] key_floats, int64_t[:, ::1] buckets, double[:, ::1] bucket_floats, int64_t[::1] pool) except -1 nogil
cdef int64_t _free_expired(int64_t key, int64_t oldest, int64_t[:, ::1] keys, int64_t[:, ::1] buckets, int64_t[::1] pool) except -1 nogil
cdef int64_t _keep_older(int64_t key, int64_t window_ms, int64_t[:, ::1] keys, double[:, ::1] key_floats, int64_t[:, ::1] buckets, double[:, ::1] bucket_floats, int64_t[::1] pool) except -1 nogil
cdef int64_t _keep_too(int64_t key, int64_t at, int64_t window_ms, int64_t[:, ::1] keys, double[:, ::1] key_floats, int64_t[:, ::1] buckets, double[:, ::1] bucket_floats) except -1 nogil
