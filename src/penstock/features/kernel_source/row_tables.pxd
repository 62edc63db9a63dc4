# The constants of hashing, and the C signatures of row_tables.py.

cdef extern from *:
    """
    #define PK_GOLDEN 0x9E3779B97F4A7C15ULL
    #define PK_MIX_1 0xBF58476D1CE4E5B9ULL
    #define PK_MIX_2 0x94D049BB133111EBULL
    #define PK_WORD_MAX 0xFFFFFFFFFFFFFFFFULL
    """
    const uint64_t GOLDEN "PK_GOLDEN", MIX_1 "PK_MIX_1", MIX_2 "PK_MIX_2"
    const uint64_t WORD_MAX "PK_WORD_MAX"


cdef uint64_t _mix(uint64_t word) noexcept
cdef int64_t _slot(uint64_t key, int64_t mode) noexcept
cdef int64_t _room(int64_t mode) noexcept
cdef int64_t _find(RowBlocks blocks, int64_t row, int64_t width, uint64_t key) noexcept
cdef int64_t _place(
    RowBlocks blocks, int64_t at, int64_t mode, int64_t used, int64_t width, uint64_t key
) noexcept
cdef int64_t _insert(RowBlocks blocks, int64_t row, int64_t width, uint64_t key) except -1
cdef int _rebuild(RowBlocks blocks, int64_t row, int64_t width, int64_t mode) except -1
cdef int _load_table(
    RowBlocks blocks,
    int64_t row,
    int64_t width,
    const uint64_t[::1] words,
    int64_t at,
    int64_t end,
) except -1
cdef int _load_words(
    RowBlocks blocks,
    int64_t head,
    int64_t mode,
    const uint64_t[::1] words,
    int64_t at,
    int64_t end,
) except -1
