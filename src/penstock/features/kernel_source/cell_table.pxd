cdef enum:
    CELLS_USED = 0
    CELLS_FREE = 1
    CELLS_DROPPED = 2
    CELLS_LIVE = 3
    CELLS_TO_CLEAR = 4


cdef int64_t _drop_oldest(int64_t slot, int64_t first, int32_t[::1] heads, int32_t[::1] tails, int32_t[::1] older, int32_t[::1] newer, int64_t[::1] starts, int64_t[::1] state) except -1 nogil
