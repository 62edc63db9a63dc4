# The C signatures of counting_folds.py.

cdef int64_t _add_count(
    RowBlocks blocks, int64_t row, int64_t width, uint64_t key, uint64_t count
) except -1
cdef uint64_t _entries_from(
    RowBlocks blocks, int64_t at, int64_t end, uint64_t count
) noexcept
cdef uint64_t _residue(RowBlocks blocks, int64_t entry, uint64_t dropped) noexcept
cdef bint _has_half(
    RowBlocks blocks, int64_t at, int64_t end, uint64_t dropped, uint64_t cut
) noexcept
cdef int _drop_rare(RowBlocks blocks, int64_t row, bint has_texts) except -1
cdef uint64_t _bucket(uint64_t word, uint64_t widenings) noexcept
cdef uint64_t _wider(uint64_t bucket, uint64_t widenings) noexcept
cdef int _to_buckets(RowBlocks blocks, int64_t row) except -1
cdef int _add_to_bucket(
    RowBlocks blocks, int64_t row, uint64_t bucket, uint64_t count
) except -1
cdef int _widen(RowBlocks blocks, int64_t row) except -1
